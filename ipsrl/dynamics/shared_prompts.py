"""Prompts that share parameters: what training on one does to the outcomes of another."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import between
from ipsrl.dynamics.field import Field, LogitField


@dataclasses.dataclass(frozen=True)
class SharedPrompts(LogitField):
    """The expected updates of P bandits whose logits are linear in shared parameters, dz/dt, in float64.

    Features phi_p of length 1 describe the prompts, z_p = W phi_p are their logits, and W moves by the sum over prompts
    of F_p phi_p^T, F_p the field of the prompt alone:

        dz_p/dt = sum_q C_pq F_q(z_q),      C_pq = phi_p . phi_q, 1 for p = q and `overlap` for others

    With an overlap below 1, C is invertible: nothing rests unless each prompt rests alone. Where each F_q is the
    gradient of a V_q, their sum still rises, at the rate F^T C F >= 0, so that its maxima attract for every overlap.
    Other prompts then decide only what a prompt alone leaves to its start, such as which of two ties is lost. With an
    overlap of 1 all prompts are one policy, which follows the sum of the fields. The flow is `field.follow`'s.

    Attributes:
      prompts: the fields of the prompts, of bandits with as many outcomes.
      overlap: the cosine of the angle between the features of two prompts.

    Raises:
      ValueError: there are fewer than two prompts, or they are not bandits with as many outcomes.
    """

    prompts: tuple[Field, ...]
    overlap: float = between(0.0, 1.0)

    def __post_init__(self):
        super().__post_init__()
        for prompt in self.prompts:
            prompt.require_bandit("prompts that share parameters")
        if len(self.prompts) < 2 or len({len(prompt.rewards) for prompt in self.prompts}) > 1:
            raise ValueError(
                f"prompts have {[len(prompt.rewards) for prompt in self.prompts]} outcomes, but there must be two "
                "prompts or more, with equally many outcomes"
            )

    @property
    def table_shape(self) -> tuple[int, int]:
        """(P, K)."""
        return len(self.prompts), len(self.prompts[0].rewards)

    @checked
    def __call__(self, logits: np.ndarray) -> np.ndarray:
        """`[N, P K]` at the logits `[N, P K]`, prompt by prompt."""
        tables = logits.reshape(-1, *self.table_shape)
        alone = np.stack([prompt(tables[:, number]) for number, prompt in enumerate(self.prompts)], axis=1)
        shared = (1 - self.overlap) * alone + self.overlap * alone.sum(axis=1, keepdims=True)
        return shared.reshape(logits.shape)

    @functools.cached_property
    def scale(self) -> float:
        """The largest of the prompts' own."""
        return max(prompt.scale for prompt in self.prompts)

    def logits_of(self, distributions: Sequence[Sequence[float]] | np.ndarray, name: str) -> np.ndarray:
        """Logits `[N, P K]` of distributions `[N, P K]`, one prompt after another; see `Field.logits_of`."""
        tables = np.asarray(distributions, np.float64).reshape(-1, *self.table_shape)
        logits = [prompt.logits_of(tables[:, number], name) for number, prompt in enumerate(self.prompts)]
        return np.concatenate(logits, axis=1)

    def log_probs(self, logits: np.ndarray) -> np.ndarray:
        """Log-probabilities `[..., P K]` of the outcomes at the logits `[..., P K]`, prompt by prompt."""
        return log_softmax(logits.reshape(*logits.shape[:-1], *self.table_shape), axis=-1).reshape(logits.shape)
