"""Policies of a text task that were taught by few demonstrations, and what can be measured of them before training."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from scipy.optimize import brentq

from ipsrl.environments.text import TextTask
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.records.evaluation import Evaluate, Evaluation
from ipsrl.rollouts.given_answers import given_answers, scores
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampled_answers import independent_answers
from ipsrl.training.settings import TrainSettings
from ipsrl.training.supervised.warm_start import (
    WarmStart,
    answer_weights,
    learn_prior,
    prior_parameters,
    rendered_answers,
)
from ipsrl.training.text_evaluation import evaluate_text

ANSWERS = 4
"""Demonstrations to a prompt in a step of supervised training."""
HOTTEST = 16.0


@dataclasses.dataclass(frozen=True)
class FewDemonstrations:
    """A few right answers to every other prompt of a task, the first included; the other prompts are held out.

    Attributes:
      number: of each prompt that is taught.
      exponent: right answers are drawn with weights rank^-exponent, in one order for all prompts; 0 favours none.
      batch: demonstrations in a step, a multiple of 4.
      learning_rate: with cosine decay to zero.
    """

    task: TextTask
    policy: Transformer
    number: int = 4
    exponent: float = 1.5
    batch: int = 16
    learning_rate: float = 1e-3

    @functools.cached_property
    def shares(self) -> np.ndarray:
        """`[P, K]` float64, the probability of each right answer to be drawn."""
        how = WarmStart(admissible_share=1.0, zipf_exponent=self.exponent)
        weights = answer_weights(self.task, how, np.random.default_rng(how.seed)).astype(np.float64)
        return weights / weights.sum(axis=1, keepdims=True)

    def from_prior(self, steps: int, epochs: int, seed: int) -> Parameters:
        """The policy so taught after the prior of a warm start in so many steps, which favours no right answer."""
        prior = prior_parameters(self.task, self.policy, WarmStart(zipf_exponent=0.0, steps=steps))
        return self.teach(prior, epochs, seed)

    def teach(self, parameters: Parameters, epochs: int, seed: int) -> Parameters:
        """The policy after some epochs of the demonstrations that this seed draws."""
        rng = np.random.default_rng(seed)
        counts = np.array([rng.multinomial(self.number, of_prompt) for of_prompt in self.shares])
        counts[1::2] = 0
        how = WarmStart(
            steps=max(1, epochs * self.number * len(counts[::2]) // self.batch),
            prompts_per_step=self.batch // ANSWERS,
            answers_per_prompt=ANSWERS,
            renderings=1,
            learning_rate=self.learning_rate,
        )
        parameters = jax.tree.map(jnp.copy, parameters)
        return learn_prior(self.task, self.policy, how, parameters, counts / self.number)

    def held_out_loss(self, parameters: Parameters) -> float:
        """Expected negative log-likelihood of a demonstration to a prompt that is held out, in nats."""
        held_out = self.task.prompts(np.arange(1, self.task.num_prompts, 2))
        shares = self.shares[1::2]
        likeliest = np.argsort(-shares, axis=1)[:, : np.count_nonzero(shares, axis=1).max()]
        tokens, lengths = rendered_answers(self.task, 1, np.random.default_rng(0))
        given = given_answers(held_out, tokens[:, 0][likeliest], lengths[:, 0][likeliest])
        log_probs = scores(self.policy, parameters, given).log_probs
        likelihoods = np.where(given.token_mask, log_probs, 0).sum(axis=-1)
        weights = np.take_along_axis(shares, likeliest, axis=1)
        return float(-(weights * likelihoods).sum(axis=1).mean())

    def evaluation(self, training: TrainSettings, mesh: Mesh, answers: int) -> Evaluate:
        """Evaluates independent answers by `evaluate_text`, with the further metrics `entropy` and `held_out_loss`."""

        def evaluate(step: int, parameters: Parameters) -> Evaluation:
            found = evaluate_text(
                self.task, self.policy, training, mesh, answers, "independent", step, parameters
            )
            entropy = self.answer_entropy(parameters)
            more = {"entropy": entropy, "held_out_loss": self.held_out_loss(parameters)}
            return dataclasses.replace(found, metrics={**found.metrics, **more})

        return evaluate

    def answer_entropy(self, parameters: Parameters) -> float:
        """Mean entropy of the tokens of sampled answers, in nats; eight answers to each prompt."""
        key = stream(0, 0, "entropy")
        answers = independent_answers(self.task, self.policy, parameters, key, 8)
        prompts = self.task.prompts(np.arange(self.task.num_prompts))
        given = given_answers(prompts, answers.tokens, answers.written.sum(axis=-1))
        entropies = scores(self.policy, parameters, given).entropy
        return float(np.asarray(entropies)[np.asarray(given.token_mask)].mean())

    def reheated(self, parameters: Parameters, entropy: float) -> Parameters:
        """The policy at the temperature, from 1 to 16, at which answers have this entropy, or one of these ends.

        The scale of the last norm is divided by the temperature, and with it all logits.
        """

        def at(temperature: float) -> Parameters:
            return parameters | {"norm": {"scale": parameters["norm"]["scale"] / temperature}}

        def above(temperature: float) -> float:
            return self.answer_entropy(at(temperature)) - entropy

        if above(1.0) >= 0:
            return parameters
        return at(brentq(above, 1.0, HOTTEST, xtol=0.02) if above(HOTTEST) > 0 else HOTTEST)
