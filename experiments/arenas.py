"""Where objectives are compared: each arena trains one objective with all its seeds and measures it on the way.

`exact_arena` is for environments whose laws are known: all seeds are one compiled program, and every measure is exact.
`text_arena` is for text tasks: the runs of `ipsrl.study.text_tasks`, measured on sampled answers.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.launch import Output, folder_name
from ipsrl import objectives
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.state_graph import StateGraph
from ipsrl.measures import distances, diversity
from ipsrl.policies.policy import Parameters
from ipsrl.policies.state_table import log_probs_table
from ipsrl.policies.tabular import Tabular
from ipsrl.study.training_runs import TrainingGrid
from ipsrl.training import metric_log
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.loop import TrainSettings, check_run
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.off_policy import OffPolicyAnswers
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder, is_complete
from ipsrl.training.step import Batching, check_objective
from ipsrl.training.warm_start import WarmStart, prior_parameters

MAX_GRADIENT_NORM = 1.0
ADAM_EPSILON = 1e-5
"""Well above the rounding of a gradient that is 0, that of an arm which was not sampled: Adam would walk along it."""
SHORT_RUN = 1_000_000
"""Tokens, of all seeds, up to which it takes longer to optimise a program than to run it as it is."""


@dataclasses.dataclass(frozen=True)
class Curves:
    """One objective on one environment, over training.

    Attributes:
      objective: its specification.
      learning_rate: of its runs, see `step_size`.
      updates: `[U]`, when it was measured; 0 is the start.
      measures: name -> `[S, U]`, one row for each seed; `reward`, as a share of the best possible one, and
        `effective_outcomes` are always there.
    """

    objective: str
    learning_rate: float
    updates: np.ndarray
    measures: dict[str, np.ndarray]

    @property
    def start_reward(self) -> float:
        """Mean over seeds before training."""
        return float(self.measures["reward"][:, 0].mean())

    @property
    def final_reward(self) -> float:
        """Mean over seeds at the end; NaN where training left the real numbers."""
        return float(self.measures["reward"][:, -1].mean())


@dataclasses.dataclass(frozen=True)
class ExactArena:
    """An environment with exact laws, and a table of logits as the policy.

    Attributes:
      environment: its rewards must not be negative.
      seeds, steps, prompts_per_step, group_size: of every objective's runs; see also `group_and_rule`.
      evaluate_every: steps between measurements.
      epochs: passes over each batch.
      skew: the policy of a bandit starts at p proportional to rank^-skew, in a fixed random order of the arms (rewards
        play no part in it); others start with uniform actions.

    Raises:
      ValueError: a reward is negative, or none is positive.
    """

    environment: StateGraph
    seeds: Sequence[int]
    steps: int
    prompts_per_step: int
    group_size: int
    evaluate_every: int
    epochs: int
    skew: float

    def __post_init__(self):
        rewards = self.environment.reward_table()
        if rewards.min() < 0 or (rewards.max(axis=1) == 0).any():
            raise ValueError(f"{self.environment}: laws proportional to reward need no reward below 0, and one above")

    @property
    def policy(self) -> Tabular:
        environment = self.environment
        start = None
        if isinstance(environment, Bandit):
            rank = 1 + np.random.default_rng(0).permutation(environment.num_outcomes)
            start = tuple((-self.skew * np.log(rank)).tolist())
        return Tabular(environment.num_observations, environment.vocabulary_size, start)

    @property
    def proportional_reward(self) -> float:
        """The mean reward of the reward-proportional law, sum(r^2) / sum(r), as a share of the best possible one."""
        rewards = self.environment.reward_table().astype(np.float64)
        return float(((rewards**2).sum(axis=1) / rewards.sum(axis=1)).mean() / rewards.max(axis=1).mean())

    def refusal(self, objective: str) -> str | None:
        """Why an objective cannot be computed here; None where it can."""
        try:
            group_size, off_policy = group_and_rule(objective, self.group_size)
            check_objective(objectives.make(objective), self.environment, self.policy, group_size, off_policy)
        except ValueError as error:
            return str(error)
        return None

    def train(self, objective: str, learning_rate: float, output: Output) -> Curves:
        """Trains an objective, or reads what an earlier command left in its folder of `output`."""
        config = {
            "environment": repr(self.environment),
            "policy": repr(self.policy),
            "objective": objective,
            "learning_rate": step_size(objective, learning_rate),
            "max_gradient_norm": MAX_GRADIENT_NORM,
            "adam_epsilon": ADAM_EPSILON,
            **{
                field.name: getattr(self, field.name)
                for field in dataclasses.fields(self)
                if field.name not in ("environment", "skew")
            },
        }
        group_size, off_policy = group_and_rule(objective, self.group_size)
        updates = np.arange(0, self.steps + 1, self.evaluate_every)
        with RunFolder.open(output.path / folder_name(objective), config, output.resume) as folder:
            if not is_complete(folder.path):
                seeds = jnp.asarray(self.seeds, jnp.int32)
                with working(f"training {objective}, {len(self.seeds)} seeds"):
                    program = train_ensemble.lower(
                        self.environment,
                        self.policy,
                        objectives.make(objective),
                        make_optimizer("adam", step_size(objective, learning_rate), MAX_GRADIENT_NORM, ADAM_EPSILON),
                        seeds,
                        self.steps,
                        self.prompts_per_step,
                        group_size,
                        record=functools.partial(exact_laws, self.environment, self.policy),
                        record_every=self.evaluate_every,
                        batching=Batching(self.epochs),
                        off_policy=off_policy,
                    ).compile(self._compiler_options)
                    laws = program(seeds)
                    measures = {name: np.asarray(v) for name, v in measure_laws(self.environment, laws).items()}
                self._write(folder, updates, measures)
                _say(objective, len(self.seeds), measures["reward"][:, -1].mean(), folder)
            records = metric_log.read(folder.metrics_path)
        shape = (len(self.seeds), len(updates))
        names = [name for name in records[0] if name not in ("step", "seed")]
        return Curves(
            objective,
            learning_rate,
            updates,
            {name: np.array([record[name] for record in records]).reshape(shape) for name in names},
        )

    @property
    def _compiler_options(self) -> dict[str, int]:
        """Most of a short run is compilation, and most of that is LLVM: 3.3 s with its optimisation, 1 s without."""
        samples = len(self.seeds) * self.steps * self.prompts_per_step * self.group_size
        short = samples * self.environment.max_tokens < SHORT_RUN
        return {"xla_backend_optimization_level": 0} if short and jax.default_backend() == "cpu" else {}

    def _write(self, folder: RunFolder, updates: np.ndarray, measures: dict[str, np.ndarray]) -> None:
        with MetricLog(folder.metrics_path) as log:
            log.truncate_after(-1)
            for row, seed in enumerate(self.seeds):
                for column, update in enumerate(updates):
                    log.write(update, {"seed": seed} | {name: values[row, column] for name, values in measures.items()})
        folder.write_summary({name: values[:, -1].mean() for name, values in measures.items()})


def exact_laws(environment: StateGraph, policy: Tabular, parameters: Parameters) -> jax.Array:
    """`[num_prompts, K]`, the probability of every outcome."""
    table = log_probs_table(policy, parameters, environment)
    prompts = jnp.arange(environment.num_prompts)
    return jax.vmap(environment.terminal_distribution, in_axes=(None, 0))(table, prompts)


def measure_laws(environment: StateGraph, laws: jax.Array) -> dict[str, jax.Array]:
    """Measures `[...]` of laws `[..., num_prompts, K]`, each the mean over prompts.

    `reward` is a share of the best possible one. `effective_outcomes` counts outcomes of positive reward,
    `effective_best` those of the highest; both are exp(H) of the law restricted to them. `survival` is the probability
    of the outcomes of the least positive reward, over what the reward-proportional law gives them. A mode is found
    where it has half of its share of that law.
    """
    rewards = jnp.asarray(environment.reward_table())
    target = rewards / rewards.sum(axis=-1, keepdims=True)
    rewarded, best = rewards > 0, rewards == rewards.max(axis=-1, keepdims=True)
    least = rewards == jnp.where(rewarded, rewards, jnp.inf).min(axis=-1, keepdims=True)
    measures = {
        "reward": (laws * rewards).sum(axis=-1) / rewards.max(axis=-1).mean(),
        "effective_outcomes": _effective(laws, rewarded),
        "effective_best": _effective(laws, best),
        "survival": (laws * least).sum(axis=-1) / (target * least).sum(axis=-1),
        "tv_to_proportional": distances.total_variation(laws, target),
        "tv_to_uniform_best": distances.total_variation(laws, best / best.sum(axis=-1, keepdims=True)),
        "l1_to_proportional": distances.total_l1(laws, target),
        "modes": (best & (laws > target / 2)).sum(axis=-1, dtype=jnp.float32),
    }
    return {name: values.mean(axis=-1) for name, values in measures.items()}


def _effective(laws: jax.Array, counted: jax.Array) -> jax.Array:
    """exp(H) of laws restricted to some outcomes; 0 where these have no probability."""
    kept = laws * counted
    total = kept.sum(axis=-1, keepdims=True)
    effective = diversity.effective_outcomes_of_law(kept / jnp.where(total == 0, 1.0, total))
    return jnp.where(total[..., 0] == 0, 0.0, effective)


@dataclasses.dataclass(frozen=True)
class TextArena:
    """A text task, on which a transformer starts from a prior that is competent and biased.

    Attributes:
      grid: runs of `ipsrl.study.text_tasks` with any objective, for all that is not an objective.
      warm_start: the prior.
    """

    grid: TrainingGrid
    warm_start: WarmStart

    @property
    def proportional_reward(self) -> float:
        """All rewards are 0 or 1."""
        return 1.0

    @functools.cached_property
    def prior(self) -> Parameters:
        return prior_parameters(self.grid.environment, self.grid.policy, self.warm_start)

    def refusal(self, objective: str) -> str | None:
        """Why an objective cannot be computed here; None where it can."""
        grid = self.grid
        try:
            settings = self._settings(objective, grid.settings.learning_rate)
            check_run(grid.environment, grid.policy, objectives.make(objective), settings, grid.mesh)
        except ValueError as error:
            return str(error)
        return None

    def train(self, objective: str, learning_rate: float, output: Output) -> Curves:
        """Trains an objective, or continues what an earlier command left in its folder of `output`."""
        settings = self._settings(objective, learning_rate)
        grid = dataclasses.replace(self.grid, objectives=(objective,), settings=settings)
        runs = list(
            grid.train(
                output,
                self.prior,
                identity={"warm_start": dataclasses.asdict(self.warm_start)},
            )
        )
        names = {name: name for name in ("effective_outcomes", "recovery", "validity", "uniqueness", "ceiling")}
        # The reward of an answer is 1 where it is valid: pass@1 is its mean over all answers of the evaluation.
        names |= {"reward": "pass_at_1"}
        return Curves(
            objective,
            learning_rate,
            np.array(runs[0].points().steps),
            {name: np.array([run.points().values[logged] for run in runs]) for name, logged in names.items()},
        )

    def _settings(self, objective: str, learning_rate: float) -> TrainSettings:
        group_size, off_policy = group_and_rule(objective, self.grid.settings.group_size)
        rate = step_size(objective, learning_rate)
        return dataclasses.replace(self.grid.settings, learning_rate=rate, group_size=group_size, off_policy=off_policy)


Arena = ExactArena | TextArena


def group_and_rule(objective: str, samples: int) -> tuple[int, OffPolicyAnswers | None]:
    """How an objective spends the samples that it has for each prompt: the size of its group, and what else it draws.

    All become the group, unless the objective needs an answer that the policy did not draw from the prompt: then half
    of them, and the best of the other half.
    """
    if "off_policy" not in objectives.make(objective).needs:
        return samples, None
    return samples - samples // 2, OffPolicyAnswers(answers=samples // 2)


def step_size(objective: str, learning_rate: float) -> float:
    """The learning rate of one optimiser step: those that an objective makes of the same batch share it."""
    return learning_rate / objectives.make(objective).num_stages


def _say(objective: str, seeds: int, reward: float, folder: RunFolder) -> None:
    print(f"trained {objective}, {seeds} seeds: reward {reward:.3g}, {folder.path}", file=sys.stderr, flush=True)
