"""The training loop for every environment, policy and objective."""

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
    """Trains a policy, or continues from the folder's last readable checkpoint; both end with bitwise the same result.

    All randomness is a function of (seed, step). The metrics of step s (s = 1, 2, ...) describe the batch that led to
    state s; evaluations describe the state itself.

    Args:
      environment, policy, objective, settings, seed: what to train, and how.
      folder: receives the files of `RunLog`, and checkpoints.
      mesh: prompts are sharded over its axis `data`; parameters and optimiser state follow the policy's placement
        rules. If any leaf is sharded, the table of placements is printed to stderr.
      initial_parameters: fresh by default. They are also the (first) reference policy. A function may be given instead:
        the run owns what it returns, so a large model is not copied.
      evaluate: (step, parameters) -> `Evaluation`; its metrics are logged as `evaluation/name`.
      refinements: samples the answers of `settings.off_policy`; by default they are sampled like all other answers.
      frozen: parameters that the policy reads beside the trained ones, already on the mesh. They are never copied, in
        no checkpoint, and shared with the reference policy.
      label: name of the run in the progress line; its folder by default.
      trackers: further receivers of the metrics, see `ipsrl.records.trackers`.
      warnings: prints the warnings of this run and of the runs beside it; by default there are no others.

    Raises:
      ValueError: the objective cannot be computed here, the prompts cannot be split as required, or the mesh does not
        fit the policy.
      NonFiniteLossError: the reward, the loss, the gradient or the parameters of a step were NaN or infinite. Nothing
        of that step is written; earlier checkpoints are kept.
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
                    # The log is written first, so that no checkpoint is newer than the records.
                    log.keep()
                    checkpoints.save(done, state, force=True)
                    last_good = done
                progress.advance(
                    reward=metrics["reward"], outcomes=metrics["effective_outcomes"], entropy=metrics["token_entropy"]
                )
    return state


@dataclasses.dataclass(frozen=True)
class Trainer:
    """The parts of a run that do not change from step to step.

    Attributes:
      collector: samples and verifies the groups.
      optimizer: of the policy's parameters.
      reference: parameters of a fixed reference policy; None if there is none, or if it moves (then it is in the
        state).
      frozen: as in `train`.
      placed_parameters: placement of the parameters.
    """

    collector: BatchCollector
    optimizer: optax.GradientTransformation
    reference: Parameters | None
    frozen: Parameters | None
    placed_parameters: Any

    def step(self, state: TrainState, step: int) -> tuple[TrainState, Metrics]:
        """The new state after step number `step` (from 0) and its metrics, which may still be in computation.

        The given state is donated. Call it with the mesh of the run set (`jax.set_mesh`).
        """
        if state.next_rollouts is None:
            groups, difficulty, metrics = self.collect(state, step)
            state, of_update = self.update(dataclasses.replace(state, difficulty=difficulty), groups, step)
            return state, of_update | metrics
        # The devices sample while the host verifies.
        following = self.collector.sample(union(state.parameters, self.frozen), step + 1)
        groups = self.collector.verify(state.next_rollouts)
        state, metrics = self.update(dataclasses.replace(state, next_rollouts=None), groups, step)
        # Sampler and scorer differ by one update here, so this metric would not compare the two implementations.
        del metrics["sampler_scorer_difference"]
        return dataclasses.replace(state, next_rollouts=following), metrics

    def collect(self, state: TrainState, step: int) -> tuple[Groups, DifficultyState | None, Metrics]:
        """First part of a step, see `BatchCollector.collect`."""
        reference = state.reference if self.reference is None else self.reference
        return self.collector.collect(
            union(state.parameters, self.frozen), union(reference, self.frozen), state.difficulty, step
        )

    def update(self, state: TrainState, groups: Groups, step: int) -> tuple[TrainState, Metrics]:
        """Second part of a step: updates the policy with the groups."""
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
    """The trainer of a run and its initial state, on the mesh; arguments and errors as in `train`."""
    check_run(environment, policy, objective, settings, mesh)
    optimizer = make_optimizer(settings.optimizer, settings.learning_rate, settings.max_gradient_norm)

    if initial_parameters is None:
        initial_parameters = functools.partial(fresh_parameters, policy, seed, mesh)
    owned = callable(initial_parameters)
    parameters = initial_parameters() if owned else initial_parameters

    check_placement_rules(policy.placement_rules, union(parameters, frozen))
    placed_parameters = placements(policy.placement_rules, parameters, mesh)

    # Updates donate the state, so it must not share buffers with the caller or the reference.
    parameters = (place if owned else _copy)(parameters, placed_parameters, mesh)
    state = TrainState.create(parameters, objective, optimizer, environment)
    reference = _copy(parameters, placed_parameters, mesh) if needs_reference(objective, settings) else None
    if settings.refresh_reference_every:
        # A reference that moves belongs to the state and its checkpoints.
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
    """The default initial parameters; each device creates its own shard, because the whole may fit on none of them."""

    def init():
        return policy.init(stream(seed, 0, "parameters"))

    placed = placements(policy.placement_rules, jax.eval_shape(init), mesh)
    return jax.jit(init, out_shardings=shardings(placed, mesh))()


def needs_reference(objective: Objective, settings: TrainSettings) -> bool:
    """Whether a run needs the reference policy."""
    draws = settings.off_policy is not None and settings.off_policy.source == "reference"
    return draws or "reference_log_probs" in objective.needs


def check_run(
    environment: Environment, policy: Policy, objective: Objective, settings: TrainSettings, mesh: Mesh
) -> None:
    """Raises before anything is computed or written if `train` could not run.

    Raises:
      ValueError: the objective needs what environment, policy and settings do not provide, a batch filter cannot be
        applied, the prompts cannot be split as required, or the mesh would shard the policy's heads.
    """
    check_objective(objective, environment, policy, settings.group_size, settings.off_policy)
    if settings.dynamic_sampling is not None and settings.group_size < 2:
        raise ValueError("dynamic sampling compares the answers of a group: group_size is 1, it must be at least 2")
    if settings.refresh_reference_every and not needs_reference(objective, settings):
        raise ValueError(
            f"refresh_reference_every is {settings.refresh_reference_every}, but this run has no reference "
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
            "importance ratio to correct that: choose one that has, such as grpo or ips_grpo"
        )
    for batch_filter in BATCH_FILTERS:
        if getattr(settings, batch_filter) is not None:
            raise ValueError(
                f"async_rollouts cannot be combined with {batch_filter}, which looks at rewards before it samples"
            )
