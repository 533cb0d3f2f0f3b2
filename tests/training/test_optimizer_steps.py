import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.objectives.parts import RolloutPart, Surrogate
from ipsrl.structures import Rollouts, masked_sum
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.step import WHOLE_BATCH, Batching
from tests.training.one_update import assert_close, sample, step, steps_by_hand


def every_other_answer(rollouts):
    """The first, third, fifth, ... answer of every group."""
    number = jnp.arange(rollouts.tokens.shape[1])[:, None]
    return jnp.broadcast_to(number % 2 == 0, rollouts.tokens.shape)


def test_some_tokens_may_take_a_step_of_their_own_before_the_others():
    """Both steps look at what the first policy sampled."""
    objective, groups = objectives.make("dr_grpo(aggregation=sequence_sum)"), sample()
    split = dataclasses.replace(objective, first=every_other_answer)
    after, _ = step(split, groups)
    assert_close(after.parameters, steps_by_hand(split, WHOLE_BATCH, groups[0], Rollouts.of(*groups))[0])
    at_once, _ = step(objective, groups)
    assert np.abs(after.parameters["logits"] - at_once.parameters["logits"]).max() > 1e-5


def test_every_mini_batch_takes_both_steps():
    split = dataclasses.replace(objectives.make("grpo"), first=every_other_answer)
    adam = make_optimizer("adam", learning_rate=0.01, max_gradient_norm=None)
    state, _ = step(split, sample(), batching=Batching(epochs=3, mini_batches=2), optimizer=adam)
    counts = [leaf for leaf in jax.tree.leaves(state.optimizer_state) if leaf.dtype == jnp.int32]
    assert [count.item() for count in counts] == [3 * 2 * 2]
    assert state.step == 1


@dataclasses.dataclass(frozen=True)
class RelativeEntropy(Surrogate):
    """Weights each token by its entropy over the mean entropy of the mini-batch, under the policy of the moment."""

    def statistics(self, scores, rollouts, advantages):
        mask = rollouts.token_mask
        return masked_sum(scores.entropy, mask), mask.sum(dtype=jnp.float32)

    def evaluate(self, scores, rollouts, advantages, parameters, statistics):
        total, count = self.statistics(scores, rollouts, advantages) if statistics is None else statistics
        return advantages * scores.log_probs * jax.lax.stop_gradient(scores.entropy * count / total), {}


def test_statistics_over_micro_batches_are_those_of_the_mini_batch():
    objective, batching = dataclasses.replace(objectives.make("grpo"), surrogate=RelativeEntropy()), Batching(2, 1, 4)
    groups = sample()
    whole, metrics = step(objective, groups, batching=dataclasses.replace(batching, micro_batches=1))
    pieces, piece_metrics = step(objective, groups, batching=batching)
    assert_close(pieces.parameters, whole.parameters)
    assert_close(piece_metrics, metrics, 1e-5)

    # The pieces differ, so that their own means would show.
    entropy, mask = np.asarray(groups[0].behaviour_entropy), np.asarray(groups[0].token_mask)
    assert np.ptp([entropy[piece::4][mask[piece::4]].mean() for piece in range(4)]) > 0.02

    # They are taken under the policy being trained: two epochs are two updates, the second from where the first ended.
    once, _ = step(objective, groups)
    again, _ = step(objective, groups, once.parameters)
    assert_close(pieces.parameters, again.parameters)


@dataclasses.dataclass(frozen=True)
class Regression(Surrogate):
    """-(reward - learned value of the prompt)^2 / 2, beside a policy gradient that no parameter reaches."""

    learning_rate: float = 0.03

    def init_parameters(self, sizes):
        return {"value": jnp.full(sizes.num_prompts, 0.5)}

    def evaluate(self, scores, rollouts, advantages, parameters, statistics):
        error = rollouts.rewards - parameters["value"][rollouts.prompt_index][:, None]
        return advantages * scores.log_probs - 0.5 * error[..., None] ** 2, {}


def test_learned_parameters_move_by_adam_with_a_rate_of_their_own():
    plain, rate = objectives.make("reinforce"), 0.1
    objective = dataclasses.replace(plain, surrogate=Regression(rate))
    groups = sample()
    assert groups[1].rewards.mean() > 0.55
    state, _ = step(objective, groups)
    # The first step of Adam is its learning rate, whatever the size of the gradient.
    assert state.objective_parameters["value"] == pytest.approx(0.5 + rate, abs=1e-6)
    # The policy follows its own optimiser, and is not disturbed.
    assert_close(state.parameters, step(plain, groups)[0].parameters)

    more, _ = step(objective, groups, batching=Batching(epochs=20, mini_batches=2, micro_batches=2))
    counts = [leaf for leaf in jax.tree.leaves(more.objective_optimizer_state) if leaf.dtype == jnp.int32]
    assert [count.item() for count in counts] == [40]
    one_piece, _ = step(objective, groups, batching=Batching(epochs=20, mini_batches=2))
    assert_close(more.objective_parameters, one_piece.objective_parameters)


@dataclasses.dataclass(frozen=True)
class Noise(RolloutPart):
    """Adds a normal number to every reward."""

    needs: ClassVar[frozenset[str]] = frozenset({"keys"})

    def __call__(self, values, rollouts):
        return values + jax.vmap(lambda key: jax.random.normal(key, values.shape[1:]))(rollouts.keys)


def test_what_an_objective_draws_depends_on_the_key():
    objective = dataclasses.replace(objectives.make("reinforce"), reward_shaping=(Noise(),))
    groups = sample()
    parameters = [step(objective, groups, key=key)[0].parameters for key in (0, 0, 1)]
    assert_close(parameters[0], parameters[1], 0.0)
    assert np.abs(parameters[0]["logits"] - parameters[2]["logits"]).max() > 1e-3


def test_likely_tokens_reach_the_objective():
    """Without noise the proxy of Lp-Reg is the policy that sampled."""
    objective = objectives.make("lp_reg(kappa=1e-6)")
    groups = sample(top_tokens=objective.top_tokens)
    assert step(objective, groups)[1]["proxy_kl"] == pytest.approx(0.0, abs=1e-6)
    assert step(objective, groups, batching=Batching(epochs=3, micro_batches=4))[1]["proxy_kl"] > 1e-5
