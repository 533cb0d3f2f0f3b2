"""Rewards minus the optimal value of the return that is regularised to a reference: `[P, G]` -> `[P, G]`."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from ipsrl.fields import positive
from ipsrl.objectives.objective import RolloutPart, all_equal
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

    so that V* never depends on the answer that it is subtracted from. The state is a table over prompts.
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
        log_weight = rollouts.reference_log_probs - rollouts.behaviour_log_probs
        log_weight = masked_sum(log_weight, rollouts.token_mask, axis=-1)
        tilted = log_weight + values / self.beta
        own = jnp.eye(values.shape[-1], dtype=bool)

        def over_others(log_terms: Array) -> Array:
            return logsumexp(jnp.where(own, -jnp.inf, log_terms[:, None, :]), axis=-1)

        value = self.beta * (over_others(tilted) - over_others(log_weight))
        advantages = jnp.where(all_equal(values)[:, None], 0.0, values - value)
        if self.value == "others":
            return advantages, state
        prompts = rollouts.prompt_index
        known, kept = state["known"][prompts], state["value"][prompts]
        whole = self.beta * (logsumexp(tilted, axis=-1) - logsumexp(log_weight, axis=-1))
        same_prompt = rollouts.same_prompt
        whole = masked_sum(whole, same_prompt, axis=-1) / same_prompt.sum(axis=-1)
        new_state = {
            "value": state["value"].at[prompts].set(jnp.where(known, kept, whole)),
            "known": state["known"].at[prompts].set(True),
        }
        return jnp.where(known[:, None], values - kept[:, None], advantages), new_state
