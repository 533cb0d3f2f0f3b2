"""The training loop for every environment, policy, objective and source of groups."""

import contextlib
import dataclasses
import functools
import operator
import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jax.sharding import Mesh

from ipsrl.checking.arguments import checked
from ipsrl.distributed import hosts
from ipsrl.distributed.placement import any_is_sharded, placements, table
from ipsrl.distributed.runs import filled, over_runs, runs_mesh
from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters, Policy, union
from ipsrl.records import run_log
from ipsrl.records.evaluation import Evaluate
from ipsrl.records.progress_line import ProgressLine
from ipsrl.records.run_folder import RunFolder, is_complete
from ipsrl.records.run_log import NonFiniteLossError, RunLog, require_finite
from ipsrl.records.warning_lines import WarningLines
from ipsrl.rewards import Reward
from ipsrl.rollouts.sources.source import Source
from ipsrl.training.settings import TrainSettings, require_same_settings
from ipsrl.training.step import TrainState, state_placements
from ipsrl.training.storage.checkpoints import Checkpoints
from ipsrl.training.trainer import Trainer

SHOWN = {"reward": "reward", "outcomes": "group_effective_outcomes", "entropy": "token_entropy"}
"""Metrics in the progress line by their names there."""


@checked
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
    source: Source | None = None,
    reward: Reward | None = None,
    frozen: Parameters | None = None,
    label: str | None = None,
    trackers: Sequence[str] = (),
    warnings: WarningLines | None = None,
) -> TrainState:
    """Trains a policy, or continues from the folder's last readable checkpoint; both end with bitwise the same result.

    All randomness is a function of (seed, step, name of the stream), see `stream`. The metrics of step s (s = 1, 2,
    ...) describe the batch that led to state s; evaluations describe the state itself.

    Args:
      environment, policy, objective, settings, source, frozen: as in `Trainer`.
      seed, initial_parameters, reward: as in `Trainer.init`.
      folder: receives the files of `RunLog`, and checkpoints.
      mesh: prompts are sharded over its axis `data`; parameters and optimiser state follow the policy's placement
        rules. If any leaf is sharded, the table of placements is printed to stderr.
      evaluate: (step, parameters) -> `Evaluation`; its metrics are logged as `evaluation/name`.
      label: name of the run in the progress line; its folder by default.
      trackers: further receivers of the metrics, see `ipsrl.records.trackers`.
      warnings: prints the warnings of this run and of the runs beside it; by default there are no others.

    Returns:
      the final state as in the last checkpoint: without a reference policy that did not move.

    Raises:
      ValueError: the objective cannot be computed here, the prompts cannot be split as required, or the mesh does not
        fit the policy.
      NonFiniteLossError: the reward, the loss, the gradient or the parameters of a step were NaN or infinite. Nothing
        of that step is written; earlier checkpoints are kept.
    """
    trainer = Trainer(environment, policy, objective, settings, source, frozen)
    with jax.set_mesh(mesh), contextlib.ExitStack() as stack:
        alone = _Alone(trainer, trainer.init(seed, initial_parameters, reward))
        _print_placements(alone, mesh)
        checkpoints = stack.enter_context(Checkpoints(folder.checkpoint_directory, settings.checkpoint_every))
        last_saved = done_before = alone.restore(checkpoints, folder)
        log = stack.enter_context(RunLog(folder, settings.monitors, settings.steps, trackers, warnings))

        def last_good() -> str:
            return f"step {last_saved} in {folder.checkpoint_directory}" if last_saved else "none"

        def save(done: int) -> None:
            nonlocal last_saved
            if done == settings.steps or checkpoints.due(done):
                # The log is written first, so that no checkpoint is newer than the records.
                log.flush()
                checkpoints.save(done, alone.stored, log.written())
                last_saved = done

        ended = _loop(alone, [log], settings, evaluate, label or str(folder.path), done_before, last_good, save)
    if ended:
        raise ended[0]
    return alone.stored


@checked
def train_vmapped(
    environment: Environment,
    policy: Policy,
    objective: Objective,
    settings: Sequence[TrainSettings],
    seeds: Sequence[int],
    folders: Sequence[RunFolder],
    evaluate: Evaluate | None = None,
    trackers: Sequence[str] = (),
) -> list[Parameters | NonFiniteLossError]:
    """`train` for many runs as one program over all devices, for sources that run under jit.

    The logs equal those of `train` up to rounding: a program for many runs may add in another order. There are no
    checkpoints: these runs are short, and an interrupted one starts again.

    Args:
      environment, policy, objective, evaluate, trackers: as in `train`; parameters reach `evaluate` as NumPy arrays.
      settings, seeds: of each run; the settings may differ only in the learning rate.
      folders: receive one metrics.jsonl each; earlier records of a run are overwritten.

    Returns:
      for each run its final parameters, as NumPy arrays, or the error that ended it: a step in which the reward, the
      loss, the gradient or the parameters were NaN or infinite. Nothing of that step is written, and the other runs
      continue.

    Raises:
      ValueError: the runs cannot share one program, or `train` would refuse one of them.
    """
    require_same_settings(settings, ("learning_rate",))
    if not len(settings) == len(seeds) == len(folders):
        raise ValueError(f"{len(seeds)} runs need as many seeds, settings and folders")
    trainer = Trainer(environment, policy, objective, settings[0])
    if trainer.groups_from.on_host:
        raise ValueError(
            "the groups of these runs are made on the host, by a verifier or a batch filter, so the runs cannot be one "
            "program: start them separately"
        )
    with jax.set_mesh(runs_mesh()), contextlib.ExitStack() as stack:
        trainer.check(runs=len(seeds))
        warnings = stack.enter_context(WarningLines())
        logs = []
        for folder in folders:
            folder.withdraw_summary()
            # Left by an earlier single run, which would otherwise resume behind these records.
            shutil.rmtree(folder.checkpoint_directory, ignore_errors=True)
            run_log.cut(folder.path, {})
            log = RunLog(folder, settings[0].monitors, settings[0].steps, trackers, warnings)
            logs.append(stack.enter_context(log))
        together = _Together(trainer, seeds, [each.learning_rate for each in settings])
        ended = _loop(together, logs, settings[0], evaluate, f"{len(logs)} runs", 0, lambda: "none")
        for log in logs:
            log.flush()
        return [ended.get(run, parameters) for run, parameters in enumerate(together.parameters())]


