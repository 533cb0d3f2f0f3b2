"""Supervised warm start for text tasks: a prior that is competent and biased, like a pretrained language model.

Reinforcement learning from a uniform policy has nothing to collapse from. The prior imitates a base model: some of its
training answers are right for their prompt, and it strongly prefers some hypotheses.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ipsrl
from ipsrl import objectives
from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked, between, positive, probability
from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import own_device_mesh
from ipsrl.environments.environment import Environment
from ipsrl.environments.questions import HypothesisEnvironment
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.records.progress_line import working
from ipsrl.records.run_log import MUST_BE_FINITE, require_finite
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.rollouts.randomness import LARGEST_SEED, stream
from ipsrl.structures import Outcomes
from ipsrl.training.settings import TrainSettings
from ipsrl.training.storage.parameter_cache import cached
from ipsrl.training.trainer import Trainer

MOST_STEPS = 1_000_000
"""They are one program, which takes hours for so many, and which Ctrl-C does not interrupt."""


@dataclasses.dataclass(frozen=True)
class WarmStart(Checked):
    """The prior and how it is trained.

    Attributes:
      admissible_share: share of training answers that are admissible for their prompt; the others are sampled uniformly
        from the hypothesis space, in the right format. 0 gives a prior that knows only the format.
      zipf_exponent: s. Admissible hypotheses are sampled with weights proportional to rank^-s; ranks are one random
        order of all hypotheses, the same for every prompt.
      steps, prompts_per_step, answers_per_prompt, learning_rate: of supervised training on the tokens of answers and
        prompts, with cosine decay to zero.
      renderings: surface forms of each hypothesis used in training: the canonical one and random others.
      seed: of the order of hypotheses, the renderings, the parameters and the batches.

    Raises:
      ValueError: a number is out of its range.
    """

    admissible_share: float = probability(0.6)
    zipf_exponent: float = 1.0
    steps: int = between(1, MOST_STEPS, 1000, called="steps of the warm start")
    prompts_per_step: int = positive(8, called="prompts_per_step of the warm start")
    answers_per_prompt: int = positive(16, called="answers_per_prompt of the warm start")
    learning_rate: float = positive(3e-3, called="learning_rate of the warm start")
    renderings: int = positive(8, called="renderings of the warm start")
    seed: int = between(0, LARGEST_SEED, 0, called="seed of the warm start")

    @property
    def training(self) -> TrainSettings:
        """The settings of the training run that it is."""
        sizes = self.steps, self.prompts_per_step, self.answers_per_prompt
        return TrainSettings(*sizes, learning_rate=self.learning_rate, cosine_decay=True)


@checked
def prior_parameters(environment: HypothesisEnvironment, policy: Policy, settings: WarmStart) -> Parameters:
    """Parameters of the prior, learned once and then read from the disk cache (`IPSRL_CACHE`)."""
    key = {"warm_start": dataclasses.asdict(settings)}
    return learned_once(environment, policy, key, lambda: learn_prior(environment, policy, settings))


def learned_once(
    environment: Environment, policy: Policy, taught: Mapping[str, Any], learn: Callable[[], Parameters]
) -> Parameters:
    """Parameters that `learn` returns, on one device of this process, or that the disk cache has from an earlier call.

    The cache key includes the code that they depend on, so an edit of it trains them anew.

    Args:
      taught: what they depend on besides environment, policy and code, as JSON values.
    """
    package = Path(ipsrl.__file__).parent
    parts = (
        *(f"{room}/**/*.py" for room in ("environments", "policies", "training", "rollouts")),
        "objectives/*.py",
        "objectives/catalog/imitation.py",
        "structures.py",
        "rewards.py",
    )
    sources = [path for part in parts for path in package.glob(part)]
    key = {
        "environment": repr(environment),
        "policy": repr(policy),
        **taught,
        "code": hashlib.sha256(b"".join(source.read_bytes() for source in sorted(sources))).hexdigest(),
        "jax": jax.__version__,
        "backend": jax.default_backend(),
    }

    def make():
        # One process makes it for all, so it must not ask the devices of others.
        with jax.set_mesh(own_device_mesh()):
            return jax.device_get(learn())

    return cached(key, make, jax.eval_shape(policy.init, jax.random.key(0)))


def learn_prior(
    environment: HypothesisEnvironment,
    policy: Policy,
    settings: WarmStart,
    parameters: Parameters | None = None,
    weights: np.ndarray | None = None,
) -> Parameters:
    """Trains the prior as one compiled program, from `parameters` (which are donated) or from fresh ones.

    The objective is `supervised`, on groups of given answers.

    Args:
      weights: `[num_prompts, K]`, of the training answers, instead of those of the settings; prompts whose weights are
        all zero are not asked.

    Raises:
      NonFiniteLossError: the loss, the gradient or the parameters of a step were NaN or infinite.
    """
    # A base model has learned from questions as well as answers, so its confidence in a prompt is meaningful.
    prompts = "prompt_log_probs" in policy.optional_fields
    trainer = Trainer(environment, policy, objectives.make(f"supervised(prompts={prompts})"), settings.training)
    trainer.check()
    rng = np.random.default_rng(settings.seed)
    from_settings = answer_weights(environment, settings, rng)
    weights = from_settings if weights is None else np.asarray(weights, np.float32)
    asked = np.flatnonzero(weights.any(axis=1))
    tables = (
        jnp.asarray(table) for table in (asked, weights, *rendered_answers(environment, settings.renderings, rng))
    )
    with working("learning the prior"):
        parameters, step, metrics = jax.block_until_ready(_fit(trainer, settings, parameters, *tables))
    require_finite(dict(zip(MUST_BE_FINITE, hosts.to_host(metrics), strict=True)), int(hosts.to_host(step)), "none")
    return parameters


def answer_weights(environment: HypothesisEnvironment, settings: WarmStart, rng: np.random.Generator) -> np.ndarray:
    """`[num_prompts, K]` float32, probability of each hypothesis as a training answer to each prompt."""
    admissible = environment.admissible
    rank = 1 + rng.permutation(admissible.shape[1])
    weights = admissible * (rank**-settings.zipf_exponent).astype(np.float32)
    weights *= settings.admissible_share / weights.sum(axis=1, keepdims=True)
    weights += (1 - settings.admissible_share) / admissible.shape[1]
    return weights


def rendered_answers(
    environment: HypothesisEnvironment, renderings: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`[K, R, T]` int32 tokens of the hypotheses' surface forms, padded with 0, and `[K, R]` int32 lengths."""
    count = len(environment.hypotheses)
    tokens = np.zeros((count, renderings, environment.max_tokens), np.int32)
    lengths = np.zeros((count, renderings), np.int32)
    for hypothesis in range(count):
        for form in range(renderings):
            row = environment.render(hypothesis, rng if form else None)
            tokens[hypothesis, form, : len(row)] = row
            lengths[hypothesis, form] = len(row)
    return tokens, lengths


