"""Group sampling: one compiled loop for every environment and policy.

Where a host answers in the middle, such as a tool, the loop is interrupted: `begin`, then `advance` until every
trajectory has ended or waits, then the host's words, `advance` again, and `finish`. All of it runs the same program.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ipsrl.checking.arguments import accepted
from ipsrl.distributed.mesh import keep_prompts_sharded
from ipsrl.distributed.per_device import per_device
from ipsrl.distributed.placement import gathered
from ipsrl.environments.environment import Environment, ToolEnvironment, dictates, waits_for_tools
from ipsrl.policies.policy import Parameters, Policy, entropy, sample
from ipsrl.rollouts.decoding import ORDINARY, Decoding
from ipsrl.structures import Prompts, Trajectories, select


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sampling:
    """Trajectories in the middle of being sampled.

    Attributes:
      prompts: of the groups.
      key: of all that is sampled.
      decoding: the distribution of each token; a pytree, registered beside its class, whose penalty has traced numbers.
      passes: `[]` int32, number of passes of the loop, each of which samples a token for every trajectory.
      position: number of tokens written: `[]` int32 if all trajectories go on together, `[P, G]` if some wait.
      states: of the environment, leaves `[P, G, ...]`.
      finished: `[P, G]` bool.
      thought_start: `[P, G]` int32, position where the current thought began; None without a penalty that asks for it.
      cache: of the policy.
      written: name -> `[P, G, T, ...]`, the fields of `Trajectories` so far.
    """

    prompts: Prompts
    key: Array
    decoding: Decoding
    passes: Array
    position: Array
    states: Any
    finished: Array
    thought_start: Array | None
    cache: Any
    written: dict[str, Array]


@functools.partial(jax.jit, static_argnames=("environment", "policy", "group_size", "top_tokens"))
def sample_groups(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    prompts: Prompts,
    key: Array,
    group_size: int,
    decoding: Decoding = ORDINARY,
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
      decoding: the distribution of each token, and so of the behaviour log-probabilities; a pytree: the numbers of its
        penalty are traced, everything else in it is static.
      top_tokens: number of most likely actions to keep at each step, at most the number of actions.

    Raises:
      ValueError: the environment uses tools, or the penalty is on a token that it does not have.
    """
    if environment.uses_tools:
        raise ValueError("the trajectories of this environment wait for tools: sample them with `sample_with_tools`")
    parameters = in_use(policy, parameters)
    sampling = begin(environment, policy, parameters, prompts, key, group_size, decoding, top_tokens)
    return finish(advance(environment, policy, parameters, sampling))


@functools.partial(jax.jit, static_argnames="policy")
def in_use(policy: Policy, parameters: Parameters) -> Parameters:
    """Parameters for `begin` and `advance`, gathered once for the rollout, not once for each token."""
    return gathered(parameters, policy.placement_rules)


@functools.partial(jax.jit, static_argnames=("environment", "policy", "group_size", "top_tokens"))
def begin(
    environment: Environment,
    policy: Policy,
    parameters: Parameters,
    prompts: Prompts,
    key: Array,
    group_size: int,
    decoding: Decoding = ORDINARY,
    top_tokens: int = 0,
) -> Sampling:
    """The start of `sample_groups`: prompts are read, nothing is sampled."""
    accepted("decoding", decoding, Decoding)
    decoding.check(environment.vocabulary_size)
    horizon, groups = environment.max_tokens, (prompts.index.shape[0], group_size)
    top_tokens = min(top_tokens, environment.vocabulary_size)
    # `advance` folds in the numbers of passes, which are all smaller.
    key_of_states = jax.random.fold_in(key, 2**31 - 1)
    # The groups of a prompt that stands twice in a batch have different members, for which `reset` draws separately.
    occurrence = jnp.tril(prompts.index[:, None] == prompts.index, -1).sum(axis=1)

    def reset(prompt, member):
        of_prompt = jax.random.fold_in(key_of_states, prompt)
        return environment.reset(jax.random.fold_in(of_prompt, member), prompt, member)

    members = occurrence[:, None] * group_size + jnp.arange(group_size)
    states = jax.vmap(jax.vmap(reset, in_axes=(None, 0)))(prompts.index, members)

    written = {
        "observations": jnp.zeros((*groups, horizon), jnp.int32),
        "tokens": jnp.zeros((*groups, horizon), jnp.int32),
        "token_mask": jnp.zeros((*groups, horizon), bool),
        "behaviour_log_probs": jnp.zeros((*groups, horizon), jnp.float32),
        "behaviour_entropy": jnp.zeros((*groups, horizon), jnp.float32),
    }
    if jax.eval_shape(_per_trajectory(environment.legal), states) is not None:
        written["legal_actions"] = jnp.zeros((*groups, horizon, environment.vocabulary_size), bool)
    if dictates(environment):
        written["dictated"] = jnp.zeros((*groups, horizon), bool)
    if top_tokens:
        written["top_tokens"] = jnp.zeros((*groups, horizon, top_tokens), jnp.int32)
        written["top_log_probs"] = jnp.zeros((*groups, horizon, top_tokens), jnp.float32)

    start = functools.partial(policy.start, group_size=group_size, max_tokens=horizon)
    cache = per_device(start, groups[0], (None, 0), 0)(parameters, prompts)
    thought_start = None if decoding.penalty is None else jnp.zeros(groups, jnp.int32)
    states, written, thought_start = keep_prompts_sharded((states, written, thought_start))
    position = jnp.zeros(groups if environment.uses_tools else (), jnp.int32)
    finished = _per_trajectory(environment.finished)(states)
    return Sampling(prompts, key, decoding, jnp.int32(0), position, states, finished, thought_start, cache, written)