class _Alone:
    """One run, on its mesh."""

    def __init__(self, trainer: Trainer, state: TrainState):
        self.trainer, self.state = trainer, state
        self._reference_moves = trainer.settings.refresh_reference_every > 0

    def step(self) -> list[dict[str, Any]]:
        self.state, metrics = self.trainer.step(self.state)
        return [hosts.to_host(metrics)]

    def parameters(self) -> list[Parameters]:
        return [union(self.state.parameters, self.trainer.frozen)]

    @property
    def stored(self) -> TrainState:
        """The state in a checkpoint. Its note is `RunLog.written`: a state is used only with the records it continues.

        A reference that does not move is the initial policy of every start.
        """
        return self.state if self._reference_moves else dataclasses.replace(self.state, reference=None)

    def restore(self, checkpoints: Checkpoints, folder: RunFolder) -> int:
        """Continues from the latest checkpoint whose records are all there; returns its step, or 0.

        Later records are dropped, and the summary unless that is the last step.

        Raises:
          ValueError: the run was begun with another reward or other stored groups, or no checkpoint can be used. Then
            no record has been dropped.
        """
        lost = functools.partial(run_log.lost, folder.path)
        step, state, records = checkpoints.restore(self.stored, lost) or (0, self.stored, {})
        if not np.array_equal(*hosts.to_host((self.state.given, state.given))):
            raise ValueError(
                "this run was begun with another reward, or with other stored groups: give the same, or another folder"
            )
        if step < self.trainer.settings.steps:
            if not step and hosts.is_first() and is_complete(folder.path):
                logging.warning("%s was complete, but has no checkpoints any more: it is trained anew.", folder.path)
            folder.withdraw_summary()
        run_log.cut(folder.path, records or {})
        self.state = state if self._reference_moves else dataclasses.replace(state, reference=self.state.reference)
        return step


class _Together:
    """Many runs, mapped over the first axis of every array of the state."""

    def __init__(self, trainer: Trainer, seeds: Sequence[int], rates: Sequence[float]):
        self.runs, each = len(seeds), filled(len(seeds))
        arguments = jnp.asarray(seeds)[each], jnp.asarray(rates, jnp.float32)[each], None, None
        self.state = jax.jit(over_runs(trainer.begin))(*arguments)
        self._step = jax.jit(over_runs(trainer.step), donate_argnums=0)

    def step(self) -> list[dict[str, Any]]:
        self.state, metrics = self._step(self.state)
        return self._of_each(metrics)

    def parameters(self) -> list[Parameters]:
        return self._of_each(self.state.parameters)

    def _of_each(self, tree: Any) -> list[Any]:
        tree = jax.device_get(tree)
        return [jax.tree.map(operator.itemgetter(run), tree) for run in range(self.runs)]


def _loop(
    runs: _Alone | _Together,
    logs: Sequence[RunLog],
    settings: TrainSettings,
    evaluate: Evaluate | None,
    label: str,
    done_before: int,
    last_good: Callable[[], str],
    save: Callable[[int], None] = lambda done: None,
) -> dict[int, NonFiniteLossError]:
    """Does all steps after `done_before`; returns the error of each run that one ended.

    Args:
      last_good: says which checkpoint is the last good one, for the message of such an error.
      save: called after each step.
    """
    ended, going_on = {}, dict(enumerate(logs))
    trajectories = len(logs) * settings.prompts_per_step * settings.group_size
    with ProgressLine(settings.steps, done_before, trajectories, label) as progress:
        if done_before == 0 and evaluate is not None:
            for log, parameters in zip(logs, runs.parameters(), strict=True):
                log.write(0, {}, evaluate(0, parameters))
        for done in range(done_before + 1, settings.steps + 1):
            records = runs.step()
            due = evaluate is not None and (done % settings.evaluate_every == 0 or done == settings.steps)
            parameters = runs.parameters() if due else []
            for run, log in list(going_on.items()):
                record = {name: float(value) for name, value in records[run].items()}
                try:
                    require_finite(record, done, last_good())
                except NonFiniteLossError as error:
                    ended[run] = error
                    del going_on[run]
                else:
                    log.write(done, record, evaluate(done, parameters[run]) if due else None)
            if not going_on:
                break
            save(done)
            progress.advance(
                **{name: statistics.fmean(records[run][metric] for run in going_on) for name, metric in SHOWN.items()}
            )
    return ended


def _print_placements(alone: _Alone, mesh: Mesh) -> None:
    """Prints the table of placements to stderr, if any leaf is sharded."""
    trainer, state = alone.trainer, dataclasses.replace(alone.state, source=None)
    placed = state_placements(state, trainer.policy, trainer.optimizer(), mesh)
    placed_frozen = placements(trainer.policy.placement_rules, trainer.frozen, mesh)
    if any_is_sharded((placed, placed_frozen)) and hosts.is_first():
        print(table((placed, placed_frozen), (state, trainer.frozen), mesh), file=sys.stderr)
