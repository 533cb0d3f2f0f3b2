"""Rewards minus the optimal value of the return that is regularised to a reference: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.fields import positive
from ipsrl.objectives.estimators.answered import equal_among_answered
from ipsrl.objectives.objective import RolloutPart
from ipsrl.structures import Rollouts, Sizes, masked_sum


@dataclasses.dataclass(frozen=True)
class OptimalAdvantage(RolloutPart):
    """A = r - V*, V* = beta log( sum w exp(r / beta) / sum w ) over answers of the reference: A*-PO (arXiv 2505.20686).

    w = pi_ref / mu, the probabilities of the whole answer, is 1 for answers that the reference itself has sampled, as
    the paper's are; for the policy's own, this is self-normalised importance sampling, between the lowest and the
    highest reward. `value`:

        first     V* of the prompt's first group, kept for the rest of the training; within that group, as `others`;
                  of several first groups in one batch, the mean of their V* is kept
        others    V* of the other answers of the group, anew each time

    so that V* never depends on the answer that it is subtracted from. Answers without tokens do not count. The state is
    a table over prompts.
    """

    beta: float = positive(0.5, called="beta1, the temperature of the optimal value,")
    value: Literal["first", "others"] = "first"
    needs: ClassVar[frozenset[str]] = frozenset({"reference_log_probs"})
    smallest_group: ClassVar[int] = 2

    def init(self, sizes: Sizes) -> Any:
        """The kept V* and whether there is one, both `[num_prompts]`; () for `others`."""
        if self.value == "others":
            return ()
        return {"value": jnp.zeros(sizes.num_prompts), "known": jnp.zeros(sizes.num_prompts, bool)}

    def update_state(self, values: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        answered = rollouts.answered
        others = answered[:, None, :] & ~jnp.eye(values.shape[-1], dtype=bool)
        silent = equal_among_answered(values, rollouts)
        advantages = values - self._value_of(values, rollouts, others)
        advantages = jnp.where(silent | ~others.any(axis=-1), 0.0, advantages)
        if self.value == "others":
            return advantages, state
        prompts = rollouts.prompt_index
        known, kept = state["known"][prompts], state["value"][prompts]
        whole = self._value_of(values, rollouts, answered[:, None, :])[:, 0]
        same_prompt = rollouts.same_prompt
        whole = masked_sum(whole, same_prompt, axis=-1) / same_prompt.sum(axis=-1)
        new_state = {
            "value": state["value"].at[prompts].set(jnp.where(known, kept, whole)),
            "known": state["known"].at[prompts].set(True),
        }
        return jnp.where(known[:, None], values - kept[:, None], advantages), new_state

    def _value_of(self, values: Array, rollouts: Rollouts, counted: Array) -> Array:
        """V* over the counted answers, `[P, N, G]` bool -> `[P, N]`; over all where there are none."""
        counted |= ~counted.any(axis=-1, keepdims=True)
        log_weight = rollouts.reference_log_probs - rollouts.behaviour_log_probs
        log_weight = masked_sum(log_weight, rollouts.token_mask, axis=-1)[:, None, :]
        log_share = jax.nn.log_softmax(jnp.where(counted, log_weight, -jnp.inf), axis=-1)
        largest = jnp.where(counted, values[:, None, :], -jnp.inf).max(axis=-1, keepdims=True)
        below = jnp.where(counted, (values[:, None, :] - largest) / self.beta, 0.0)
        # The first form is exact for small rewards, the second where only the largest counts.
        less = (jnp.exp(log_share) * jnp.expm1(below)).sum(axis=-1)
        log_mean = jnp.where(less > -0.5, jnp.log1p(less), logsumexp(log_share + below, axis=-1))
        return largest[..., 0] + self.beta * log_mean
