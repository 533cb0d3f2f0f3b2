"""A chemical language model before reinforcement learning: supervised training on molecules, each written at random."""

import contextlib
import dataclasses
import functools
import itertools
import math
import zlib
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh
from scipy.stats import wasserstein_distance

from experiments.molecules.rdkit_properties import moses_properties, random_spelling
from ipsrl import extras
from ipsrl.distributed.mesh import make_mesh, sharded
from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.data import StoredMolecules, molecules
from ipsrl.environments.molecules.environment import Molecules
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.environments.molecules.smiles import SmilesVocabulary
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.environments.token_stream import written_answers
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_space import StateSpace
from ipsrl.records.progress_line import working
from ipsrl.records.run_log import require_finite
from ipsrl.rollouts.given_answers import answer_log_probs
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.training.supervised.priors import teacher
from ipsrl.training.supervised.warm_start import learned_once
from ipsrl.training.trainer import Trainer

AMIDES = "amides"
"""Name of the few products of `Reactions`, for trials without a set of molecules."""
LEARNED_FROM = 10_000
"""Molecules whose tokens are the vocabulary, besides the branches and ring numbers that random spellings may need."""
NEEDED = "()123456789"
GROUPS = 2
"""Groups in a step, all of the one prompt."""
SAMPLED_AT_ONCE = 500
CHECKED_EVERY = 50
"""Steps between looks at the loss, for each of which the host waits."""


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """Supervised training of a policy on a split of molecules; each is read once, in a random spelling.

    Attributes:
      data: of `ipsrl.environments.molecules.data`, or `AMIDES`.
      molecules: how many are read; all of the split if it has fewer.
      batch: strings in a step, half of them in each of two groups, so that two devices share the work.
      learning_rate: of Adam, with cosine decay to zero.
      max_tokens: strings with more, and such with unknown tokens, are left out.
      hidden_size, num_layers, state_size: of the policy, a `StateSpace`.
      seed: of the order, the spellings and the parameters.
    """

    data: str
    molecules: int
    batch: int
    learning_rate: float
    max_tokens: int
    hidden_size: int
    num_layers: int
    state_size: int
    seed: int = 0

    def known(self, split: str) -> StoredMolecules | np.ndarray:
        """The molecules of a split; raises ValueError if there are none."""
        if self.data == AMIDES:
            return np.array(Reactions().outcome_names())
        return molecules(self.data, split)

    @functools.cached_property
    def vocabulary(self) -> SmilesVocabulary:
        return SmilesVocabulary.of([*self.known("train")[:LEARNED_FROM], NEEDED])

    @property
    def policy(self) -> Policy:
        # With chunks of one token a CPU takes half the time, and these texts are short.
        return StateSpace(
            len(self.vocabulary.tokens),
            self.hidden_size,
            self.num_layers,
            state_size=self.state_size,
            chunk=1,
        )

    @property
    def environment(self) -> Molecules:
        """The environment of the prior; its reward, QED, is not read by supervised training."""
        return Molecules(self.vocabulary, rewards.qed(), max_tokens=self.max_tokens)

    @functools.cached_property
    def parameters(self) -> Parameters:
        """Learned once, and then read from the disk cache (`IPSRL_CACHE`), as long as data and RDKit are the same.

        Raises:
          ValueError: there are no such molecules, or fewer strings that fit than a batch has.
          NonFiniteLossError: the loss, the gradient or the parameters of a step were NaN or infinite.
        """
        self.known("test")
        extras.require("rdkit")
        from rdkit import __version__ as version

        taught = {
            "pretraining": dataclasses.asdict(self),
            "molecules": zlib.crc32("\n".join(self.chosen).encode()),
            "code": zlib.crc32(Path(__file__).read_bytes()),
            "rdkit": version,
        }
        return learned_once(self.environment, self.policy, {"prior": taught}, self.learn)

    def learn(self) -> Parameters:
        trainer = self.teacher()
        with working("learning the prior"), jax.set_mesh(mesh_of_groups()):
            state = trainer.init(self.seed)
            for step in range(1, trainer.settings.steps + 1):
                state, metrics = trainer.step(state)
                if step % CHECKED_EVERY == 0 or step == trainer.settings.steps:
                    require_finite(jax.device_get(metrics), step, "none")
        return state.parameters

    @functools.cached_property
    def chosen(self) -> list[str]:
        """The molecules that are read, in this order."""
        known = self.known("train")
        order = np.random.default_rng(self.seed).permutation(len(known))
        return list(known[order[: self.molecules]])

    def answers(self) -> list[list[int]]:
        """Tokens of the molecules in random spellings, of those that fit."""
        written = VerifierPool().read(
            functools.partial(random_spelling, seed=self.seed), self.chosen
        )
        return encoded(filter(None, written), self.vocabulary, self.max_tokens)

    def teacher(self) -> Trainer:
        """Supervised training on groups of these strings, all of which belong to the same prompt."""
        answers, group_size = self.answers(), self.batch // GROUPS
        steps = len(answers) // (GROUPS * group_size)
        if not steps:
            raise ValueError(
                f"{len(answers)} of {len(self.chosen)} molecules have known tokens only, and at most "
                f"{self.max_tokens}: fewer than the {self.batch} of a batch; read more, or allow more tokens"
            )
        firsts = range(0, steps * GROUPS * group_size, group_size)
        groups = [answers[first : first + group_size] for first in firsts]
        rows = [
            {
                "prompt": 0,
                "answers": group,
                "rewards": [1] * group_size,
                "outcomes": [0] * group_size,
            }
            for group in groups
        ]
        how = steps, GROUPS, group_size, self.learning_rate
        return teacher(self.environment, self.policy, rows, *how)

    def sampled(
        self, parameters: Parameters, number: int, seed: int, reference: Parameters
    ) -> tuple[list[str], np.ndarray]:
        """Strings of a policy, empty where one has no end, and `[N]`, the logarithms of their probability over that
        under a reference.
        """
        prompts = sharded(self.environment.prompts(np.zeros(GROUPS, np.int32)))
        texts, log_ratios = [], []
        group_size = -(-min(number, SAMPLED_AT_ONCE) // GROUPS)
        for block in range(-(-number // (GROUPS * group_size))):
            key, how = stream(seed, block, "samples"), (self.environment, self.policy, parameters)
            answers = sample_groups(*how, prompts, key, group_size)
            own = answers.behaviour_log_probs.sum(axis=-1)
            log_ratios.append(np.ravel(own - answer_log_probs(self.policy, reference, answers)))
            written = written_answers(jax.device_get(answers))
            texts += self.environment.strings(itertools.chain(*written))
        return texts[:number], np.concatenate(log_ratios)[:number]

    def report(self, number: int) -> dict[str, float]:
        """The measures of MOSES (arXiv 1811.12823), from `number` sampled strings.

        valid: the share of strings that are molecules.
        unique: the share of valid strings that are different molecules.
        novel: the share of these that are not in the split train.
        distance_NAME: the 1-Wasserstein distance of a property (logP, SA, QED, weight) between the valid molecules and
          as many of the split test.
        """
        with jax.set_mesh(mesh_of_groups()):
            texts, _ = self.sampled(self.parameters, number, self.seed, self.parameters)
        read = self.environment.read(texts)
        valid = [molecule.canonical for molecule in read if molecule is not None]
        different = set(valid)
        rest = different.difference(self.known("train"))
        pool = VerifierPool()
        ours, theirs = (
            [found for found in pool.read(moses_properties, some) if found is not None]
            for some in (valid, list(self.known("test")[:number]))
        )
        shares = {
            "valid": len(valid) / number,
            "unique": len(different) / max(len(valid), 1),
            "novel": len(rest) / max(len(different), 1),
        }
        samples = {
            name: [[row[name] for row in rows] for rows in (ours, theirs)] for name in theirs[0]
        }
        return shares | {
            f"distance_{name}": wasserstein_distance(*both) if ours else float("nan")
            for name, both in samples.items()
        }


def mesh_of_groups() -> Mesh:
    """A mesh whose devices share the groups of a step evenly; further devices do the same."""
    return make_mesh(f"data:{math.gcd(jax.device_count(), GROUPS)},replica:-1")


def encoded(texts: Iterable[str], vocabulary: SmilesVocabulary, longest: int) -> list[list[int]]:
    """Tokens of the strings that fit and have known tokens only."""
    rows = []
    for text in texts:
        with contextlib.suppress(ValueError):
            rows.append(vocabulary.encode(text).tolist())
    return [row for row in rows if len(row) <= longest]
