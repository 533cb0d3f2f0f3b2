"""Group sampling: one compiled loop for every environment and policy."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.distributed.mesh import keep_prompts_sharded
from ipsrl.distributed.per_device import per_device
from ipsrl.distributed.placement import gathered
from ipsrl.environments.environment import Environment, dictates
from ipsrl.policies.policy import Parameters, Policy, distribution, entropy
from ipsrl.structures import Prompts, Trajectories


@functools.partial(jax.jit, static_argnames=("environment", "policy", "group_size", "temperature", "top_tokens"))
def sample_groups(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    prompts: Prompts,
    key: Array,
    group_size: int,
    temperature: float = 1.0,
    top_tokens: int = 0,
) -> Trajectories:
    """Samples `group_size` trajectories for each prompt, until each ends or reaches the environment's horizon.

    Each prompt is read once, whatever the group size. The loop ends as soon as every trajectory has ended. Tokens that
    the environment dictates replace those of the policy, which reads them like its own.

    Args:
      environment, policy: static; see their protocols.
      parameters: of the policy.
      prompts: P prompts.
      key: the same key gives the same trajectories, also if the prompts are sharded over devices.
      group_size: G.
      temperature: of the sampling distribution, and so of the behaviour log-probabilities.
      top_tokens: number of most likely actions to keep at each step, at most the number of actions.
    """
    horizon, groups = environment.max_tokens, (prompts.index.shape[0], group_size)
    top_tokens = min(top_tokens, environment.vocabulary_size)
    # No position has the number of the horizon.
    keys = jax.random.split(jax.random.fold_in(key, horizon), groups)
    of_group = jax.vmap(environment.reset, in_axes=(0, None, 0))
    states = jax.vmap(of_group, in_axes=(0, 0, None))(keys, prompts.index, jnp.arange(group_size))
    has_legal = jax.eval_shape(_per_trajectory(environment.legal), states) is not None

    written = {
        "observations": jnp.zeros((*groups, horizon), jnp.int32),
        "tokens": jnp.zeros((*groups, horizon), jnp.int32),
        "token_mask": jnp.zeros((*groups, horizon), bool),
        "behaviour_log_probs": jnp.zeros((*groups, horizon), jnp.float32),
        "behaviour_entropy": jnp.zeros((*groups, horizon), jnp.float32),
    }
    if has_legal:
        written["legal_actions"] = jnp.zeros((*groups, horizon, environment.vocabulary_size), bool)
    if dictates(environment):
        written["dictated"] = jnp.zeros((*groups, horizon), bool)
    if top_tokens:
        written["top_tokens"] = jnp.zeros((*groups, horizon, top_tokens), jnp.int32)
        written["top_log_probs"] = jnp.zeros((*groups, horizon, top_tokens), jnp.float32)

    def act(carry):
        position, states, finished, cache, written = carry
        observations = _per_trajectory(environment.observe)(states)
        logits, cache = policy_step(parameters, cache, observations, position)
        now = {"observations": observations, "token_mask": ~finished}
        dictated = jnp.full(groups, -1)
        if dictates(environment):
            dictated = _per_trajectory(environment.dictated)(states)
            now["dictated"] = ~finished & (dictated >= 0)
            now["token_mask"] &= ~now["dictated"]
        legal, silent = None, ~now["token_mask"]
        if has_legal:
            now["legal_actions"] = _per_trajectory(environment.legal)(states)
            # Where the policy does not act there may be no legal action: it samples any action, which is discarded.
            legal = now["legal_actions"] | silent[..., None]
        log_probs = distribution(logits, legal, temperature)
        drawn = jax.random.categorical(jax.random.fold_in(key, position), log_probs)
        chosen = jnp.take_along_axis(log_probs, drawn[..., None], axis=-1)[..., 0]
        now["tokens"] = jnp.where(finished, 0, jnp.where(silent, dictated, drawn))
        now["behaviour_log_probs"] = jnp.where(silent, 0.0, chosen)
        now["behaviour_entropy"] = jnp.where(silent, 0.0, entropy(log_probs))
        if top_tokens:
            likeliest = jax.lax.top_k(log_probs, top_tokens)
            now["top_log_probs"], now["top_tokens"] = (jnp.where(silent[..., None], 0, top) for top in likeliest)

        after = _per_trajectory(environment.step)(states, now["tokens"])
        states = jax.tree.map(
            lambda old, new: jnp.where(finished.reshape(groups + (1,) * (old.ndim - 2)), old, new), states, after
        )
        finished = finished | _per_trajectory(environment.finished)(states)
        written = {name: written[name].at[:, :, position].set(value) for name, value in now.items()}
        return position + 1, states, finished, cache, written

    def unfinished(carry):
        position, _, finished, _, _ = carry
        return (position < horizon) & ~finished.all()

    # Once for the rollout, not once for each token.
    parameters = gathered(parameters, policy.placement_rules)
    policy_step = per_device(policy.step, groups[0], (None, 0, 0, None), 0)
    start = functools.partial(policy.start, group_size=group_size, max_tokens=horizon)
    cache = per_device(start, groups[0], (None, 0), 0)(parameters, prompts)
    states, written = keep_prompts_sharded((states, written))
    first = (jnp.int32(0), states, _per_trajectory(environment.finished)(states), cache, written)
    _, states, finished, _, written = jax.lax.while_loop(unfinished, act, first)
    written.setdefault("legal_actions", None)
    return Trajectories(prompts=prompts, truncated=~finished, final_state=states, **written)


def _per_trajectory(function: Callable) -> Callable:
    """Maps a function of one trajectory over `[P, G]`."""
    return jax.vmap(jax.vmap(function))