@functools.partial(jax.jit, static_argnames=("trainer", "settings"), donate_argnames="parameters")
def _fit(trainer, settings, parameters, asked, weights, answers, lengths):
    """The parameters after the last step, or after the first whose metrics are not finite; its number, its metrics."""
    environment, shape = trainer.environment, (settings.prompts_per_step, settings.answers_per_prompt)

    def taught(step):
        prompt_key, answer_key, form_key = jax.random.split(stream(settings.seed, step, "warm start"), 3)
        index = asked[jax.random.randint(prompt_key, shape[:1], 0, len(asked))]
        hypothesis = jax.random.categorical(answer_key, jnp.log(weights[index])[:, None], shape=shape)
        form = jax.random.randint(form_key, shape, 0, settings.renderings)
        given = given_answers(environment.prompts(index), answers[hypothesis, form], lengths[hypothesis, form])
        return given, Outcomes(rewards=jnp.ones(shape), outcome_id=hypothesis)

    if parameters is None:
        parameters = trainer.policy.init(stream(settings.seed, 0, "parameters"))

    def goes_on(carry):
        _, step, metrics = carry
        return (step < settings.steps) & jnp.isfinite(metrics).all()

    def learn(carry):
        state, step, _ = carry
        state, metrics = trainer.learn(state, taught(step))
        return state, step + 1, jnp.stack([metrics.get(name, jnp.zeros(())) for name in MUST_BE_FINITE])

    first = trainer.first_state(settings.seed, parameters), jnp.int32(0), jnp.zeros(len(MUST_BE_FINITE))
    state, step, metrics = jax.lax.while_loop(goes_on, learn, first)
    return state.parameters, step, metrics
