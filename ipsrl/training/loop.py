"""The training loop: one for every environment, policy and objective."""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from ipsrl.distributed.mesh import check_prompts_divide, replicate, shard_prompts
from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.training.checkpoints import Checkpoints
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.progress_line import ProgressLine
from ipsrl.training.randomness import stream
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.step import (
    WHOLE_BATCH,
    Batching,
    TrainState,
    check_objective,
    choose_prompts,
    collect,
    compiled_update,
)

# What the names of an evaluation's metrics begin with in the log.
EVALUATION = "evaluation/"

Evaluate = Callable[[int, Parameters], dict[str, float]]

# A reward that is not finite can leave the loss finite for a while, and so can parameters.
MUST_BE_FINITE = ("reward", "loss", "gradient_norm", "parameter_norm")


class NonFiniteLossError(FloatingPointError):
    """Training left the real numbers; the message names the step and the last good checkpoint."""


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How long, on how much, how fast.

    Attributes:
      steps: batches of rollouts.
      prompts_per_step, group_size: P and G of a batch.
      temperature: of sampling and scoring.
      optimizer, learning_rate, max_gradient_norm: see `make_optimizer`.
      batching: how a batch becomes optimiser steps.
      evaluate_every: steps between evaluations; step 0 and the last step are always evaluated.
      checkpoint_every: steps between checkpoints; the last step is always kept.

    Raises:
      ValueError: a number is not positive.
    """

    steps: int
    prompts_per_step: int
    group_size: int
    temperature: float = 1.0
    optimizer: str = "adam"
    learning_rate: float = 3e-4
    max_gradient_norm: float | None = 1.0
    batching: Batching = WHOLE_BATCH
    evaluate_every: int = 25
    checkpoint_every: int = 100

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not value > 0:
                raise ValueError(f"{field.name} is {value}, it must be positive")


def train(
    environment: Environment,
    policy: Policy,
    objective: Objective,
    settings: TrainSettings,
    seed: int,
    folder: RunFolder,
    mesh: Mesh,
    initial_parameters: Parameters | None = None,
    evaluate: Evaluate | None = None,
) -> TrainState:
    """Trains a policy, or continues where the folder's last good checkpoint stands; both end bitwise the same.

    Every random draw is a function of (seed, step). The metrics of step s, which start with step 1, describe the batch
    that led to the s-th state; evaluations describe the state itself.

    Args:
      environment, policy, objective, settings, seed: what to train, and how.
      folder: receives metrics.jsonl and checkpoints.
      mesh: prompts are sharded over its axis `data`, parameters are replicated.
      initial_parameters: where to start; fresh ones by default. They are also the reference policy of a KL penalty.
      evaluate: (step, parameters) -> further metrics, logged as `evaluation/name`.

    Raises:
      ValueError: the objective cannot be computed here, or the prompts cannot be split as asked.
      NonFiniteLossError: the reward, the loss, the gradient or the parameters of a step were NaN or infinite. Nothing
        of that step is written; earlier checkpoints stay.
    """
    check_run(environment, policy, objective, settings, mesh)
    optimizer = make_optimizer(settings.optimizer, settings.learning_rate, settings.max_gradient_norm)

    if initial_parameters is None:
        initial_parameters = policy.init(stream(seed, 0, "parameters"))
    reference = replicate(initial_parameters, mesh) if "reference_log_probs" in objective.needs else None
    # The first update donates its state: a copy keeps the caller's parameters, and the reference, alive.
    parameters = replicate(jax.tree.map(jnp.copy, initial_parameters), mesh)
    state = replicate(TrainState.create(parameters, objective, optimizer, environment), mesh)

    with (
        jax.set_mesh(mesh),
        Checkpoints(folder.checkpoint_directory, settings.checkpoint_every) as checkpoints,
        MetricLog(folder.metrics_path) as log,
    ):
        last_good, state = checkpoints.restore(state) or (0, state)
        # Records after the checkpoint are written again; without one, the first evaluation is as well.
        log.truncate_after(last_good or -1)
        if last_good == 0 and evaluate is not None:
            log.write(0, _evaluation(evaluate, 0, state))

        trajectories_per_step = settings.prompts_per_step * settings.group_size
        with ProgressLine(settings.steps, last_good, trajectories_per_step, str(folder.path)) as progress:
            for step in range(last_good, settings.steps):
                prompts = shard_prompts(choose_prompts(environment, seed, step, settings.prompts_per_step), mesh)
                trajectories, verdict = collect(
                    environment,
                    policy,
                    state.parameters,
                    prompts,
                    seed,
                    step,
                    settings.group_size,
                    settings.temperature,
                    objective.top_tokens,
                )
                state, metrics = compiled_update(
                    state,
                    trajectories,
                    shard_prompts(verdict, mesh),
                    reference,
                    stream(seed, step, "objective"),
                    policy=policy,
                    objective=objective,
                    optimizer=optimizer,
                    batching=settings.batching,
                    temperature=settings.temperature,
                )
                metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
                broken = [f"{name} {metrics[name]}" for name in MUST_BE_FINITE if not math.isfinite(metrics[name])]
                if broken:
                    kept = f"step {last_good} in {folder.checkpoint_directory}" if last_good else "none"
                    raise NonFiniteLossError(f"step {step + 1} has {', '.join(broken)}; last good checkpoint: {kept}")

                done, last = step + 1, step + 1 == settings.steps
                if evaluate is not None and (done % settings.evaluate_every == 0 or last):
                    metrics |= _evaluation(evaluate, done, state)
                log.write(done, metrics)
                if checkpoints.save(done, state, force=last):
                    last_good = done
                progress.advance(**{name: metrics[name] for name in ("reward", "distinct_outcomes", "token_entropy")})
    return state


def _evaluation(evaluate: Evaluate, step: int, state: TrainState) -> dict[str, float]:
    return {f"{EVALUATION}{name}": value for name, value in evaluate(step, state.parameters).items()}


def check_run(
    environment: Environment, policy: Policy, objective: Objective, settings: TrainSettings, mesh: Mesh
) -> None:
    """Refuses what `train` could not do, before anything is computed or written.

    Raises:
      ValueError: the objective needs what the environment and the policy do not give, or the prompts cannot be split
        as asked.
    """
    check_objective(objective, environment, policy, settings.group_size)
    settings.batching.check(settings.prompts_per_step)
    check_prompts_divide(settings.prompts_per_step // settings.batching.pieces, mesh)
