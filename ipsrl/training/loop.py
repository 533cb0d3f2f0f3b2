"""The training loop: one for every environment, policy and objective."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import check_prompts_divide
from ipsrl.distributed.placement import (
    any_is_sharded,
    check_placement_rules,
    check_units,
    place,
    placements,
    shardings,
    table,
)
from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy, union
from ipsrl.records.evaluation import Evaluate
from ipsrl.records.progress_line import ProgressLine
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.run_log import RunLog, require_finite
from ipsrl.records.warning_lines import WarningLines
from ipsrl.training.batches.collector import BatchCollector, Metrics
from ipsrl.training.batches.difficulty_filter import DifficultyState
from ipsrl.training.batches.groups import Groups
from ipsrl.training.batches.off_policy_answers import Refinements
from ipsrl.training.checkpoints import Checkpoints
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.randomness import stream
from ipsrl.training.settings import BATCH_FILTERS, TrainSettings
from ipsrl.training.step import TrainState, check_objective, compiled_update, state_placements


def train(
    environment: Environment,
    policy: Policy,
    objective: Objective,
    settings: TrainSettings,
    seed: int,
    folder: RunFolder,
    mesh: Mesh,
    initial_parameters: Parameters | Callable[[], Parameters] | None = None,
    evaluate: Evaluate | None = None,
    refinements: Refinements | None = None,
    frozen: Parameters | None = None,
    label: str | None = None,
    trackers: Sequence[str] = (),
    warnings: WarningLines | None = None,
) -> TrainState:
    """Trains a policy, or continues where the folder's last good checkpoint stands; both end bitwise the same.

    Every random draw is a function of (seed, step). The metrics of step s, which start with step 1, describe the batch
    that led to the s-th state; evaluations describe the state itself.

    Args:
      environment, policy, objective, settings, seed: what to train, and how.
      folder: receives what `RunLog` writes, and checkpoints.
      mesh: prompts are placed over its axis `data`, parameters and what the optimiser keeps of them as the policy's
        rules say; where any of them is sharded, the table of what is placed where goes to stderr.
      initial_parameters: where to start; fresh ones by default. They are also the (first) reference policy. Those that
        a function makes belong to the run: a large model then exists no more often than it is needed.
      evaluate: (step, parameters) -> further metrics, logged as `evaluation/name`, and what else to keep.
      refinements: where the answers of `settings.off_policy` come from; by default they are sampled as all others.
      frozen: parameters that the policy reads beside the trained ones, on the mesh already: never copied, and in no
        checkpoint. The reference policy shares them.
      label: what the progress line calls the run; its folder by default.
      trackers: where else the metrics go, see `ipsrl.records.trackers`.
      warnings: prints what monitors say of this run and of those beside it; by default the run is alone.

    Raises:
      ValueError: the objective cannot be computed here, the prompts cannot be split as asked, or the mesh does not
        fit the policy.
      NonFiniteLossError: the reward, the loss, the gradient or the parameters of a step were NaN or infinite. Nothing
        of that step is written; earlier checkpoints stay.
    """
    trainer, state = prepare(
        environment, policy, objective, settings, seed, mesh, initial_parameters, refinements, frozen
    )
    with (
        jax.set_mesh(mesh),
        Checkpoints(folder.checkpoint_directory, settings.checkpoint_every) as checkpoints,
        RunLog(folder, settings.monitors, settings.steps, trackers, warnings) as log,
    ):
        last_good, state = checkpoints.restore(state) or (0, state)
        log.start_after(last_good)

        trajectories_per_step = settings.prompts_per_step * settings.group_size
        with ProgressLine(settings.steps, last_good, trajectories_per_step, label or str(folder.path)) as progress:
            if last_good == 0 and evaluate is not None:
                log.write(0, {}, evaluate(0, union(state.parameters, frozen)))
            for step in range(last_good, settings.steps):
                state, metrics = trainer.step(state, step)
                metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
                kept = f"step {last_good} in {folder.checkpoint_directory}" if last_good else "none"
                require_finite(metrics, step + 1, kept)

                done, last = step + 1, step + 1 == settings.steps
                due = evaluate is not None and (done % settings.evaluate_every == 0 or last)
                log.write(done, metrics, evaluate(done, union(state.parameters, frozen)) if due else None)
                if last or checkpoints.due(done):
                    # A checkpoint must not outlive the records before it.
                    log.keep()
                    checkpoints.save(done, state, force=True)
                    last_good = done
                progress.advance(
                    reward=metrics["reward"], outcomes=metrics["effective_outcomes"], entropy=metrics["token_entropy"]
                )
    return state


@dataclasses.dataclass(frozen=True)
class Trainer:
    """A run without its state: what stays the same from step to step.

    Attributes:
      collector: samples and verifies.
      optimizer: of the policy's parameters.
      reference: parameters of a reference policy that never moves; None where there is none.
      frozen: as in `train`.
      placed_parameters: where the parameters are placed.
    """

    collector: BatchCollector
    optimizer: optax.GradientTransformation
    reference: Parameters | None
    frozen: Parameters | None
    placed_parameters: Any

    def step(self, state: TrainState, step: int) -> tuple[TrainState, Metrics]:
        """The state after step number `step`, from 0, and the metrics of that step, which may still be computed.

        The given state is donated. It is called with the mesh of the run set (`jax.set_mesh`).
        """
        if state.next_rollouts is None:
            groups, difficulty, metrics = self.collect(state, step)
            state, of_update = self.update(dataclasses.replace(state, difficulty=difficulty), groups, step)
            return state, of_update | metrics
        # Devices sample while the host verifies.
        following = self.collector.sample(union(state.parameters, self.frozen), step + 1)
        groups = self.collector.verify(state.next_rollouts)
        state, metrics = self.update(dataclasses.replace(state, next_rollouts=None), groups, step)
        # Of an update between sampler and scorer, and no longer of the two.
        del metrics["sampler_scorer_difference"]
        return dataclasses.replace(state, next_rollouts=following), metrics

    def collect(self, state: TrainState, step: int) -> tuple[Groups, DifficultyState | None, Metrics]:
        """The first part of a step, see `BatchCollector.collect`."""
        reference = state.reference if self.reference is None else self.reference
        return self.collector.collect(
            union(state.parameters, self.frozen), union(reference, self.frozen), state.difficulty, step
        )

    def update(self, state: TrainState, groups: Groups, step: int) -> tuple[TrainState, Metrics]:
        """The second part of a step: what the policy learns from the groups."""
        collector, settings = self.collector, self.collector.settings
        state, metrics = compiled_update(
            state,
            *groups,
            self.reference,
            stream(collector.seed, step, "objective"),
            self.frozen,
            policy=collector.policy,
            objective=collector.objective,
            optimizer=self.optimizer,
            batching=settings.batching,
            temperature=settings.temperature,
        )
        if state.reference is not None and (step + 1) % settings.refresh_reference_every == 0:
            moved = _copy(state.parameters, self.placed_parameters, collector.mesh)
            state = dataclasses.replace(state, reference=moved)
        return state, metrics


def prepare(
    environment: Environment,
    policy: Policy,
    objective: Objective,
    settings: TrainSettings,
    seed: int,
    mesh: Mesh,
    initial_parameters: Parameters | Callable[[], Parameters] | None = None,
    refinements: Refinements | None = None,
    frozen: Parameters | None = None,
) -> tuple[Trainer, TrainState]:
    """The trainer of a run and its state before the first step, on the mesh; arguments and errors as of `train`."""
    check_run(environment, policy, objective, settings, mesh)
    optimizer = make_optimizer(settings.optimizer, settings.learning_rate, settings.max_gradient_norm)

    if initial_parameters is None:
        initial_parameters = functools.partial(fresh_parameters, policy, seed, mesh)
    owned = callable(initial_parameters)
    parameters = initial_parameters() if owned else initial_parameters

    check_placement_rules(policy.placement_rules, union(parameters, frozen))
    placed_parameters = placements(policy.placement_rules, parameters, mesh)

    # Updates donate their state, which must therefore share nothing with the caller or the reference.
    parameters = (place if owned else _copy)(parameters, placed_parameters, mesh)
    state = TrainState.create(parameters, objective, optimizer, environment)
    reference = _copy(parameters, placed_parameters, mesh) if needs_reference(objective, settings) else None
    if settings.refresh_reference_every:
        # What changes belongs to the state, and to its checkpoints.
        state, reference = dataclasses.replace(state, reference=reference), None
    if settings.difficulty_filter is not None:
        difficulty = DifficultyState.create(settings.difficulty_filter, environment, stream(seed, 0, "difficulty"))
        state = dataclasses.replace(state, difficulty=difficulty)
    placed = state_placements(state, policy, optimizer, mesh)
    state = place(state, placed, mesh)
    placed_frozen = placements(policy.placement_rules, frozen, mesh)
    if any_is_sharded((placed, placed_frozen)) and hosts.is_first():
        print(table((placed, placed_frozen), (state, frozen), mesh), file=sys.stderr)
    collector = BatchCollector(environment, policy, objective, settings, seed, mesh, refinements)
    if settings.async_rollouts:
        with jax.set_mesh(mesh):
            state = dataclasses.replace(state, next_rollouts=collector.sample(union(state.parameters, frozen), 0))
    return Trainer(collector, optimizer, reference, frozen, placed_parameters), state


def _copy(parameters: Parameters, placed: Any, mesh: Mesh) -> Parameters:
    return place(jax.tree.map(jnp.copy, parameters), placed, mesh)


def fresh_parameters(policy: Policy, seed: int, mesh: Mesh) -> Parameters:
    """Where a run starts that is not told where; each device makes its own share, because none might hold the whole."""

    def init():
        return policy.init(stream(seed, 0, "parameters"))

    placed = placements(policy.placement_rules, jax.eval_shape(init), mesh)
    return jax.jit(init, out_shardings=shardings(placed, mesh))()


def needs_reference(objective: Objective, settings: TrainSettings) -> bool:
    """Whether anything in a run asks for the reference policy."""
    draws = settings.off_policy is not None and settings.off_policy.source == "reference"
    return draws or "reference_log_probs" in objective.needs


def check_run(
    environment: Environment, policy: Policy, objective: Objective, settings: TrainSettings, mesh: Mesh
) -> None:
    """Refuses what `train` could not do, before anything is computed or written.

    Raises:
      ValueError: the objective needs what the environment, the policy and the settings do not give, a rule of the
        settings cannot be followed, the prompts cannot be split as asked, or the mesh would shard the policy's heads.
    """
    check_objective(objective, environment, policy, settings.group_size, settings.off_policy)
    if settings.dynamic_sampling is not None and settings.group_size < 2:
        raise ValueError("dynamic sampling compares the answers of a group: group_size is 1, it must be at least 2")
    if settings.refresh_reference_every and not needs_reference(objective, settings):
        raise ValueError(
            f"refresh_reference_every is {settings.refresh_reference_every}, but nothing here asks for a reference "
            "policy: give the objective a divergence from it, as in grpo(kl=0.1), or leave it at 0"
        )
    if settings.async_rollouts:
        _check_async_rollouts(environment, objective, settings)
    settings.batching.check(settings.prompts_per_step)
    check_prompts_divide(settings.prompts_per_step // settings.batching.total_micro_batches, mesh)
    check_units(policy.placement_rules, mesh)


def _check_async_rollouts(environment: Environment, objective: Objective, settings: TrainSettings) -> None:
    if not environment.verifies_on_host:
        raise ValueError(
            "async_rollouts hides verifying on the host, but this environment is verified on the device: leave it out"
        )
    if objective.surrogate.on_policy:
        raise ValueError(
            "async_rollouts trains on groups of the policy before the last update, and this objective has no "
            "importance ratio to make up for that: choose one that has, such as grpo or ips_grpo"
        )
    for batch_filter in BATCH_FILTERS:
        if getattr(settings, batch_filter) is not None:
            raise ValueError(
                f"async_rollouts cannot be combined with {batch_filter}, which looks at rewards before it samples"
            )
