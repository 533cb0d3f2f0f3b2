"""Does training on the fifth of the tokens with the highest entropy do as well as training on all?

Claim     A fifth of the tokens carries the entropy; training on them alone does as well as on all tokens or better, on
          the others alone it fails, and the choice hardly changes: 86 % of it are the first policy's to the end.
Paper     arXiv 2506.01939 (Qwen3-8B to 32B; no pass@k). Sharp forms, ours: it is the choice and not the larger step
          that the mean over a fifth gives, and it does not depend on how well the other tokens are done already.
Arms      All tokens (GRPO, clip 0.2 / 0.28, token mean); the fifth of highest entropy; the other four fifths. Placebos:
          a random fifth; all tokens with five times the step. Plan tokens, known by construction. Equal numbers of
          sampled answers. Exact: two forks of three branches, four right plans of nine, each fork with four steps
          that slip with probability 0.002, 0.02 or 0.1 at the start; logits for each state, SGD. Text: sums of two
          numbers in eight spellings, a small transformer from a prior, Adam, where the size of the step cancels.
Command   python -m experiments.forking_tokens
Time      TODO
Expected  TODO
Doubt     TODO
Smoke     python -m experiments.forking_tokens --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import study
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.forks import Forks
from ipsrl.fields import positive, probability
from ipsrl.figures.layers import Bars, Level, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures import diversity
from ipsrl.objectives.estimators.ranks import largest
from ipsrl.objectives.estimators.token_shares import rounded_up
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.records.evaluation import Evaluation, shared_at_start
from ipsrl.records.tidy import Records
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify
from ipsrl.study.text_tasks import text_task
from ipsrl.study.training_runs import TrainingGrid
from ipsrl.training.settings import TrainSettings
from ipsrl.training.warm_start import WarmStart, prior_parameters

ALL, TOP, REST, RANDOM, PLAN = ARMS = (
    "dapo(overlong=0)", "forking_tokens", "forking_tokens(tokens=others)", "forking_tokens(tokens=random)",
    "forking_tokens(tokens=planning)",
)  # fmt: skip
LARGER, FIFTH, AS_WELL = "all tokens, 5 x step", 0.2, 0.01


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`slips` are the probabilities of a slip at the start; `text_` settings are those of the task in words."""

    objectives: tuple[str, ...] = study.objectives(ARMS)
    slips: tuple[float, ...] = probability((0.002, 0.02, 0.1))
    seeds: tuple[int, ...] = study.seeds(tuple(range(32)), least=2)
    learning_rate: float = positive(1.0)
    steps: int = positive(600)
    record_every: int = positive(20)
    answers: int = positive(64)
    task: str = "addition(digits=2, problems=32)"
    text_seeds: tuple[int, ...] = study.seeds(tuple(range(5)))
    text_steps: int = positive(100)
    text_learning_rate: float = positive(1e-3)
    hidden_size: int = positive(32)
    prior_steps: int = positive(1000)


PRESETS = {
    "smoke": Settings(
        objectives=(ALL, RANDOM), slips=(0.02,), seeds=(0, 1), steps=40, answers=8, text_seeds=(0, 1), text_steps=2, hidden_size=8, prior_steps=20
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), steps=6000, record_every=100, text_steps=1000, hidden_size=64),
}


def curves(settings: Settings) -> Iterator[study.Curve | study.TrainingRun]:
    for slip in settings.slips:
        forks = Forks()
        policy = Tabular(forks.num_observations, forks.vocabulary_size, forks.logits(slip))
        record = functools.partial(exact, forks, policy, policy.init(jax.random.key(0)), settings.answers)
        for arm, text, times in (*((text, text, 1) for text in settings.objectives), (LARGER, ALL, 1 / FIFTH)):
            labels = {"task": f"slips {slip:g}", "objective": arm}
            rate = settings.learning_rate * times
            yield study.trained(forks, policy, text, settings, record, labels=labels, learning_rate=rate)
    yield from text_grid(settings).curves({"task": "text"})


@functools.partial(jax.jit, static_argnames=("environment", "policy", "answers"))
def entropies(environment, policy, first, parameters, prompts, answers):
    """Sampled answers; the mean entropy of their tokens, the share of it in the fifth that has most, and the share of
    this fifth that the first policy would choose from the same answers.
    """
    sampled = sample_groups(environment, policy, parameters, prompts, jax.random.key(0), answers)
    mask, entropy = sampled.token_mask, sampled.behaviour_entropy
    count = rounded_up(FIFTH, mask)
    chosen = largest(entropy, mask, count)
    at_first = largest(policy.score(first, sampled, 1.0).entropy, mask, count)
    total = (entropy * mask).sum()
    return sampled, {
        "entropy": total / mask.sum(),
        "share": (entropy * chosen).sum() / total,
        "overlap": (chosen & at_first).sum() / chosen.sum(),
    }


def exact(forks, policy, first, answers, parameters):
    """The exact reward and effective right outcomes; of sampled answers what `entropies` measures."""
    probs, rewards = outcome_probs(forks, policy, parameters), forks.reward_table()[0]
    reward = (probs * rewards).sum()
    effective = diversity.effective_outcomes_of_distribution(probs * rewards / reward)
    _, found = entropies(forks, policy, first, parameters, forks.prompts(jnp.zeros(1, jnp.int32)), answers)
    return {"score": reward, "effective": effective, **found}


def text_grid(settings: Settings) -> TrainingGrid:
    task = text_task(settings.task)
    policy = Transformer(task.vocabulary_size, hidden_size=settings.hidden_size, num_layers=2)
    training = TrainSettings(
        settings.text_steps, 16, settings.group_size, learning_rate=settings.text_learning_rate,
        evaluate_every=max(1, settings.text_steps // 10), checkpoint_every=settings.text_steps, monitors="none",
    )  # fmt: skip
    warm_start = WarmStart(steps=settings.prior_steps)
    first = functools.cache(lambda: prior_parameters(task, policy, warm_start))
    prompts = task.prompts(np.arange(task.num_prompts))

    def evaluate(step, parameters):
        sampled, found = entropies(task, policy, first(), parameters, prompts, settings.answers)
        outcomes = verify(task, sampled)
        right = np.where(np.asarray(outcomes.rewards) > 0, outcomes.outcome_id, -1)
        effective = diversity.effective_outcomes(right).mean()
        return Evaluation({"score": float((right >= 0).mean()), "effective": float(effective)} | {k: float(v) for k, v in found.items()})

    return TrainingGrid(
        task, policy, settings.objectives, settings.text_seeds, training, make_mesh(), shared_at_start(evaluate),
        folder="text", identity={"warm_start": dataclasses.asdict(warm_start)}, start=lambda: (first(), None),
    )  # fmt: skip


CLAIMS = {}
if __name__ == "__main__":
    study.main(__name__)
