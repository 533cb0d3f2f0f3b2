"""Programs of a step for a slice of TPUs, compiled ahead of time, from shapes: no accelerator is needed."""

import collections
import dataclasses
import functools
import math
import os
from typing import Any, ClassVar

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from benchmarks.collectives import Collective, collectives
from ipsrl import objectives
from ipsrl.distributed.mesh import DATA
from ipsrl.distributed.placement import shardings
from ipsrl.environments.token_stream import TokenStream
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Outcomes, Prompts, Trajectories
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import Batching, TrainState, compiled_update, state_placements


@dataclasses.dataclass(frozen=True)
class Text(TokenStream):
    """An environment of shapes only: what the compiler must know of a text task.

    Attributes:
      vocabulary_size, max_tokens: see `Environment`.
      columns: of a prompt.
    """

    vocabulary_size: int
    columns: int
    max_tokens: int

    stop_tokens: ClassVar[tuple[int, ...]] = (0,)

    @functools.cached_property
    def prompt_table(self) -> Prompts:
        tokens = np.ones((1024, self.columns), np.int32)
        return Prompts(np.arange(1024), tokens, tokens > 0)

    def verify(self, trajectories: Trajectories) -> Outcomes:
        raise ValueError("this environment is for the compiler: it has no outcomes")


@dataclasses.dataclass(frozen=True)
class Workload:
    """One step.

    Attributes:
      policy, environment: the policy that is trained, and its environment.
      prompts, group_size: P and G of a step.
      micro_batches: micro-batches whose gradients are summed.
    """

    policy: Transformer
    environment: Text
    prompts: int
    group_size: int
    micro_batches: int

    @property
    def tokens(self) -> int:
        """Tokens of all answers, at their longest."""
        return self.prompts * self.group_size * self.environment.max_tokens


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled program and its properties.

    Attributes:
      mesh: of the devices it was compiled for.
      sends: its collectives.
      arguments, temporary, donated: bytes on each device.
      bytes_accessed: bytes that a device moves to and from its memory, with the body of each loop once.
    """

    mesh: Mesh
    sends: tuple[Collective, ...]
    arguments: int
    temporary: int
    donated: int
    bytes_accessed: float

    def sent(self) -> dict[tuple[str, str], list[float]]:
        """For each kind of collective and axes of the mesh: instructions, runs, and bytes that a device sends."""
        shape, found = tuple(self.mesh.shape.values()), collections.defaultdict(lambda: [0, 0, 0.0])
        for one in self.sends:
            places = np.unravel_index(one.group, shape)
            axes = [name for name, place in zip(self.mesh.axis_names, places, strict=True) if len(set(place)) > 1]
            row = found[one.kind, " and ".join(axes)]
            for column, more in enumerate((1, one.times, one.times * one.sent)):
                row[column] += more
        return dict(sorted(found.items()))


def devices_of(topology: str) -> list[Any]:
    """The devices of a slice, such as "v5p:2x4x4", without having one.

    Raises:
      ValueError: the compiler for TPUs cannot describe it.
    """
    # The environment variables of a TPU host.
    os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5p-8")
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    try:
        return topologies.get_topology_desc(topology, platform="tpu").devices
    except Exception as error:
        raise ValueError(f"programs for {topology} cannot be compiled here: {str(error).splitlines()[0]}") from error


def make_mesh(topology: str, **axes: int) -> Mesh:
    """A mesh with axes of these sizes over the first devices of a slice."""
    devices = devices_of(topology)[: math.prod(axes.values())]
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes), devices=devices)


def lower(workload: Workload, mesh: Mesh) -> tuple[Any, Any]:
    """The train step and the sampler of a workload on a mesh, not yet compiled."""
    policy, environment, groups = workload.policy, workload.environment, (workload.prompts, workload.group_size)
    objective, optimizer = objectives.make("ips_grpo"), make_optimizer("adam")
    over_prompts, whole = (NamedSharding(mesh, spec) for spec in (PartitionSpec(DATA), PartitionSpec()))

    sharded = functools.partial(jax.ShapeDtypeStruct, sharding=over_prompts)

    def abstract(tree, sharding):
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)

    # Only the abstract mesh: nothing can run on the devices of a topology.
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        state = jax.eval_shape(
            lambda: TrainState.create(policy.init(jax.random.key(0)), objective, optimizer, environment)
        )
        state = jax.tree.map(abstract, state, shardings(state_placements(state, policy, optimizer, mesh), mesh))
        key = abstract(jax.eval_shape(lambda: jax.random.key(0)), whole)
        length = (workload.prompts, environment.prompt_length)
        prompts = Prompts(sharded(length[:1], "int32"), sharded(length, "int32"), sharded(length, "bool"))
        sampler = sample_groups.lower(environment, policy, state.parameters, prompts, key, workload.group_size)
        outcomes = Outcomes(sharded(groups, "float32"), sharded(groups, "int32"))
        update = compiled_update.lower(
            state,
            abstract(sampler.out_info, over_prompts),
            outcomes,
            key,
            policy=policy,
            objective=objective,
            optimizer=optimizer,
            batching=Batching(micro_batches=workload.micro_batches),
            temperature=1.0,
        )
    return update, sampler


def compiled(lowered: Any, mesh: Mesh) -> Program:
    """The program of what `lower` gives for this mesh."""
    program = lowered.compile()
    memory = program.memory_analysis()
    return Program(
        mesh=mesh,
        sends=tuple(collectives(program.as_text())),
        arguments=memory.argument_size_in_bytes,
        temporary=memory.temp_size_in_bytes,
        donated=memory.alias_size_in_bytes,
        bytes_accessed=program.cost_analysis()["bytes accessed"],
    )
