"""Evaluation of a policy on a text task: how many admissible answers it still produces."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from ipsrl.distributed import memory
from ipsrl.distributed.mesh import DATA
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.questions import HypothesisEnvironment
from ipsrl.measures import answers, diversity
from ipsrl.measures.coverage import mean_covered_at_k
from ipsrl.measures.pass_at_k import mean_pass_at_k
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.records.evaluation import Evaluate, Evaluation
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampled_answers import answers_with_history, completions, independent_answers
from ipsrl.rollouts.sources.source import Sampled
from ipsrl.training.settings import TrainSettings

PASS_AT = (1, 4, 16, 32, 64)
# Recovery is also reported by the number A of admissible hypotheses: with A = 1 a single answer recovers all.
SIZES = ((1, 3), (4, 27), (28, 1000))


def evaluate_text(
    environment: HypothesisEnvironment,
    policy: Policy,
    settings: TrainSettings,
    mesh: Mesh,
    kept: int,
    protocol: answers.Protocol,
    step: int,
    parameters: Parameters,
    *,
    decoding: Decoding | None = None,
) -> Evaluation:
    """Measures of the answers to every prompt, averaged over prompts, and the first answers as text.

    Recovery, validity and uniqueness use each prompt's first A answers; all other measures its first `kept`, or all if
    there are fewer. Ranked shares are shares of a prompt's valid answers.

    Args:
      settings: of the training; they set the largest batch that is sampled at once.
      kept: number of answers to each prompt.
      protocol: how answers are requested.
      step: not used: all policies are sampled with the same random numbers.
      decoding: the distribution of each token; None for the temperature of the training alone.
    """
    queries = int(environment.admissible.sum(axis=1).max())
    independent, in_words = protocol == "independent", isinstance(environment, LanguageTask)
    key, decoding = stream(0, 0, "evaluation"), decoding or Decoding(settings.temperature)
    if independent:
        count = max(kept, queries)
        at_once = prompts_at_once(settings, mesh, count) if in_words else None
        answered = independent_answers(environment, policy, parameters, key, count, decoding, at_once)
    else:
        at_once = settings.prompts_per_step if in_words else None
        answered = answers_with_history(environment, policy, parameters, key, queries, decoding, at_once)
    outcome_id, valid = np.asarray(answered.outcomes.outcome_id), np.asarray(answered.outcomes.right)
    measured = answers.measure_answers(outcome_id, valid, environment.admissible, protocol)
    outcomes = jnp.asarray(np.where(valid, outcome_id, -1)[:, :kept])
    # The estimator needs independent answers.
    tried = [k for k in PASS_AT if independent and k <= kept]
    pass_at = mean_pass_at_k(valid[:, :kept].sum(axis=1), kept, tried)
    covered = mean_covered_at_k(np.asarray(outcomes), environment.admissible, tried)
    sizes = {(low, high): measured.recovery_between(low, high) for low, high in SIZES}
    metrics = {
        **measured.means(),
        "effective_outcomes": float(diversity.effective_outcomes(outcomes).mean()),
        "largest_outcome_share": float(diversity.largest_outcome_share(outcomes).mean()),
        **{f"pass_at_{k}": value for k, value in pass_at.items()},
        **{f"covered_at_{k}": value for k, value in covered.items()},
        **{f"recovery_of_{low}_to_{high}": value for (low, high), value in sizes.items() if value is not None},
    }
    shares = np.asarray(diversity.ranked_shares(outcomes)).mean(axis=0)
    return Evaluation(metrics, shares, completions(environment, answered, environment.hypotheses))


def evaluate_held_out(
    evaluate: Evaluate, evaluate_others: Evaluate, trained_on: int, step: int, parameters: Parameters
) -> Evaluation:
    """`evaluate` for the prompts that are trained on, and for others, whose metrics have the prefix `held_out_`.

    Args:
      evaluate, evaluate_others: `evaluate_text` for both.
      trained_on: number of prompts that are trained on; in the completions, the others are counted after them.
    """
    found, others = evaluate(step, parameters), evaluate_others(step, parameters)
    metrics = {f"held_out_{name}": value for name, value in others.metrics.items()}
    completions = [
        dataclasses.replace(completion, prompt_index=trained_on + completion.prompt_index)
        for completion in others.completions
    ]
    return dataclasses.replace(
        found, metrics={**found.metrics, **metrics}, completions=[*found.completions, *completions]
    )


def require_memory(
    environment: HypothesisEnvironment,
    policy: Policy,
    settings: TrainSettings,
    mesh: Mesh,
    kept: int,
    protocol: answers.Protocol,
) -> None:
    """Raises ValueError, from shapes alone, if there is less memory than the answers of `evaluate_text` take."""
    # With history, there are as many queries as hypotheses, one after the other.
    if protocol == "independent":
        in_words = isinstance(environment, LanguageTask)
        at_once = prompts_at_once(settings, mesh, kept) if in_words else environment.num_prompts
        asked = Sampled(environment, policy, at_once, kept)
        shapes = asked.shapes(jax.eval_shape(policy.init, jax.random.key(0)))
        memory.require(memory.size_of(shapes), "the answers of an evaluation", "lower --answers")


def prompts_at_once(settings: TrainSettings, mesh: Mesh, answers_per_prompt: int) -> int:
    """Number of prompts to evaluate at once: as many as a training step has memory for, divisible by the devices.

    If the answers to one prompt exceed a training batch, it is one prompt for each device that prompts are sharded
    over.
    """
    devices = mesh.shape.get(DATA, 1)
    fitting = settings.prompts_per_step * min(settings.group_size, answers_per_prompt) // answers_per_prompt
    return max(1, fitting // devices) * devices
