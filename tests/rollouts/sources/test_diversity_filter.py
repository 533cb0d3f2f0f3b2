"""The diversity filter: rewards and counts by hand, and on random groups by a loop over answers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.diversity_filter import DiversityFilter
from ipsrl.rollouts.sources.source import Actors, Sampled, Source, wrapped
from ipsrl.structures import Outcomes, Prompts
from tests.sampled_groups import steps_of


@dataclasses.dataclass(frozen=True)
class Given(Source):
    """Groups from a list, one for each step; what was sampled does not matter here."""

    environment: Bandit
    policy: Tabular
    index: np.ndarray = dataclasses.field(compare=False)
    outcomes: list = dataclasses.field(compare=False)

    def init(self, actors, seed, reward):
        return ()

    def __call__(self, state, actors, request):
        prompts = Prompts(jnp.asarray(self.index), jnp.zeros((len(self.index), 0)), jnp.zeros((len(self.index), 0)))
        groups = Sampled(self.environment, self.policy, 2, 4).answers(actors.policy, prompts, jax.random.key(0), 1)
        return state, (groups, self.outcomes[request.step]), {}

    def reward_of(self, state):
        return None


TWO = Bandit(((1.0, 0.0),) * 2)


def filtered(index, steps, **settings):
    """Rewards and metrics of each step, and the last counts; `steps` are (ids, rewards[, other fields])."""
    outcomes = [
        Outcomes(jnp.float32(rewards), jnp.int32(ids), **(more[0] if more else {})) for ids, rewards, *more in steps
    ]
    policy = Tabular(TWO.num_observations, TWO.vocabulary_size)
    source = wrapped(Given(TWO, policy, np.array(index), outcomes), [DiversityFilter(**settings)])
    found = steps_of(source, len(steps), Actors(policy.init(jax.random.key(0))))
    return [(given, metrics) for (_, given), metrics, _ in found], found[-1][2][0]


def test_an_outcome_keeps_its_reward_bucket_times():
    """Outcome 7 of prompt 0 four times, of which the third and fourth are too many; then it is one too many at once.

    Answers without reward (the 8), and without an outcome (-1), are not counted; prompt 1 has counts of its own.
    """
    ids, rewards = [[7, 8, 7, 7, 7], [7, 9, -1, -1, -1]], [[1.0, 0.0, 0.5, 0.25, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    found, (known, counts) = filtered([0, 1], [(ids, rewards)] * 2, bucket=2, outcomes=3)
    np.testing.assert_array_equal(found[0][0].rewards, [[1.0, 0.0, 0.5, 0.0, 0.0], rewards[1]])
    # Prompt 1 has given 7 and 9 once before: the second time is allowed.
    np.testing.assert_array_equal(found[1][0].rewards, [[0.0] * 5, rewards[1]])
    np.testing.assert_array_equal(known, [[7, -1, -1], [7, 9, -1]])
    np.testing.assert_array_equal(counts, [[8, 0, 0], [2, 2, 0]])
    assert [metrics["filtered_answers"] for _, metrics in found] == pytest.approx([0.2, 0.4])
    assert [metrics["outcomes_counted"] for _, metrics in found] == [1.5, 1.5]
    assert [metrics["uncounted_answers"] for _, metrics in found] == [0.0, 0.0]
    assert found[0][1]["sampled_reward"] == pytest.approx(np.mean(rewards))


def test_groups_of_one_prompt_are_counted_one_after_the_other():
    found, _ = filtered([1, 1], [([[4, 4], [4, 5]], [[1.0, 1.0], [1.0, 1.0]])], bucket=2)
    np.testing.assert_array_equal(found[0][0].rewards, [[1.0, 1.0], [0.0, 1.0]])


def test_outcomes_without_a_place_keep_their_rewards():
    """Two places: 3 and 2**31 - 1 take them, 5 finds none, however often it comes."""
    ids = [[3, 2**31 - 1, 5, 5, 5, 3]]
    found, (known, _) = filtered([0], [(ids, [[1.0] * 6])] * 2, bucket=1, outcomes=2)
    np.testing.assert_array_equal(found[0][0].rewards, [[1.0, 1.0, 1.0, 1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(found[1][0].rewards, [[0.0, 0.0, 1.0, 1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(known[0], [3, 2**31 - 1])
    assert [metrics["uncounted_answers"] for _, metrics in found] == [0.5, 0.5]


@pytest.mark.parametrize("field", ["step_rewards", "reward_parts"])
def test_the_other_rewards_of_an_answer_are_lost_with_its_reward(field):
    steps = ([[3, 3, 4]], [[1.0, 1.0, 2.0]], {field: jnp.float32([[[0.5, 0.5], [1.0, 0.0], [0.0, 2.0]]])})
    found, _ = filtered([0], [steps], bucket=1)
    np.testing.assert_array_equal(getattr(found[0][0], field), [[[0.5, 0.5], [0.0, 0.0], [0.0, 2.0]]])


@pytest.mark.parametrize("places", [3, 50])
def test_random_groups_by_a_loop(places):
    rng, counts, steps, expected = np.random.default_rng(0), {0: {}, 1: {}}, [], []
    index = [0, 1, 0, 1, 0]
    for _ in range(4):
        ids, rewards = rng.integers(-1, 8, (5, 6)), rng.integers(0, 3, (5, 6)) / 2
        steps.append((ids, rewards))
        expected.append(rewards.copy())
        for row, place in np.ndindex(ids.shape):
            outcome, of_prompt = int(ids[row, place]), counts[index[row]]
            if outcome < 0 or rewards[row, place] == 0 or (outcome not in of_prompt and len(of_prompt) == places):
                continue
            of_prompt[outcome] = of_prompt.get(outcome, 0) + 1
            if of_prompt[outcome] > 3:
                expected[-1][row, place] = 0.0
    found, (known, count) = filtered(index, steps, bucket=3, outcomes=places)
    for (outcomes, _), rewards in zip(found, expected, strict=True):
        np.testing.assert_array_equal(outcomes.rewards, rewards)
    for prompt, of_prompt in counts.items():
        assert dict(zip(known[prompt].tolist(), count[prompt].tolist(), strict=True)).items() >= of_prompt.items()
