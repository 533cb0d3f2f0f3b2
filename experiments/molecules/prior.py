"""A chemical language model before reinforcement learning: supervised training on molecules, each written at random."""

import dataclasses
import functools
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh

from experiments.molecules.measures import histogram_distance
from ipsrl import extras, objectives
from ipsrl.distributed.mesh import DATA
from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.chemistry import PropertyReader, Spelling
from ipsrl.environments.molecules.data import MOSES, StoredMolecules, molecules
from ipsrl.environments.molecules.environment import Molecules
from ipsrl.environments.molecules.reactions import Reactions
from ipsrl.environments.molecules.smiles import SmilesVocabulary
from ipsrl.environments.token_stream import written_answers
from ipsrl.environments.verifier_pool import VerifierPool
from ipsrl.fields import Checked, at_least, between, positive
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.policies.state_space import StateSpace
from ipsrl.records.progress_line import working
from ipsrl.records.run_log import require_finite
from ipsrl.rollouts.randomness import LARGEST_SEED, stream
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.source import sharded
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.structures import Trajectories, masked_sum
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from ipsrl.training.warm_start import learned_once

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
class Pretraining(Checked):
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

    data: str = MOSES
    molecules: int = positive(40_000)
    batch: int = at_least(GROUPS, 32)
    learning_rate: float = positive(5e-3)
    max_tokens: int = positive(60)
    hidden_size: int = positive(128)
    num_layers: int = positive(4)
    state_size: int = positive(8)
    seed: int = between(0, LARGEST_SEED, 0)

    def known(self, split: str) -> StoredMolecules | np.ndarray:
        """The molecules of a split; raises ValueError if there are none."""
        return (
            np.array(Reactions().outcome_names())
            if self.data == AMIDES
            else molecules(self.data, split)
        )

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
        """With QED as the reward, which supervised training does not read."""
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
        with working("learning the prior"):
            trainer = self.trainer(*self.strings())
            with jax.set_mesh(mesh_of_groups()):
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

    def strings(self) -> tuple[np.ndarray, np.ndarray]:
        """`[N, T]` int32 tokens, padded with the end, and `[N]` lengths, of the molecules in random spellings."""
        written = VerifierPool().read(Spelling(self.seed), self.chosen)
        return encoded([text for text in written if text], self.vocabulary, self.max_tokens)

    def trainer(self, tokens: np.ndarray, lengths: np.ndarray) -> Trainer:
        """Supervised training on groups of these strings, all of which belong to the same prompt."""
        group_size = self.batch // GROUPS
        steps = len(tokens) // (GROUPS * group_size)
        if not steps:
            raise ValueError(
                f"{len(tokens)} of {len(self.chosen)} molecules have known tokens only, and at most {self.max_tokens}: "
                f"fewer than the {self.batch} of a batch; read more, or allow more tokens"
            )
        shape = steps * GROUPS, group_size
        number = shape[0] * shape[1]
        source = StoredGroups(
            self.environment,
            self.policy,
            GROUPS,
            prompt_index=np.zeros(shape[0], np.int32),
            tokens=tokens[:number].reshape(*shape, -1),
            lengths=lengths[:number].reshape(shape),
            rewards=np.ones(shape),
            outcome_id=np.zeros(shape, np.int32),
            log_probs=np.zeros((*shape, tokens.shape[1]), np.float32),
        )
        settings = TrainSettings(
            steps, GROUPS, group_size, learning_rate=self.learning_rate, cosine_decay=True
        )
        return Trainer(
            self.environment, self.policy, objectives.make("supervised"), settings, source
        )

    def report(self, parameters: Parameters, number: int) -> dict[str, float]:
        """What MOSES asks of a model (arXiv 1811.12823), of `number` strings: `valid`, the share that are molecules;
        `unique`, of these the share that are different; `novel`, of those the share that are not in the split train;
        and the 1-Wasserstein distance of logP, SA, QED and weight of the valid ones to as many molecules of the split
        test.
        """
        with jax.set_mesh(mesh_of_groups()):
            texts = sampled(
                self.environment, self.policy, parameters, number, self.seed, parameters
            ).texts
        valid = [
            molecule.canonical for molecule in self.environment.read(texts) if molecule is not None
        ]
        different = set(valid)
        rest = different.difference(self.known("train"))
        pool, reader = VerifierPool(), PropertyReader()
        ours, theirs = (
            [found for found in pool.read(reader, some) if found is not None]
            for some in (valid, list(self.known("test")[:number]))
        )
        distances = {
            f"distance_{name}": histogram_distance(
                [properties[name] for properties in ours],
                [properties[name] for properties in theirs],
            )
            for name in theirs[0]
        }
        shares = {
            "valid": len(valid) / number,
            "unique": len(different) / max(len(valid), 1),
            "novel": len(rest) / max(len(different), 1),
        }
        return shares | distances


def mesh_of_groups() -> Mesh:
    """A mesh of as many devices of this process as can share the groups of a step evenly."""
    number = math.gcd(jax.local_device_count(), GROUPS)
    return jax.make_mesh(
        (number,), (DATA,), axis_types=(AxisType.Auto,), devices=jax.local_devices()[:number]
    )


def encoded(
    texts: Sequence[str], vocabulary: SmilesVocabulary, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """`[N, longest]` int32 tokens and `[N]` lengths of the strings that fit and have known tokens only."""
    rows = []
    for text in texts:
        try:
            rows.append(vocabulary.encode(text))
        except ValueError:
            continue
    rows = [row for row in rows if len(row) <= longest]
    tokens = np.zeros((len(rows), longest), np.int32)
    for filled, row in zip(tokens, rows, strict=True):
        filled[: len(row)] = row
    return tokens, np.array([len(row) for row in rows], np.int32)


@dataclasses.dataclass(frozen=True)
class Sample:
    """Strings of a policy.

    Attributes:
      texts: N strings; empty where one has no end.
      log_probs, reference_log_probs: `[N]`, of the strings under the policy, and under another one.
    """

    texts: list[str]
    log_probs: np.ndarray
    reference_log_probs: np.ndarray


def sampled(
    environment: Molecules,
    policy: Policy,
    parameters: Parameters,
    number: int,
    seed: int,
    reference: Parameters,
) -> Sample:
    """Strings of a policy, in blocks of `SAMPLED_AT_ONCE`, and their probabilities under a reference."""
    prompts, parts = sharded(environment.prompts(np.zeros(GROUPS, np.int32))), []
    group_size = -(-min(number, SAMPLED_AT_ONCE) // GROUPS)
    for block in range(-(-number // (GROUPS * group_size))):
        key = stream(seed, block, "samples")
        answers = sample_groups(environment, policy, parameters, prompts, key, group_size)
        others = _log_probs(policy, reference, answers)
        own = answers.behaviour_log_probs.sum(axis=-1)
        groups = written_answers(jax.device_get(answers))
        texts = environment.strings(answer for group in groups for answer in group)
        parts.append((texts, *map(np.ravel, jax.device_get((own, others)))))
    texts, own, others = zip(*parts, strict=True)
    flat = [text for part in texts for text in part][:number]
    return Sample(flat, np.concatenate(own)[:number], np.concatenate(others)[:number])


@functools.partial(jax.jit, static_argnames="policy")
def _log_probs(policy: Policy, parameters: Parameters, answers: Trajectories) -> Array:
    """`[P, G]`, of whole answers."""
    return masked_sum(policy.score(parameters, answers, 1.0).log_probs, answers.token_mask, axis=-1)
