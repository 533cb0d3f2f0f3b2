"""Two techniques: does the prior or the objective decide what reinforcement learning reaches, and what it keeps?

Claim     Advantages normalised by the batch's standard deviation, and a loss that is a mean over tokens, let plain
          PPO-like training match GRPO and DAPO; the prior, not the algorithm, sets the ceiling of the score. Ours: what
          is left of several right answers (effective outcomes) is set by the objective more than by the prior.
Paper     arXiv 2508.08221 (Lite PPO), whose evidence are training curves of two models, without numbers. That the prior
          sets the ceiling is said of many algorithms; our reading of a prior's quality is below.
Arms      Twelve objectives, each at the best of three learning rates (by the score of other seeds, mean over priors).
          Plain: r - group mean, mean over answers; each technique alone; both (Lite PPO); both without a group baseline
          (REINFORCE++); GRPO, DAPO (without dynamic sampling and length limit, as all arms sample the same number of
          answers), CISPO; four that are meant to keep more: entropy bonus, unlikeliness, ProGRPO, IPS-GRPO. Six priors:
          median pass rate 2, 10, 40 %, with the four right answers even or biased.
Command   python -m experiments.two_techniques
Time      TIME
Expected  EXPECTED
Doubt     Shares of variance are those of these twelve and these six: priors closer together explain less. Prompts share no
          parameters, so that nothing is learned from one for another; in text (--tasks, not run in demo) they do.
Smoke     python -m experiments.two_techniques --preset=smoke

Eight prompts, each a tree with nine outcomes, of which four are right, reached by 3 to 8 moves (tokens); a batch has a
group for each prompt, and makes four optimiser steps, so that clips act. Pass rates of prompts spread by `spread` in
logits around the median: a poor prior has prompts on which no answer of the whole training is right. All numbers are
exact for the policy of each seed. `tasks` adds 4 objectives x 3 priors on text.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit, logit

from ipsrl import objectives, study
from ipsrl.environments import catalog as environments
from ipsrl.environments.trees import Trees
from ipsrl.fields import accepted_by, at_least, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures import rewarded
from ipsrl.measures.seeds import Interval
from ipsrl.policies.policy import Parameters
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.records.tidy import Records
from ipsrl.study import crossed, text_tasks
from ipsrl.study.tuning import at_best_rate
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

PLAIN, TOKENS = (f"dr_grpo(aggregation={mean})" for mean in ("sequence_mean", "token_mean"))
NORMALISED, BOTH, WHITENED = "lite_ppo(aggregation=sequence_mean)", "lite_ppo", "reinforce_plus_plus"
GRPO, DAPO = "grpo", "dapo(overlong=0)"
RETURN = (PLAIN, NORMALISED, TOKENS, BOTH, WHITENED, GRPO, DAPO, "cispo")
KEEPING = ("grpo(entropy=0.01)", "unlikeliness", "progrpo(reference=correct)", "ips_grpo")
IN_TEXT = (BOTH, GRPO, DAPO, "ips_grpo(floor=0.2)")
SCORE, KEPT, MARGIN = "pass_at_1", "effective_outcomes", 0.02
RANKS = np.array([np.random.default_rng(prompt).permutation(9) for prompt in range(8)])
RIGHT = RANKS < 4
TREES = Trees(depth=8, rewards=tuple(map(tuple, RIGHT.astype(float).tolist())))
POLICY = Tabular(TREES.num_observations, TREES.vocabulary_size)


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`biases`: the prior's probability of a right answer, divided by that of the next likelier one."""

    objectives: tuple[str, ...] = study.objectives((*RETURN, *KEEPING))
    pass_rates: tuple[float, ...] = study.rising((0.02, 0.1, 0.4), least=1e-6, most=0.999)
    biases: tuple[float, ...] = study.rising((0.4, 1.0), least=1e-3, most=1)
    spread: float = positive(6.0)
    learning_rates: tuple[float, ...] = positive((0.03, 0.1, 0.3))
    seeds: tuple[int, ...] = study.seeds(tuple(range(6)), least=2)
    tuning_seeds: tuple[int, ...] = study.seeds((1000, 1001))
    group_size: int = at_least(2, 8)
    steps: int = positive(400)
    tasks: tuple[str, ...] = accepted_by(environments.check, ())
    prior_steps: tuple[int, ...] = study.rising((300, 1000, 3000), least=1, most=10**6)


