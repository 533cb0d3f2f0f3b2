"""Training of one objective with one learning rate, on terms that are the same for all."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments import hypospace
from experiments.compare.flags import Settings, chosen_objectives, environment_of, kind_of
from ipsrl import objectives, study
from ipsrl.checking.arguments import checked
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.group_log import LoggedOutcomes
from ipsrl.measures import rewarded
from ipsrl.policies.state_table import outcome_probs_at_prompts
from ipsrl.policies.tabular import Tabular
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.rollouts.sources.refinements import spend_samples
from ipsrl.rollouts.sources.replayed_modes import ReplayedModes
from ipsrl.study import text_tasks
from ipsrl.study.training_runs import TrainingGrid
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings, nested
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

MAX_GRADIENT_NORM = 1.0
# Well above the rounding of a gradient that is 0, that of an arm which was not sampled: Adam would walk along it.
ADAM_EPSILON = 1e-5
# Tokens, of all seeds, up to which it takes longer to optimise a program than to run it as it is.
SHORT_RUN = 1_000_000


@functools.cache
def refused(settings: Settings) -> dict[str, str]:
    """Objective -> why it cannot be computed here."""
    rate, on_text = settings.learning_rates[0], kind_of(settings.environment) == "text"
    reasons = {}
    for text in chosen_objectives(settings.objectives):
        try:
            if on_text:
                text_grid(text, rate, settings)
            else:
                trainer_of(text, rate, settings).check()
        except ValueError as error:
            reasons[text] = str(error)
    return reasons


def step_size(objective: str, learning_rate: float) -> float:
    """The learning rate of one optimiser step; several steps on the same batch share the objective's rate."""
    return learning_rate / objectives.make(objective).num_steps


def policy_of(settings: Settings) -> Tabular:
    """A table of logits. That of a log starts at the logged shares; that of a bandit at p proportional to rank^-skew,
    in a fixed random order of the arms in which rewards play no part; others start with uniform actions.
    """
    environment = environment_of(settings.environment)
    start = None
    if isinstance(environment, LoggedOutcomes):
        start = environment.logged_logits
    elif isinstance(environment, Bandit):
        rank = 1 + np.random.default_rng(0).permutation(environment.num_outcomes)
        start = -settings.skew * np.log(rank)
    return Tabular.of(environment, start)


def exact_curves(objective: str, rate: float, settings: Settings) -> study.Curves:
    proportional = proportional_reward(environment_of(settings.environment).reward_table())
    points = functools.partial(exact_points, objective, rate, settings, proportional)
    yield study.Curve({"objective": objective, "learning_rate": rate}, points)


def trainer_of(objective: str, rate: float, settings: Settings) -> Trainer:
    made = objectives.make(objective)
    group_size, off_policy = spend_samples(made, settings.group_size)
    training = TrainSettings(
        settings.steps,
        settings.prompts_per_step,
        group_size,
        learning_rate=step_size(objective, rate),
        max_gradient_norm=MAX_GRADIENT_NORM,
        adam_epsilon=ADAM_EPSILON,
        batching=Batching(settings.epochs),
        wrappers=() if off_policy is None else (off_policy,),
    )
    return Trainer(environment_of(settings.environment), policy_of(settings), made, training)


def exact_points(
    objective: str, rate: float, settings: Settings, proportional: float
) -> study.Points:
    """Trains all seeds as one compiled program."""
    environment = environment_of(settings.environment)
    seeds = jnp.asarray(settings.seeds, jnp.int32)
    updates = len(seeds) * settings.steps
    answers = updates * settings.prompts_per_step * settings.group_size
    # Most of a short run is compilation, and most of that is LLVM: 3.3 s with its optimisation, 1 s without.
    short = answers * environment.max_tokens < SHORT_RUN
    quick = short and jax.default_backend() == "cpu"
    trainer = trainer_of(objective, rate, settings)
    record = functools.partial(outcome_probs_at_prompts, environment, trainer.policy)
    traced = train_ensemble.lower(trainer, seeds, record, settings.evaluate_every)
    program = traced.compile({"xla_backend_optimization_level": 0} if quick else {})
    values = rewarded.measures(program(seeds), environment.reward_table())
    values["proportional_reward"] = proportional
    steps = range(0, settings.steps + 1, settings.evaluate_every)
    return study.Points(steps, values, settings.seeds)


@functools.cache
def text_task(settings: Settings) -> TrainingGrid:
    """Policy, prior and evaluation are those of `experiments.hypospace` with this preset."""
    preset = hypospace.PRESETS[settings.preset]
    fitting = [
        number
        for number in range(1, preset.micro_batches + 1)
        if settings.prompts_per_step % (number * jax.device_count()) == 0
    ]
    same = (
        "seeds",
        "steps",
        "prompts_per_step",
        "group_size",
        "epochs",
        "evaluate_every",
        "filters",
    )
    task = dataclasses.replace(
        preset,
        # It needs nothing, and stands for all others.
        objectives=("reinforce",),
        micro_batches=max(fitting, default=1),
        checkpoint_every=settings.steps,
        **{name: getattr(settings, name) for name in same},
    )
    return text_tasks.training_grid(settings.environment, task)


def text_grid(objective: str, rate: float, settings: Settings) -> TrainingGrid:
    """The training runs of one objective.

    Raises:
      ValueError: it cannot be computed here.
    """
    grid = text_task(settings)
    group_size, off_policy = settings.group_size, None
    # Modes that are replayed are off-policy answers enough.
    if not any(isinstance(wrapper, ReplayedModes) for wrapper in grid.settings.wrappers):
        group_size, off_policy = spend_samples(objectives.make(objective), group_size)
    own = () if off_policy is None else (off_policy,)
    training = dataclasses.replace(
        grid.settings,
        learning_rate=step_size(objective, rate),
        group_size=group_size,
        wrappers=nested((*grid.settings.wrappers, *own)),
    )
    folder = f"learning_rate_{rate:g}"
    return dataclasses.replace(grid, objectives=(objective,), settings=training, folder=folder)


def text_curves(objective: str, rate: float, settings: Settings) -> study.Curves:
    for run in text_grid(objective, rate, settings).curves({"learning_rate": rate}):
        yield dataclasses.replace(run, train=functools.partial(text_points, run))


def text_points(run: study.TrainingRun, output: study.Output) -> study.Points:
    """Rewards are 0 or 1: their mean over the answers of an evaluation is pass@1."""
    try:
        found = run.train(output)
    except NonFiniteLossError:
        return study.Points([0], dict.fromkeys(("reward", "effective_outcomes"), np.nan))
    values = {**found.values, "reward": found.values["pass_at_1"], "proportional_reward": 1.0}
    return dataclasses.replace(found, values=values)


@checked
def proportional_reward(rewards: np.ndarray) -> float:
    """The mean reward of the reward-proportional distributions, sum(r^2) / sum(r), as a share of the best possible one.

    Raises:
      ValueError: a reward is negative, or all rewards of a prompt are zero.
    """
    rewards = np.asarray(rewards, np.float64)
    if rewards.ndim != 2 or rewards.size == 0:
        raise ValueError(f"rewards has shape {rewards.shape}, it must be [prompt, outcome]")
    if rewards.min() < 0 or (rewards.max(axis=1) == 0).any():
        raise ValueError(
            "reward-proportional probabilities need non-negative rewards, and a positive one for each prompt"
        )
    return float(
        ((rewards**2).sum(axis=1) / rewards.sum(axis=1)).mean() / rewards.max(axis=1).mean()
    )