@functools.partial(jax.jit, static_argnames=("environment", "policy"))
def advance(environment: Environment, policy: Policy, parameters: Parameters, sampling: Sampling) -> Sampling:
    """Samples until every trajectory has ended, reached the horizon or waits for a tool."""
    prompts, horizon, decoding = sampling.finished.shape[0], environment.max_tokens, sampling.decoding
    each_waits = sampling.position.ndim == 2
    policy_step = per_device(policy.step, prompts, (None, 0, 0, 0 if each_waits else None), 0)

    def idle(states, finished, position):
        if not waits_for_tools(environment):
            return finished
        return finished | (position >= horizon) | _per_trajectory(environment.waiting)(states)

    def act(carry):
        passes, position, states, finished, thought_start, cache, written = carry
        inactive = idle(states, finished, position)
        observations = _per_trajectory(environment.observe)(states)
        logits, cache = policy_step(parameters, cache, observations, position)
        now = {"observations": observations, "token_mask": ~inactive}
        dictated = jnp.full(inactive.shape, -1)
        if "dictated" in written:
            dictated = _per_trajectory(environment.dictated)(states)
            now["dictated"] = ~inactive & (dictated >= 0)
            now["token_mask"] &= ~now["dictated"]
        legal, silent = None, ~now["token_mask"]
        if "legal_actions" in written:
            now["legal_actions"] = _per_trajectory(environment.legal)(states)
            # Where the policy does not act there may be no legal action: it samples any action, which is discarded.
            legal = now["legal_actions"] | silent[..., None]
        of_thought = None if thought_start is None else position - thought_start
        log_probs = decoding(logits, legal, of_thought)
        sampled = sample(jax.random.fold_in(sampling.key, passes), log_probs)
        chosen = jnp.take_along_axis(log_probs, sampled[..., None], axis=-1)[..., 0]
        now["tokens"] = jnp.where(inactive, 0, jnp.where(silent, dictated, sampled))
        now["behaviour_log_probs"] = jnp.where(silent, 0.0, chosen)
        now["behaviour_entropy"] = jnp.where(silent, 0.0, entropy(log_probs))
        if "top_tokens" in written:
            likeliest = jax.lax.top_k(log_probs, written["top_tokens"].shape[-1])
            now["top_log_probs"], now["top_tokens"] = (jnp.where(silent[..., None], 0, top) for top in likeliest)

        if decoding.penalty is not None:
            switches = now["token_mask"] & decoding.penalty.opens(sampled)
            thought_start = jnp.where(switches, position, thought_start)

        after = _per_trajectory(environment.step)(states, now["tokens"])
        states = jax.tree.map(functools.partial(select, inactive), states, after)
        finished = finished | _per_trajectory(environment.finished)(states)
        written = {name: _write(written[name], value, position, inactive) for name, value in now.items()}
        position += ~inactive if each_waits else 1
        return passes + 1, position, states, finished, thought_start, cache, written

    def active(carry):
        _, position, states, finished, *_ = carry
        return (position < horizon).any() & ~idle(states, finished, position).all()

    progress = sampling.passes, sampling.position, sampling.states, sampling.finished, sampling.thought_start
    after = jax.lax.while_loop(active, act, (*progress, sampling.cache, sampling.written))
    return Sampling(sampling.prompts, sampling.key, decoding, *after)


@functools.partial(jax.jit, static_argnames="environment")
def hear(environment: ToolEnvironment, sampling: Sampling, replies: Array, lengths: Array, called: Array) -> Sampling:
    """Gives waiting trajectories the words of their tools.

    Args:
      replies: `[P, G, W]` int32, tokens.
      lengths: `[P, G]` int32, number of tokens; 0 for a silent tool.
      called: `[P, G]` bool, the trajectories that waited.
    """
    heard = _per_trajectory(environment.hear)(sampling.states, replies, lengths)
    states = jax.tree.map(functools.partial(select, called), heard, sampling.states)
    return dataclasses.replace(sampling, states=states)


def finish(sampling: Sampling) -> Trajectories:
    """The trajectories, of which those that have not ended are truncated."""
    fields: dict[str, Any] = {"legal_actions": None} | sampling.written
    return Trajectories(prompts=sampling.prompts, truncated=~sampling.finished, final_state=sampling.states, **fields)


def _write(array: Array, value: Array, position: Array, inactive: Array) -> Array:
    """Writes `[P, G, ...]` at one position of `[P, G, T, ...]`, or at the position of each active trajectory."""
    if position.ndim == 0:
        return array.at[:, :, position].set(value)
    here = (jnp.arange(array.shape[2]) == position[..., None]) & ~inactive[..., None]
    return select(here, value[:, :, None], array)


def _per_trajectory(function: Callable) -> Callable:
    """Maps a function of one trajectory over `[P, G]`."""
    return jax.vmap(jax.vmap(function))