PRESETS = {
    "smoke": Settings((BOTH, GRPO), seeds=(0, 1), learning_rates=(0.1,), steps=4, record_every=2),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(32)), tasks=("hypospace_boolean(operators=full, depth=2)",)),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    priors = list(itertools.product(settings.pass_rates, settings.biases))
    starts = {"logits": np.stack([prior(*quality, settings.spread) for quality in priors])}
    training = TrainSettings(
        settings.steps, len(RIGHT), settings.group_size, max_gradient_norm=None, batching=Batching(mini_batches=4)
    )
    for text in settings.objectives:
        trainer = Trainer(TREES, POLICY, objectives.make(text), training)
        trained = functools.cache(functools.partial(at_best_rate, trainer, measures, SCORE, starts, settings))
        for number, (pass_rate, bias) in enumerate(priors):
            labels = {"task": "trees", "objective": text, "pass_rate": pass_rate, "bias": bias}
            yield study.Curve(labels, lambda trained=trained, number=number: trained()[number])
    for task, steps in itertools.product(settings.tasks, settings.prior_steps):
        of_text = text_tasks.TextTaskSettings(
            tasks=(task,), objectives=IN_TEXT, seeds=settings.seeds[:5], prior_steps=steps
        )
        grid = dataclasses.replace(text_tasks.training_grid(task, of_text), folder=f"prior_{steps}")
        yield from grid.curves({"task": "text", "prior_steps": steps})


def prior(pass_rate: float, bias: float, spread: float) -> np.ndarray:
    return TREES.prior(expit(logit(pass_rate) + np.linspace(-spread, spread, len(RIGHT))), bias**RANKS)


def measures(parameters: Parameters) -> dict[str, jax.Array]:
    """Means over prompts, exact."""
    probs = jax.vmap(functools.partial(outcome_probs, TREES, POLICY, parameters))(jnp.arange(len(RIGHT)))
    found = rewarded.measures(probs, RIGHT.astype(np.float32))
    return {SCORE: found["reward"], KEPT: found["effective_outcomes"]}


def gain(name: str, other: str) -> Callable[[Records], Interval]:
    return crossed.gain(SCORE, name, other, task="trees")


def reaches(name: str, records: Records) -> bool | None:
    """Whether an objective is less than the margin below both GRPO and DAPO."""
    parts = [gain(name, other)(records).exceeds(-MARGIN) for other in (GRPO, DAPO)]
    return False if False in parts else None if None in parts else True


def explains_more(value: str, source: str, other: str) -> Callable[[Records], bool | None]:
    of = functools.partial(crossed.share, value, task="trees")
    return lambda records: of(source)(records).exceeds(of(other)(records))


CLAIMS = {
    "both techniques (Lite PPO) reach the score of GRPO and DAPO: at most 0.02 below": functools.partial(reaches, BOTH),
    "without a group baseline (REINFORCE++) as well": functools.partial(reaches, WHITENED),
    "it is the techniques: Lite PPO scores higher than plain PPO": lambda records: gain(BOTH, PLAIN)(records).exceeds(
        0
    ),
    "the prior explains more of the variance of the score": explains_more(SCORE, "prior", "objective"),
    "the objective explains more of the variance of effective outcomes": explains_more(KEPT, "objective", "prior"),
}
NAMES = {"Lite PPO": BOTH, "REINFORCE++": WHITENED, "normalised": NORMALISED, "token mean": TOKENS}
THAN = {"GRPO": GRPO, "DAPO": DAPO, "plain": PLAIN}
AMONG = {"": RETURN + KEEPING, " (the first eight)": RETURN, " (text)": IN_TEXT}
NUMBERS = {f"score, {a} - {b}": gain(NAMES[a], THAN[b]) for a, b in itertools.product(NAMES, THAN)} | {
    f"share of {value.replace('_', ' ')} by {source}{where}": crossed.share(
        value, source, names, task="text" if names == IN_TEXT else "trees"
    )
    for (where, names), value, source in itertools.product(AMONG.items(), (SCORE, KEPT), crossed.SOURCES)
}
AXES = {"xlabel": "median pass rate of the prior", "xscale": "log"}
PANELS = [
    Panel([Line(value, "pass_rate", where={"bias": bias}, at_end=True)], f"bias {bias:g}", ylabel=ylabel, **AXES)
    for bias, (value, ylabel) in itertools.product((0.4, 1.0), ((SCORE, "score"), (KEPT, "effective right outcomes")))
]
FIGURE = Panels(PANELS, columns=2)

if __name__ == "__main__":
    study.main(__name__)
