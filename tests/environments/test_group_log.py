import json
import os

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.group_log import MOST_PROMPTS, GroupLog


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(prompt, outcome, reward=1.0, **others):
    return {"prompt": prompt, "completion": f"says {outcome}", "reward": reward, "outcome": outcome} | others


ROWS = [row("p", "a"), row("q", "a", 0), row("p", "b"), row("q", "c"), row("p", "a", step=1), row("p", None, 0, step=1)]


def test_answers_of_a_prompt_and_step_are_a_group(tmp_path):
    log = GroupLog.read(written(tmp_path / "log.jsonl", ROWS))
    assert log.prompts == ('"p"', '"q"', '"p"')
    np.testing.assert_array_equal(log.prompt_index, [0, 1, 0])
    np.testing.assert_array_equal(log.rewards, [[1, 1], [0, 1], [1, 0]])
    same, other = log.outcome_id[0]
    np.testing.assert_array_equal(log.outcome_id[2], [same, -1])
    assert same != other


def test_groups_of_a_prompt_in_a_step_are_told_apart(tmp_path):
    """Groups differ by their order if another prompt stands between, or by a column, wherever they stand."""
    rows = [row("p", "a"), row("p", "b"), row("q", "a"), row("q", "b"), row("p", "c"), row("p", "c", 0)]
    log = GroupLog.read(written(tmp_path / "log.jsonl", rows))
    assert log.prompts == ('"p"', '"p"', '"q"')
    assert log.rewards.tolist() == [[1, 1], [1, 0], [1, 1]]
    first, second, other = log.outcome_id.tolist()
    assert second[0] == second[1] not in first
    assert len({*first, *other}) == 4
    named = [row("p", outcome, reward, group=group) for outcome, reward, group in [("a", 1, 0), ("b", 0, 1)] * 2]
    log = GroupLog.read(written(tmp_path / "named.jsonl", named))
    assert log.rewards.tolist() == [[1, 1], [0, 0]]
    assert GroupLog.read(written(tmp_path / "one.jsonl", [row("p", "a")] * 4)).rewards.shape == (1, 4)


def test_a_number_that_is_none_is_no_outcome(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"prompt": "a", "outcome": NaN, "reward": 1}\n' * 2)
    assert GroupLog.read(tmp_path / "log.jsonl").outcome_id.tolist() == [[-1, -1]]


def test_without_an_outcome_the_text_is_the_outcome_and_any_json_is_one(tmp_path):
    rows = [{"prompt": [{"role": "user", "content": "?"}], "completion": text, "reward": 1} for text in "aba"]
    (ids,) = GroupLog.read(written(tmp_path / "log.jsonl", rows)).outcome_id
    assert ids[0] == ids[2] != ids[1]
    rows = [row("p", outcome) for outcome in ({"x": 1, "y": [2]}, {"y": [2], "x": 1}, 2, "2")]
    (ids,) = GroupLog.read(written(tmp_path / "other.jsonl", rows)).outcome_id
    assert ids[0] == ids[1]
    assert len(set(ids.tolist())) == 3


def test_the_bandit_has_the_logged_outcomes_and_nothing_else(tmp_path):
    rows = [*ROWS, row("r", "a"), row("r", "a"), row("s", "a", 0), row("s", "b", 0)]
    log = GroupLog.read(written(tmp_path / "log.jsonl", rows))
    # Nothing can be gained or lost at r, which always gives the same, and at s, which is never right.
    bandit = log.bandit()
    assert (bandit.num_prompts, bandit.num_outcomes) == (2, 3)
    assert sorted(zip(bandit.counts[0], bandit.rewards[0], strict=True)) == [(1, 0.0), (1, 1.0), (2, 1.0)]
    assert sorted(zip(bandit.counts[1], bandit.rewards[1], strict=True)) == [(0, 0.0), (1, 0.0), (1, 1.0)]
    np.testing.assert_array_equal(bandit.legal(jnp.arange(2)).sum(axis=1), [3, 2])
    logits = np.array(bandit.logged_logits[0])
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum() * 4, bandit.counts[0])


def test_an_outcome_that_is_not_always_right_has_its_mean_reward(tmp_path):
    rows = [row("p", "a", 1), row("p", "a", 0), row("p", "a", 0), row("p", "b", 0.5)]
    bandit = GroupLog.read(written(tmp_path / "log.jsonl", rows)).bandit()
    assert sorted(bandit.rewards[0]) == [pytest.approx(1 / 3), 0.5]


def test_of_a_long_log_the_bandit_has_some_prompts(tmp_path):
    rows = [row(f"p{prompt}", outcome) for prompt in range(100) for outcome in "ab"]
    log = GroupLog.read(written(tmp_path / "log.jsonl", rows))
    assert len(log.with_a_choice) == 100
    assert log.bandit().num_prompts == MOST_PROMPTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no answers: write one JSON object for each"),
        ('{"prompt": "a", "reward"', "line 1 of .* is not valid JSON"),
        ("[" * 100_000, "line 1 of .* is not valid JSON"),
        ("[1]", "line 1 of .* is not an object"),
        ('{"prompt": "a", "completion": "b"}', "line 1 of .* has no 'reward'"),
        ('{"prompt": "a", "reward": 1}', "line 1 of .* has no 'completion'"),
        ('{"prompt": "a", "outcome": "b", "reward": NaN}', "line 1 of .* has the reward nan: it must be a number"),
        ('{"prompt": "a", "outcome": "b", "reward": "1"}', "has the reward '1': it must be a number"),
        (
            '{"prompt": "a", "outcome": "b", "reward": 1}\n' * 2 + '{"prompt": "c", "outcome": "b", "reward": 1}',
            "have 1 to 2 answers: they must all have the same number",
        ),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_a_sentence(text, message, tmp_path):
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        GroupLog.read(tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("p", "a"), row("p", "a")], "nothing to gain or to lose"),
        ([row("p", "a"), row("p", "b", -1)], "shift rewards so that the worst is 0"),
    ],
)
def test_a_log_without_a_choice_makes_no_bandit(rows, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        GroupLog.read(written(tmp_path / "log.jsonl", rows)).bandit()


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ValueError, match=r"pipe.jsonl is a pipe, but must be a file"):
        GroupLog.read(tmp_path / "pipe.jsonl")
