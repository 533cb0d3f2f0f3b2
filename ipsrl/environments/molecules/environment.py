"""Molecules written as SMILES strings, token by token, and rewarded by RDKit."""

import dataclasses
import functools
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from ipsrl import extras
from ipsrl.checking.fields import Checked, one_of, positive
from ipsrl.environments.listed_task import NO_OUTCOME
from ipsrl.environments.molecules.chemistry import IDENTITIES, Molecule, MoleculeReader
from ipsrl.environments.molecules.rewards import MoleculeReward
from ipsrl.environments.molecules.smiles import BEGIN, END, SmilesVocabulary
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.environments.token_stream import TokenStream, written_answers
from ipsrl.structures import Outcomes, Prompts, Trajectories

READINGS_KEPT = 2**17


@dataclasses.dataclass(frozen=True)
class Molecules(TokenStream, Checked):
    """Answers are SMILES strings after `^`, the only prompt, up to `$`; the reward is that of the molecule.

    RDKit reads strings in the verifier pool, each string once: a policy's repetitions get the reward of the first. A
    string that is unfinished, no molecule, or too much for the limits of the pool has no outcome and reward 0. So has
    a molecule without that by which outcomes are told apart, as the scaffold class of atoms with five bonds.

    `identity` says which molecules are the same outcome: those with the same `canonical` string, the same Bemis-Murcko
    `scaffold`, or the same `scaffold_class`. Ids are hashes of these texts (31 bits of CRC-32). Many strings spell one
    molecule, so with `canonical` the environment gives `log_backward`, the log-probability of the string among the
    molecule's usual ones, see `chemistry.log_spelling`; for scaffolds no such probability is known. Strings without a
    molecule count as one more outcome there: of n tokens of a vocabulary of V, each has the probability
    1 / (max_tokens V^n), which adds up to at most one.

    Attributes:
      vocabulary: of the tokens.
      reward: of molecules, in [0, 1], see `rewards`.
      identity: one of `IDENTITIES`.
      max_tokens: with the `$` at the end.
      verifier: the processes that run RDKit.

    Raises:
      ValueError: RDKit is not installed, or the identity or a number is not one of these.
    """

    vocabulary: SmilesVocabulary
    reward: MoleculeReward
    identity: str = one_of(*IDENTITIES, default="canonical")
    max_tokens: int = positive(128)
    verifier: VerifierPool = dataclasses.field(default_factory=VerifierPool)

    stop_tokens: ClassVar[tuple[int, ...]] = (0,)

    def __post_init__(self):
        super().__post_init__()
        extras.require("rdkit")
        self.reward.check()

    @property
    def vocabulary_size(self) -> int:
        return len(self.vocabulary.tokens)

    @property
    def optional_fields(self) -> frozenset[str]:
        return frozenset({"log_backward"} if self.identity == "canonical" else ())

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        begin = self.vocabulary.tokens.index(BEGIN)
        return Prompts(np.zeros(1, np.int32), np.full((1, 1), begin, np.int32), np.ones((1, 1), bool))

    def strings(self, answers: Iterable[Sequence[int] | np.ndarray]) -> list[str]:
        """The SMILES strings of answers; empty for one without an end."""
        end = self.vocabulary.tokens.index(END)
        return [self.vocabulary.decode(answer) if end in answer else "" for answer in answers]

    def read(self, texts: Sequence[str]) -> list[Molecule | None]:
        """The molecule of each string; None where there is none."""
        known = _readings(MoleculeReader(self.reward))
        unknown = [text for text in dict.fromkeys(texts) if text and text not in known]
        if len(known) + len(unknown) > READINGS_KEPT:
            known.clear()
            unknown = [text for text in dict.fromkeys(texts) if text]
        known.update(zip(unknown, self.verifier.read(MoleculeReader(self.reward), unknown), strict=True))
        return [known.get(text) for text in texts]

    def molecules(self, trajectories: Trajectories) -> list[list[Molecule | None]]:
        """`[P, G]`, the molecule of each answer; None where there is none."""
        groups = list(written_answers(trajectories))
        read = iter(self.read(self.strings(answer for group in groups for answer in group)))
        return [[next(read) for _ in group] for group in groups]

    def verify(self, trajectories: Trajectories) -> Outcomes:
        found = self.molecules(trajectories)
        outcome_id = np.array([[self.outcome(molecule) for molecule in group] for group in found], np.int32)
        rewards = [[0.0 if molecule is None else molecule.reward for molecule in group] for group in found]
        spelled = [[0.0 if molecule is None else molecule.log_spelling for molecule in group] for group in found]
        lengths = np.asarray(trajectories.token_mask).sum(axis=-1)
        unread = -math.log(self.max_tokens) - lengths * math.log(self.vocabulary_size)
        log_backward = np.where(outcome_id == NO_OUTCOME, unread, spelled).astype(np.float32)
        return Outcomes(
            rewards=np.where(outcome_id == NO_OUTCOME, 0.0, rewards).astype(np.float32),
            outcome_id=outcome_id,
            log_backward=log_backward if self.optional_fields else None,
        )

    def outcome(self, molecule: Molecule | None) -> int:
        """The id of a molecule's outcome; -1 for none."""
        text = getattr(molecule, self.identity, None)
        return NO_OUTCOME if text is None else zlib.crc32(text.encode()) >> 1


# The readings of a run are asked for again by measures, and by environments that differ only in their outcomes.
@functools.lru_cache(maxsize=8)
def _readings(reader: MoleculeReader) -> dict[str, Molecule | None]:
    return {}
