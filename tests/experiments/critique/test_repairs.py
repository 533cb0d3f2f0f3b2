import jax
import numpy as np
import pytest

from experiments.critique.repairs import Repairs
from ipsrl.environments import critiques
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.text import ANSWER, EARLIER, STOP
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sources.source import Actors, Request
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from tests.environments.reading.answers import trajectories_of

SUM = Addition(digits=2, problems=12, scratchpad="optional")
POLICY = Transformer(SUM.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1)
REACHED = Countdown(numbers=3, problems=8, largest_number=9, largest_target=30)


def rewards_of(task, rows, answers):
    trajectories = trajectories_of(task, [row["prompt"] for row in rows], [[answer] for answer in answers])
    outcomes = task.verify(trajectories)
    return outcomes.rewards[:, 0], outcomes.outcome_id[:, 0].tolist()


@pytest.mark.parametrize("task", [SUM, REACHED], ids=["addition", "countdown"])
def test_right_answers_repair_wrong_attempts(task):
    rows = Repairs(slip=0.2, attempts=20).rows(task)
    assert [row["prompt"] for row in rows] == np.arange(task.num_prompts).repeat(20).tolist()
    attempts, answers = [row["history"][0] for row in rows], [row["answers"][0] for row in rows]
    right, outcomes = rewards_of(task, rows, answers)
    assert right.all()
    assert [row["outcomes"] for row in rows] == [[outcome] for outcome in outcomes]
    assert not rewards_of(task, rows, attempts)[0].any()
    slipped = []
    for attempt, answer in zip(attempts, answers, strict=True):
        assert len(attempt) == len(answer)
        pairs = [(task.vocabulary[one], task.vocabulary[other]) for one, other in zip(attempt, answer, strict=True)]
        slipped.append(sum(one != other for one, other in pairs))
        for one, other in pairs:
            assert one == other or one.isdecimal() == other.isdecimal() == (one not in "+-*/" and not one.isalpha())
    # One is certain, the others happen to some.
    assert min(slipped) == 1
    assert 1.2 < np.mean(slipped) < 3
    assert {row["rewards"][0] for row in rows} == {1.0}
    words = [row["history"][1] for row in rows]
    expected = [critiques.first_mistake(task, row["prompt"], row["history"][0]) for row in rows]
    assert words == expected
    assert len(set(map(tuple, words))) > 4
    again = Repairs(slip=0.2, attempts=20)
    assert again.rows(task) == rows
    assert Repairs(slip=0.2, attempts=20, seed=1).rows(task) != rows


@pytest.mark.parametrize("critic", ["right_or_wrong", "true_answer"])
def test_other_critics_speak_about_the_same_attempts(critic):
    rows, others = Repairs().rows(SUM), Repairs(critic).rows(SUM)
    assert [row["history"][0] for row in rows] == [row["history"][0] for row in others]
    wrong = [SUM.vocabulary.index("%")]
    for row in others:
        words = row["history"][1]
        assert words == (critiques.true_answer(SUM, row["prompt"]) if critic == "true_answer" else wrong)


def test_critiques_of_right_and_wrong_attempts():
    demonstrations = Repairs(right=0.5, attempts=40)
    rows, repairs = demonstrations.critique_rows(SUM), demonstrations.rows(SUM)
    right = rewards_of(SUM, rows, [row["history"][0] for row in rows])[0]
    assert right.mean() == pytest.approx(0.5, abs=0.08)
    for row, repair, is_right in zip(rows, repairs, right, strict=True):
        attempt, nothing = row["history"]
        assert (attempt, nothing) == (repair["history"][0], [])
        assert row["answers"] == [[*repair["history"][1], STOP]]
        assert (row["answers"][0][0] == SUM.vocabulary.index("+")) == is_right
        assert (repair["answers"][0] == attempt) == is_right
        assert row["outcomes"] == [-1]


def test_stored_rows_are_asked_with_their_history():
    demonstrations = Repairs(attempts=2)
    rows = [*demonstrations.rows(SUM), *demonstrations.critique_rows(SUM)]
    rows += [row | {"history": []} for row in demonstrations.rows(SUM)[:5]]
    stored, actors = StoredGroups.of(SUM, POLICY, 4, rows), Actors(POLICY.init(jax.random.key(0)))
    state, seen = stored.init(actors, 0, None), []
    for step in range(len(rows) // 4):
        state, (trajectories, outcomes), _ = stored(state, actors, Request(0, step))
        prompts = jax.device_get(trajectories.prompts)
        for place in range(4):
            answer = np.asarray(trajectories.tokens)[place, 0][np.asarray(trajectories.token_mask)[place, 0]]
            shown = prompts.tokens[place][prompts.mask[place]].tolist()
            seen.append((int(prompts.index[place]), shown, answer.tolist(), int(outcomes.outcome_id[place, 0])))
            assert trajectories.observations[place, 0, 0] == ANSWER
    expected = [
        (row["prompt"], SUM.prompt_tokens(row["prompt"], row["history"]), row["answers"][0], row["outcomes"][0])
        for row in rows
    ]
    assert len(seen) == len(rows) // 4 * 4
    assert all(row in expected for row in seen)
    assert sorted({shown.count(EARLIER) for _, shown, _, _ in seen}) == [0, 2]
    plain = StoredGroups.of(SUM, POLICY, 4, [row | {"history": []} for row in rows])
    assert plain.checksum != stored.checksum
    with pytest.raises(ValueError, match="shown must hold the prompts of prompt_index, in the same order"):
        StoredGroups(
            SUM,
            POLICY,
            1,
            prompt_index=np.array([1]),
            tokens=stored.tokens[:1],
            lengths=stored.lengths[:1],
            shown=SUM.prompts(np.array([0])),
        )


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (3, "row 1 must have a list of lists of token ids as history, not 3"),
        ([[5], 7], "part 2 of the history of row 1 must be a list of tokens, not 7"),
        ([[99]], "part 1 of the history of row 1 has the token 99, but the vocabulary is 0 to"),
    ],
)
def test_histories_that_are_none(history, message):
    with pytest.raises(ValueError, match=message):
        StoredGroups.of(SUM, POLICY, 1, [{"prompt": 0, "answers": [[5]], "history": history}])
