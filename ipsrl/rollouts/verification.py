"""Verification on hosts: each host verifies a share of the answers it holds, and all receive the results."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ipsrl.checking.arguments import accepted
from ipsrl.distributed import hosts
from ipsrl.environments.environment import Environment
from ipsrl.structures import Outcomes, Trajectories


def verify_on_hosts(environment: Environment, trajectories: Trajectories) -> Outcomes:
    """`environment.verify` of the trajectories `[P, G]`, as NumPy arrays, the same on every host.

    If the prompts are sharded over hosts, each group is verified by exactly one of the hosts that hold it: time limits
    make outcomes depend on the verifying host, and all devices must learn from the same ones. Every process must call
    this.

    Raises:
      ValueError: as in `verify`, or an outcome id does not fit into 32 bits.
    """
    _check_dictated(environment, trajectories)
    if trajectories.tokens.is_fully_addressable:
        return _verified(environment, hosts.to_host(trajectories))
    # The part that applies to the first axis.
    whole = trajectories.tokens.sharding
    assert isinstance(whole, NamedSharding), "`keep_prompts_sharded` has placed what was sampled"
    sharding = NamedSharding(whole.mesh, PartitionSpec(*whole.spec[:1]))
    verifier = verifier_of_rows(sharding, len(trajectories.tokens))
    mine = np.flatnonzero(verifier == jax.process_index())
    held, trajectories = _held_here(jax.device_put(trajectories, sharding))
    # A host without a row of its own verifies one it holds, only for the shapes; the result is ignored.
    chosen = np.searchsorted(held, mine if len(mine) else held[:1])
    outcomes = _verified(environment, jax.tree.map(lambda leaf: leaf[chosen], trajectories))
    most = np.bincount(verifier).max()

    def gather(values):
        padded = np.zeros((most, *values.shape[1:]), values.dtype)
        padded[: len(mine)] = values[: len(mine)]
        whole = np.empty((len(verifier), *values.shape[1:]), values.dtype)
        for process, received in enumerate(multihost_utils.process_allgather(padded)):
            rows = np.flatnonzero(verifier == process)
            whole[rows] = received[: len(rows)]
        return whole

    return jax.tree.map(gather, outcomes)


def _verified(environment: Environment, trajectories: Trajectories) -> Outcomes:
    outcomes = environment.verify(trajectories)
    accepted("outcome_id", outcomes.outcome_id, jax.Array)
    return outcomes


def verifier_of_rows(sharding: Sharding, num_rows: int) -> np.ndarray:
    """`[P]`, the process that verifies each row of an array `[P, ...]`: the holders of a block of rows take turns."""
    holders: dict[tuple[int, int], set[int]] = {}
    for device, (rows,) in sharding.devices_indices_map((num_rows,)).items():
        block = rows.indices(num_rows)[:2]
        holders.setdefault(block, set()).add(device.process_index)
    verifier = np.empty(num_rows, int)
    for (start, stop), processes in holders.items():
        verifier[start:stop] = np.resize(sorted(processes), stop - start)
    return verifier


def _held_here(tree):
    """Rows of arrays `[P, ...]`, sharded only by rows, that this host holds: their numbers in order, and themselves."""

    def blocks(leaf):
        found = {shard.index[0].indices(len(leaf))[:2]: shard.data for shard in leaf.addressable_shards}
        return sorted(found.items(), key=lambda block: block[0])

    first = jax.tree.leaves(tree)[0]
    rows = np.concatenate([np.arange(*block) for block, _ in blocks(first)])
    return rows, jax.tree.map(lambda leaf: np.concatenate([jax.device_get(data) for _, data in blocks(leaf)]), tree)


def verify(environment: Environment, trajectories: Trajectories) -> Outcomes:
    """The environment's outcomes of the groups, computed on the device or on the host as the environment requires.

    Raises:
      ValueError: the environment has dictated a token outside the vocabulary. Inside jit rewards are NaN instead.
    """
    if environment.verifies_on_host:
        return verify_on_hosts(environment, trajectories)
    _check_dictated(environment, trajectories)
    return _verify_on_device(environment, trajectories)


def _check_dictated(environment: Environment, trajectories: Trajectories) -> None:
    if trajectories.dictated is None or isinstance(trajectories.tokens, Tracer):
        return
    largest = int(trajectories.tokens.max())
    if largest >= environment.vocabulary_size:
        raise ValueError(
            f"the environment dictates the token {largest}, which is outside its vocabulary, 0 to "
            f"{environment.vocabulary_size - 1}"
        )


@functools.partial(jax.jit, static_argnames="environment")
def _verify_on_device(environment: Environment, trajectories: Trajectories) -> Outcomes:
    outcomes = environment.verify(trajectories)
    if trajectories.dictated is None:
        return outcomes
    # Inside a larger program nobody can raise: the reward that is no number stops the run.
    broken = (trajectories.tokens >= environment.vocabulary_size).any()
    rewards, parts = jax.tree.map(
        lambda given: jnp.where(broken, jnp.nan, given), (outcomes.rewards, outcomes.reward_parts)
    )
    return dataclasses.replace(outcomes, rewards=rewards, reward_parts=parts)
