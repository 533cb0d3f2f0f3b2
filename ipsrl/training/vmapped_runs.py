"""Many runs of the training loop as one program, for environments whose rewards are computed under jit.

The logs equal those of `ipsrl.training.loop` up to rounding: a program for many runs may add in another order. There
are no checkpoints: these runs are short, and an interrupted one starts again.
"""

import contextlib
import dataclasses
import itertools
import operator
import shutil
import statistics
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ipsrl.distributed.runs import filled, over_runs, runs_mesh
from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.records.evaluation import Evaluate
from ipsrl.records.progress_line import ProgressLine
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.run_log import NonFiniteLossError, RunLog, require_finite
from ipsrl.records.warning_lines import WarningLines
from ipsrl.training.device_step import device_step
from ipsrl.training.loop import check_run, needs_reference
from ipsrl.training.optimizer import at_rate, make_optimizer
from ipsrl.training.randomness import stream
from ipsrl.training.settings import BATCH_FILTERS, TrainSettings
from ipsrl.training.step import TrainState


def train_vmapped(
    environment: Environment,
    policy: Policy,
    objective: Objective,
    settings: Sequence[TrainSettings],
    seeds: Sequence[int],
    folders: Sequence[RunFolder],
    evaluate: Evaluate | None = None,
    trackers: Sequence[str] = (),
    warnings: WarningLines | None = None,
) -> list[Parameters | NonFiniteLossError]:
    """Trains one policy for each folder, step by step, all in one program over all devices.

    Args:
      environment, policy, objective, evaluate, trackers: as in `ipsrl.training.loop.train`; parameters reach `evaluate`
        as NumPy arrays.
      warnings: as in `ipsrl.training.loop.train`; by default there are no other runs.
      settings, seeds: of each run; the settings may differ only in the learning rate.
      folders: receive one metrics.jsonl each; earlier records of a run are overwritten.

    Returns:
      for each run its final parameters, as NumPy arrays, or the error that ended it: a step in which the reward, the
        loss, the gradient or the parameters were NaN or infinite. Nothing of that step is written, and the other runs
        continue.

    Raises:
      ValueError: the runs cannot share one program, or `train` would refuse one of them.
    """
    mesh = runs_mesh()
    shared = _shared(settings)
    check_run(environment, policy, objective, shared, mesh)
    if environment.verifies_on_host:
        raise ValueError(
            "this environment verifies on the host, so its runs cannot be one program: start them separately"
        )
    optimizer = make_optimizer(shared.optimizer, 1.0, shared.max_gradient_norm)

    def first_state(seed, rate):
        parameters = policy.init(stream(seed, 0, "parameters"))
        return TrainState.create(parameters, objective, at_rate(optimizer, rate), environment)

    def step(state, seed, rate, reference):
        return device_step(
            state, seed, reference, environment=environment, policy=policy, objective=objective,
            optimizer=at_rate(optimizer, rate), prompts_per_step=shared.prompts_per_step,
            group_size=shared.group_size, batching=shared.batching, temperature=shared.temperature,
        )  # fmt: skip

    with jax.set_mesh(mesh), contextlib.ExitStack() as stack:
        each = filled(len(seeds))
        all_seeds = jnp.asarray(seeds)[each]
        rates = jnp.asarray([settings[run].learning_rate for run in each], jnp.float32)
        warnings = warnings or stack.enter_context(WarningLines())
        logs = [
            stack.enter_context(RunLog(folder, shared.monitors, shared.steps, trackers, warnings)) for folder in folders
        ]
        state = jax.jit(over_runs(first_state))(all_seeds, rates)
        # A step donates the state but not the reference.
        reference = jax.tree.map(jnp.copy, state.parameters) if needs_reference(objective, shared) else None
        all_step = jax.jit(over_runs(step), donate_argnums=0)
        ended, going_on = {}, dict(enumerate(logs))
        for folder, log in zip(folders, logs, strict=True):
            folder.summary_path.unlink(missing_ok=True)
            # Left by an earlier single run, which would otherwise resume behind these records.
            shutil.rmtree(folder.checkpoint_directory, ignore_errors=True)
            log.start_after(0)
        if evaluate is not None:
            for log, parameters in zip(logs, _of_each(state.parameters, len(logs)), strict=True):
                log.write(0, {}, evaluate(0, parameters))

        trajectories = len(logs) * shared.prompts_per_step * shared.group_size
        progress = stack.enter_context(ProgressLine(shared.steps, 0, trajectories, f"{len(logs)} runs"))
        for done in range(1, shared.steps + 1):
            state, metrics = all_step(state, all_seeds, rates, reference)
            records = _of_each(metrics, len(logs))
            due = evaluate is not None and (done % shared.evaluate_every == 0 or done == shared.steps)
            parameters = _of_each(state.parameters, len(logs)) if due else None
            for run, log in list(going_on.items()):
                record = {name: float(value) for name, value in records[run].items()}
                try:
                    require_finite(record, done, last_good="none")
                except NonFiniteLossError as error:
                    ended[run] = error
                    del going_on[run]
                else:
                    log.write(done, record, evaluate(done, parameters[run]) if due else None)
            if not going_on:
                break
            shown = {"reward": "reward", "outcomes": "effective_outcomes", "entropy": "token_entropy"}
            progress.advance(
                **{name: statistics.fmean(records[run][metric] for run in going_on) for name, metric in shown.items()}
            )
        for log in logs:
            log.keep()
        return [ended.get(run, parameters) for run, parameters in enumerate(_of_each(state.parameters, len(logs)))]


def require_same_settings(settings: Sequence[Any], may_differ: Sequence[str]) -> None:
    """Raises ValueError if there are no settings, or if they differ in a field outside `may_differ`."""
    if not settings:
        raise ValueError("there is nothing to run together: give the settings of one run at least")
    for each, field in itertools.product(settings, dataclasses.fields(settings[0])):
        one, other = getattr(settings[0], field.name), getattr(each, field.name)
        if field.name not in may_differ and one != other:
            raise ValueError(
                f"runs of one program may differ in {', '.join(may_differ)}, but {field.name} is {one} and {other}"
            )


def _shared(settings: Sequence[TrainSettings]) -> TrainSettings:
    """The settings that all runs share, with the learning rate of the first.

    Raises:
      ValueError: the settings differ in another field, or have a batch filter, which runs on the host.
    """
    first = settings[0]
    require_same_settings(settings, ("learning_rate",))
    for name in (*BATCH_FILTERS, "refresh_reference_every"):
        if getattr(first, name):
            raise ValueError(f"{name} runs on the host, so runs with it cannot be one program: start them separately")
    return first


def _of_each(tree, runs: int) -> list:
    """`[S, ...]` -> one tree of NumPy arrays for each of the first `runs` runs."""
    whole = jax.device_get(tree)
    return [jax.tree.map(operator.itemgetter(run), whole) for run in range(runs)]
