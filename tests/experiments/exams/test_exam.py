import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.exams.exam import BudgetedRuns, Discard, Exam, Skip, trainer_for
from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, wrapped
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

EXAM = Exam.of(prompts=16, families=4)
PRIOR = EXAM.prior(spread=4.0)
GRPO = objectives.make("grpo")
TRAINING = TrainSettings(steps=3, prompts_per_step=4, group_size=4, learning_rate=0.1, max_gradient_norm=None)


def measure(parameters):
    return {"success": EXAM.success(parameters).mean()}


def test_the_prior_is_as_hard_as_its_families():
    x = np.linspace(-4, 4, 4)[np.arange(16) % 4] + np.random.default_rng(0).normal(size=16)
    np.testing.assert_allclose(EXAM.success(PRIOR), 1 / (1 + np.exp(-x)), rtol=1e-5)
    assert EXAM.prompts(jnp.arange(6)).tokens[:, 0].tolist() == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("transfer", [0.0, 1.0])
def test_a_family_learns_from_one_question_as_much_as_it_transfers(transfer):
    exam = dataclasses.replace(EXAM, transfer=transfer)
    kernel = PRIOR["layer_0"]["kernel"].at[1, 1].add(2.0)  # the logit of the right answer of family 1
    moved = exam.success({"layer_0": PRIOR["layer_0"] | {"kernel": kernel}}) - exam.success(PRIOR)
    assert np.flatnonzero(np.asarray(moved) > 1e-6).tolist() == ([1, 5, 9, 13] if transfer else [])


def runs(learning_rates, seeds, *filters):
    return BudgetedRuns(trainer_for(EXAM, GRPO, TRAINING, filters), measure, PRIOR, learning_rates, seeds)


def test_discarding_in_one_program_is_dynamic_sampling():
    found = runs([0.1, 0.2], [0, 1], Discard()).trained
    spent, success = found["trajectories"], found["success"]
    np.testing.assert_array_equal(found["tokens"], spent)
    settings = dataclasses.replace(TRAINING, learning_rate=0.2, wrappers=(DynamicSampling(),))
    trainer = Trainer(EXAM, EXAM.policy, GRPO, settings)
    with jax.set_mesh(make_mesh()):
        state, total = trainer.init(1, PRIOR), 0.0
        for step in range(1, 4):
            state, metrics = trainer.step(state)
            total += float(metrics["trajectories_sampled"])
            assert spent[1, 1, step] == total > 16 * step
            np.testing.assert_allclose(success[1, 1, step], EXAM.success(state.parameters).mean(), rtol=1e-4)


def test_plain_groups_spend_what_they_sample_and_budgets_lie_between_steps():
    both = runs([0.1, 0.3], [0])
    found, success = both.trained, both.trained["success"]
    assert found["trajectories"][0, 0].tolist() == found["tokens"][1, 0].tolist() == [0, 16, 32, 48]
    assert (found["prompt_survival"] == 1).all()
    np.testing.assert_allclose(success[:, 0, 0], EXAM.success(PRIOR).mean(), rtol=1e-5)
    _, faster = both.curves({"arm": "a"}, "tokens", np.array([16, 24]))
    assert faster.labels == {"arm": "a", "learning_rate": 0.3}
    points = faster.compute()
    assert points.steps.tolist() == [16, 24]
    np.testing.assert_allclose(points.values["success"], [[success[1, 0, 1], success[1, 0, 1:3].mean()]])
    with pytest.raises(ValueError, match="take more updates"):
        next(both.curves({}, "tokens", np.array([0, 49]))).compute()


def asked(wrapper, steps=40, prompts=4):
    """The prompts of some steps, and the shares of groups with different rewards."""
    source = wrapped(Sampled(EXAM, EXAM.policy, prompts, 8), (wrapper,))

    def of_step(step):
        _, (trajectories, outcomes), metrics = source((None, None), Actors(PRIOR), Request(0, step))
        rewards = outcomes.rewards
        return trajectories.prompts.index, (rewards.min(1) != rewards.max(1)).mean(), metrics["prompt_survival"]

    index, mixed, (passed, of) = jax.jit(jax.vmap(of_step))(jnp.arange(steps))
    return np.asarray(index), float(mixed.mean()), float((passed / of).mean())


def test_what_is_chosen_at_random_survives_as_often_but_knows_nothing():
    inside = (EXAM.success(PRIOR) >= 0.15) & (EXAM.success(PRIOR) <= 0.85)
    index, mixed, survival = asked(Skip(), prompts=2)
    other_index, other_mixed, other_survival = asked(Skip(at_random=True), prompts=2)
    assert np.asarray(inside)[index].mean() > 0.8 > 0.5 > np.asarray(inside)[other_index].mean()
    assert mixed > other_mixed + 0.2
    assert survival == pytest.approx(other_survival)
    _, mixed, _ = asked(Discard())
    _, other_mixed, _ = asked(Discard(at_random=True))
    assert mixed > 0.99 > 0.7 > other_mixed
