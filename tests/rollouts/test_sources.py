"""Sources of groups: stored ones, and wrappers that bring back earlier groups, answers and attempts."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.text import EARLIER, STOP
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.rewards import NoisyVerifier
from ipsrl.rollouts import tools
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.critics import ScriptedCritic
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers, SecondAttempt
from ipsrl.rollouts.sources.replay import ReplayedAnswers, ReplayedGroups
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, wrapped
from ipsrl.rollouts.sources.stored_groups import TABLES, StoredGroups
from tests.sampled_groups import steps_of

TEXT = HypospaceBoolean("basic", depth=1)
POLICY = Transformer(TEXT.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1)
# Only the arm 3 of each prompt pays, and the policy hardly ever pulls it.
RARE = Bandit(((0.0, 0.0, 0.0, 1.0),) * 4)
ON_RARE = Tabular(RARE.num_observations, RARE.vocabulary_size)
WORDS = TEXT.render(0)[:-1]
"""The words of a critic."""
RARELY = {"logits": jnp.zeros((4, 4)).at[:, 3].set(-2.0)}


def rows(number=6, log_probs=False):
    """Groups of two answers, the first of which is preferred."""
    symbols = [TEXT.render(hypothesis) for hypothesis in range(len(TEXT.hypotheses))]
    found = []
    for row in range(number):
        answers = [symbols[row % len(symbols)], symbols[(row + 1) % len(symbols)]]
        found.append({"prompt": row % TEXT.num_prompts, "answers": answers, "rewards": [1.0, 0.0], "outcomes": [7, 8]})
        if log_probs:
            found[-1]["log_probs"] = [[-0.5] * len(answer) for answer in answers]
    return found


@pytest.fixture(scope="module")
def actors():
    return Actors(POLICY.init(jax.random.key(0)))


def test_preferences_need_only_their_answers():
    stored = StoredGroups.preferences(RARE, ON_RARE, 2, np.arange(2), np.array([[[3], [0]], [[3], [1]]]))
    np.testing.assert_array_equal(stored.rewards, [[1, 0]] * 2)
    assert (stored.lengths == 1).all()
    assert not stored.log_probs.any()


def test_stored_groups_come_in_a_new_order_in_each_pass(actors):
    stored = StoredGroups.of(TEXT, POLICY, 2, rows(log_probs=True))
    state = stored.init(actors, 0, None)
    passes = []
    for start in (0, 3):
        seen = []
        for step in range(start, start + 3):
            state, (trajectories, outcomes), metrics = stored(state, actors, Request(5, step))
            assert metrics == {}
            index, tokens = np.asarray(trajectories.prompts.index), np.asarray(trajectories.tokens)
            seen += [(int(index[row]), tokens[row].tobytes()) for row in range(2)]
            np.testing.assert_array_equal(outcomes.rewards, [[1.0, 0.0]] * 2)
            np.testing.assert_array_equal(outcomes.outcome_id, [[7, 8]] * 2)
            mask = np.asarray(trajectories.token_mask)
            np.testing.assert_array_equal(trajectories.behaviour_log_probs, np.where(mask, -0.5, 0.0))
            last = np.take_along_axis(np.asarray(trajectories.tokens), mask.sum(axis=-1, keepdims=True) - 1, axis=-1)
            assert (last == STOP).all()
        assert len(set(seen)) == 6
        passes.append(seen)
    assert set(passes[0]) == set(passes[1])
    assert passes[0] != passes[1]


def test_what_has_no_log_probabilities_is_scored_once_by_the_initial_policy(actors):
    stored = StoredGroups.of(TEXT, POLICY, 4, rows(), temperature=0.5)
    state = stored.init(actors, 0, None)
    _, (trajectories, _), _ = stored(state, Actors(jax.tree.map(jnp.zeros_like, actors.policy)), Request(5, 0))
    scores = POLICY.score(actors.policy, trajectories, 0.5)
    np.testing.assert_allclose(trajectories.behaviour_log_probs, scores.log_probs, atol=1e-5)


def test_without_rewards_the_environment_verifies(actors):
    plain = [{key: row[key] for key in ("prompt", "answers")} for row in rows()]
    stored = StoredGroups.of(TEXT, POLICY, 6, plain)
    _, (trajectories, outcomes), _ = stored(stored.init(actors, 0, None), actors, Request(5, 0))
    np.testing.assert_array_equal(outcomes.rewards, TEXT.verify(jax.device_get(trajectories)).rewards)
    assert 0 < np.mean(outcomes.rewards) < 1


def test_what_is_given_of_rewards_and_outcomes_is_kept_and_the_rest_verified(actors):
    only_rewards = [{key: row[key] for key in ("prompt", "answers", "rewards")} for row in rows()]
    stored = StoredGroups.of(TEXT, POLICY, 6, only_rewards)
    _, (trajectories, outcomes), _ = stored(stored.init(actors, 0, None), actors, Request(5, 0))
    np.testing.assert_array_equal(outcomes.rewards, [[1.0, 0.0]] * 6)
    np.testing.assert_array_equal(outcomes.outcome_id, TEXT.verify(jax.device_get(trajectories)).outcome_id)


@dataclasses.dataclass(frozen=True)
class Graded(HypospaceBoolean):
    """Rewards of 0.5 are of wrong answers."""

    right_above = 0.5

    def verify(self, trajectories):
        return dataclasses.replace(super().verify(trajectories), right_above=self.right_above)


@pytest.mark.parametrize("given", [(), ("rewards",), ("outcomes",), ("rewards", "outcomes")])
@pytest.mark.parametrize(("own", "expected"), [(None, 0.5), (0.25, 0.25)])
def test_stored_rewards_are_right_above_the_threshold_of_the_environment_or_their_own(actors, given, own, expected):
    stored = [{key: row[key] for key in ("prompt", "answers", *given)} for row in rows(log_probs=True)]
    source = StoredGroups.of(Graded("basic", depth=1), POLICY, 6, stored, right_above=own)
    _, (_, outcomes), _ = source(source.init(actors, 0, None), actors, Request(5, 0))
    assert outcomes.right_above == (expected if "rewards" in given else 0.5)


def test_runs_get_the_part_of_the_table_that_their_seed_names(actors):
    """Six groups in two parts: two passes through its own three for each seed, in other orders, also under jit."""
    table = {name: getattr(StoredGroups.of(TEXT, POLICY, 1, rows(log_probs=True)), name) for name in TABLES}
    stored = StoredGroups(TEXT, POLICY, 1, **table, parts=2)

    @jax.jit
    def answered(seed, step):
        return stored((None, None), actors, Request(seed, step))[1][0].tokens[0]

    for seed, part in ((0, slice(3)), (1, slice(3, None)), (4, slice(3)), (7, slice(3, None))):
        for first in (0, 3):
            given = {np.asarray(answered(jnp.int32(seed), jnp.int32(first + step))).tobytes() for step in range(3)}
            assert given == {tokens.tobytes() for tokens in table["tokens"][part]}
    _, (trajectories, _), _ = stored((None, None), actors, Request(1, 5))
    np.testing.assert_array_equal(trajectories.tokens[0], answered(jnp.int32(1), jnp.int32(5)))
    for change, message in (
        ({"parts": 4}, "6 groups cannot be split into 4 equal parts: leave some out"),
        ({"parts": 3, "prompts_per_step": 3}, "a step takes 3 groups, but only 2 are stored in each of 3 parts"),
    ):
        with pytest.raises(ValueError, match=message):
            StoredGroups(TEXT, POLICY, **({"prompts_per_step": 1} | table | change))


def test_two_tables_are_not_the_same():
    """A compiled program that took one for the other would train on the wrong answers."""
    one, other = (StoredGroups.of(TEXT, POLICY, 2, rows()) for _ in range(2))
    assert one == one
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": True}, "row 2 has prompt True, which is not the number of a prompt"),
        ({"prompt": 10**30}, "prompt_index must hold integers of 32 bits"),
        ({"answers": []}, "row 2 has no answers"),
        ({"answers": [[5]], "rewards": [1.0], "outcomes": [7]}, "row 2 has 1 answers, but the first row has 2"),
        ({"answers": [[5], []]}, r"answer 2 of row 2 must have 1 to \d+ token ids, not \[\]"),
        ({"answers": [[5], [1.5]]}, r"answer 2 of row 2 must have 1 to \d+ token ids, not \[1.5\]"),
        ({"answers": [[[5]], [5]]}, r"answer 1 of row 2 must have 1 to \d+ token ids, not \[\[5\]\]"),
        ({"rewards": [1.0]}, r"row 2 must have 2 finite numbers as rewards, not \[1.0\]"),
        ({"rewards": 5}, "row 2 must have 2 finite numbers as rewards, not 5"),
        ({"rewards": None}, "row 2 must have 2 finite numbers as rewards, not None"),
        ({"rewards": [1.0, [2.0]]}, r"row 2 must have 2 finite numbers as rewards, not \[1.0, \[2.0\]\]"),
        ({"rewards": [10**25, 0]}, "rewards must hold numbers that are 0 or of a size from 1e-15 to .*, but row 2"),
        ({"outcomes": ["x", 1]}, r"row 2 must have 2 finite numbers as outcomes, not \['x', 1\]"),
        ({"log_probs": [[-1.0]]}, "row 2 needs one finite log-probability for each token of its answers"),
        ({"log_probs": [-1.0, -2.0]}, "row 2 needs one finite log-probability for each token of its answers"),
        (
            {"reward": 1},
            "row 2 has an unknown key 'reward'; known: answers, history, log_probs, outcomes, own, prompt, rewards",
        ),
    ],
)
def test_malformed_rows_are_refused_by_their_number(change, message):
    given = rows(3)
    given[1] |= change
    with pytest.raises(ValueError, match=message):
        StoredGroups.of(TEXT, POLICY, 2, given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_index": [0.5, 1.0]}, "prompt_index must hold integers of 32 bits"),
        ({"prompt_index": [0, 1, 2]}, r"prompt_index must have the shape \[2\], as tokens has, not \[3\]"),
        ({"tokens": [[5, 1]] * 2}, r"tokens must have the shape \[N, G, T\], not \[2, 2\]"),
        ({"tokens": np.ones((2, 1, 900), int)}, "tokens has 900 columns, but answers have at most"),
        ({"lengths": [[1], [5]]}, "numbers of tokens are 0 to 2, but row 2 has 5"),
        ({"rewards": [[1.0], [np.nan]]}, "rewards must hold finite numbers"),
        ({"outcome_id": [["a"], ["b"]]}, "outcome_id must hold integers of 32 bits"),
        ({"outcome_id": [[0], [-5]]}, "outcome_id must hold outcomes, or -1 for none, but row 2 does not"),
        ({"tokens": [[[5, 1]], [[6]]]}, "tokens must hold integers of 32 bits, in rows of the same length"),
        ({"tokens": None}, "tokens must hold integers of 32 bits, in rows of the same length"),
        ({"log_probs": [[[-1.0, 0.2]]] * 2}, "log_probs must hold logarithms of probabilities, at most 0, but row 1"),
        ({"log_probs": np.zeros((2, 1))}, r"log_probs must have the shape \[2, 1, 2\], as tokens has, not \[2, 1\]"),
    ],
)
def test_malformed_tables_are_refused(change, message):
    tables = {"prompt_index": [0, 1], "tokens": [[[5, 1]], [[6, 99]]], "lengths": [[2], [1]]}
    # What lies behind an answer does not matter.
    assert StoredGroups(TEXT, POLICY, 2, **tables).group_size == 1
    with pytest.raises(ValueError, match=message):
        StoredGroups(TEXT, POLICY, 2, **(tables | change))


def test_stored_pulls_of_a_bandit_show_the_number_of_the_prompt():
    stored = StoredGroups.of(RARE, ON_RARE, 2, [{"prompt": prompt, "answers": [[3], [1]]} for prompt in (2, 3)])
    actors = Actors({"logits": jnp.zeros((4, 4)).at[2:, 3].set(jnp.log(jnp.array([2.0, 5.0])))})
    _, (trajectories, outcomes), _ = stored(stored.init(actors, 0, None), actors, Request(0, 0))
    order = np.argsort(trajectories.prompts.index)
    np.testing.assert_array_equal(trajectories.observations[order], [[[2]] * 2, [[3]] * 2])
    chances = np.exp(trajectories.behaviour_log_probs[order])
    np.testing.assert_allclose(chances, [[[2 / 5], [1 / 5]], [[5 / 8], [1 / 8]]], rtol=1e-6)
    np.testing.assert_array_equal(outcomes.rewards, [[1.0, 0.0]] * 2)
    np.testing.assert_array_equal(outcomes.outcome_id, [[3, 1]] * 2)


def test_malformed_files_are_refused(tmp_path):
    path = tmp_path / "groups.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows(3)))
    assert len(StoredGroups.read(path, TEXT, POLICY, 2).prompt_index) == 3
    path.write_text(path.read_text() + '\n{"prompt": 0')
    with pytest.raises(ValueError, match=r"line 4 of .*groups.jsonl is not a JSON object: mend or delete it"):
        StoredGroups.read(path, TEXT, POLICY, 2)
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"line 1 of .*deep.jsonl is not a JSON object: mend or delete it"):
        StoredGroups.read(str(tmp_path / "deep.jsonl"), TEXT, POLICY, 2)
    with pytest.raises(ValueError, match="row 2 has answers, prompt, but the first row has answers, outcomes, prompt"):
        StoredGroups.of(TEXT, POLICY, 1, [rows(1)[0], {"prompt": 0, "answers": [[5]]}])


PLAIN = Sampled(RARE, ON_RARE, 4, 3)


def test_replayed_groups_take_the_place_of_those_that_say_nothing():
    found = steps_of(wrapped(PLAIN, [ReplayedGroups()]), 12, Actors(RARELY))
    plain = steps_of(PLAIN, 12, Actors(RARELY))
    informative, replayed = [], 0
    for ((trajectories, outcomes), metrics, _), ((own, own_outcomes), _, _) in zip(found, plain, strict=True):
        mixed = np.ptp(np.asarray(own_outcomes.rewards), axis=1) > 0
        tokens, own_tokens = (np.asarray(batch.tokens)[..., 0] for batch in (trajectories, own))
        np.testing.assert_array_equal(tokens[mixed], own_tokens[mixed])
        changed = (np.asarray(outcomes.rewards) != np.asarray(own_outcomes.rewards)).any(axis=1)
        assert not (changed & mixed).any()
        assert metrics["replayed_groups"] == changed.mean()
        # The replayed groups are the latest informative ones, each of them once, and belong to their prompts.
        silent, index = np.flatnonzero(~mixed), np.asarray(trajectories.prompts.index)
        latest = informative[-4:][::-1][: len(silent)]
        assert sorted((index[row], *tokens[row]) for row in np.flatnonzero(changed)) == sorted(latest)
        replayed += changed.sum()
        informative += [(np.asarray(own.prompts.index)[row], *own_tokens[row]) for row in np.flatnonzero(mixed)][::-1]
    assert replayed > 8


@pytest.mark.parametrize(("reward", "steps"), [(None, 15), (NoisyVerifier(0.0, 0.3), 30)], ids=["sure", "noisy"])
def test_replayed_answers_bring_back_the_outcomes_that_a_group_lacks(reward, steps):
    """An outcome that it has only in answers that were called wrong is lacking, too."""
    found = steps_of(wrapped(PLAIN, [ReplayedAnswers(2)]), steps, Actors(RARELY), reward)
    plain = steps_of(PLAIN, steps, Actors(RARELY), reward)
    known = set()
    for ((trajectories, outcomes), metrics, _), ((own, own_outcomes), _, _) in zip(found, plain, strict=True):
        right = np.asarray(own_outcomes.rewards) > 0
        index = np.asarray(own.prompts.index)
        expected = np.array([index[row] in known and not right[row].any() for row in range(4)])
        np.testing.assert_array_equal(np.asarray(trajectories.off_policy)[:, -1], expected)
        assert not np.asarray(trajectories.off_policy)[:, :-1].any()
        assert metrics["replayed_answers"] == expected.mean()
        tokens = np.asarray(trajectories.tokens)[..., 0]
        assert (tokens[expected, -1] == 3).all()
        assert (np.asarray(outcomes.rewards)[expected, -1] == 1).all()
        np.testing.assert_array_equal(tokens[:, :-1], np.asarray(own.tokens)[:, :-1, 0])
        scores = ON_RARE.score(RARELY, trajectories, 1.0)
        np.testing.assert_allclose(trajectories.behaviour_log_probs, scores.log_probs, atol=1e-6)
        known |= set(index[right.any(axis=1)].tolist())
        assert metrics["outcomes_kept"] == len(known) / 4
    assert len(known) == 4
    (_, outcomes), _ = found[-1][2]
    np.testing.assert_array_equal(outcomes.outcome_id, [[3, -1]] * 4)


def test_a_second_attempt_sees_the_first_and_is_scored_under_the_question_alone(actors, monkeypatch):
    seen, read = [], []

    class Same(ScriptedCritic):
        def words(self, environment, prompt, attempt):
            assert environment is TEXT
            assert 0 <= prompt < TEXT.num_prompts
            seen.append(tuple(attempt))
            return WORDS

    def sample(environment, policy, parameters, prompts, *others):
        read.append(np.asarray(prompts.tokens))
        return sample_groups(environment, policy, parameters, prompts, *others)

    monkeypatch.setattr(tools, "sample_groups", sample)
    refine = OffPolicyAnswers(3, refine=SecondAttempt(Same()))
    source = wrapped(Sampled(TEXT, POLICY, 4, 2), [refine])
    seen.clear()
    state = source.init(actors, 0, None)
    _, (trajectories, outcomes), metrics = source(state, actors, Request(0, 0))
    assert len(seen) == 12
    questions = read[1]
    assert len(questions) == 12
    for question, attempt in zip(questions, seen, strict=True):
        quoted = [*(token for token in attempt if token != STOP), EARLIER, *WORDS]
        assert " ".join(map(str, quoted)) in " ".join(map(str, question.tolist()))
    plain, _ = Sampled(TEXT, POLICY, 4, 2)(None, actors, Request(0, 0))[1]
    attempts = {
        tuple(tokens[mask].tolist())
        for tokens, mask in zip(
            np.asarray(plain.tokens).reshape(8, -1), np.asarray(plain.token_mask).reshape(8, -1), strict=True
        )
    }
    assert set(seen) == attempts
    np.testing.assert_array_equal(trajectories.prompts.tokens, plain.prompts.tokens)
    assert np.asarray(trajectories.off_policy)[:, 0].all()
    scores = POLICY.score(actors.policy, trajectories, 1.0)
    np.testing.assert_allclose(trajectories.behaviour_log_probs, scores.log_probs, atol=1e-5)
    np.testing.assert_array_equal(outcomes.rewards, TEXT.verify(jax.device_get(trajectories)).rewards)
    assert float(metrics["trajectories_sampled"][0]) == 4 * 2 + 4 * 3


def test_a_reward_of_its_own_is_what_every_wrapper_sees():
    source = wrapped(PLAIN, [OffPolicyAnswers(2), ReplayedGroups()])
    actors = Actors(RARELY)
    state = source.init(actors, 0, NoisyVerifier(1.0, 1.0))
    _, (trajectories, outcomes), _ = source(state, actors, Request(0, 0))
    arms = np.asarray(trajectories.tokens)[..., 0]
    np.testing.assert_array_equal(outcomes.rewards, arms != 3)
    assert dataclasses.is_dataclass(source.reward_of(state))
