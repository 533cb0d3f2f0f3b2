import dataclasses
import math

import numpy as np
import pytest

from experiments import transfer
from experiments.transfer import KEEPERS, LEVELS, MARKS, MODEL, NOT_OF_MODEL, NUMBERS, OBJECTIVES, PRESETS
from ipsrl.figures import style
from ipsrl.policies.state_table import outcome_probs
from ipsrl.records.tidy import NotRecorded, Records, TooFewSeeds
from scripts.make_checkpoint import make_checkpoint

NAMES = ("a", "b", "c", "d", "e")


def made_up(names=NAMES, **levels):
    """Records of some objectives: effective outcomes, by level, of each seed; without noise on the bandit."""
    rows = [
        {"level": level, "objective": name, "step": step, "reward": reward, "effective_outcomes": mean + 0.1 * number}
        | ({} if level == "bandit" else {"seed": number})
        for level, (means, seeds) in levels.items()
        for name, mean in zip(names, means, strict=True)
        for number in range(seeds)
        for step, reward in enumerate((0.5, 0.9))
    ]
    return Records(rows, ("level", "objective"))


ORDERED, REVERSED = (1.0, 2.0, 3.0, 4.0, 5.0), (5.0, 4.0, 3.0, 2.0, 1.0)


def claim_of(*words):
    (found,) = [claim for sentence, claim in transfer.CLAIMS.items() if all(word in sentence for word in words)]
    return found


def test_claims_ask_for_the_same_order_beyond_noise():
    claim = claim_of("at the bar", "level bandit", f"on {MODEL}")
    assert claim(made_up(bandit=(ORDERED, 1), language_model=(ORDERED, 5))) is True
    assert claim(made_up(bandit=(ORDERED, 1), language_model=(REVERSED, 5))) is False
    with pytest.raises(TooFewSeeds):
        claim(made_up(bandit=(ORDERED, 1), language_model=(ORDERED, 4)))
    with pytest.raises(NotRecorded, match=r"0 objectives reach the reward 0\.9"):
        claim(made_up(bandit=(ORDERED, 1)))


def test_a_correlation_is_of_each_seed_that_both_levels_have():
    records = made_up(bandit=(ORDERED, 1), hypergrid=(ORDERED, 3), hypospace=(REVERSED, 2))
    one_swapped = [
        row | {"effective_outcomes": {"a": 2.0, "b": 1.0}[row["objective"]]}
        if row["level"] == "hypergrid" and row["seed"] == 1 and row["objective"] in "ab"
        else row
        for row in records.rows
    ]
    records = Records(one_swapped, records.labels)
    found = transfer.rank_correlation("hypergrid", "hypospace", "at the bar", records)
    assert found.seeds == (0, 1)
    np.testing.assert_allclose(found.values, [-1.0, -0.9])
    found = transfer.rank_correlation("bandit", "hypergrid", "at the end", records)
    assert found.seeds == (0, 1, 2)
    np.testing.assert_allclose(found.values, [1.0, 0.9, 1.0])


def test_two_classes_are_told_from_an_order_within_them():
    names, ranks = (*KEEPERS, "a", "b", "c", "d"), (10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
    records = made_up(names, bandit=(ranks, 1), language_model=((*ranks[:6], *ranks[:5:-1]), 3))
    found = [number(records).mean for number in NUMBERS.values()]
    # Of two classes of n and m that are wholly apart sqrt(3 n m / ((n + m)^2 - 1)); within each.
    assert found == pytest.approx([math.sqrt(3 * 24 / 99), 1, -1])
    with pytest.raises(NotRecorded):
        transfer.of_classes(records.where(level="bandit"))


def test_tables_and_figure_show_all_levels(tmp_path):
    records = made_up(bandit=(ORDERED, 1), hypergrid=(ORDERED, 2), hypospace=(REVERSED, 2))
    page, png = tmp_path / "page.md", tmp_path / "transfer.png"
    page.write_text(f"Before.\n{MARKS.begin}\nold\n{MARKS.end}\nAfter.\n")
    settings = dataclasses.replace(PRESETS["demo"], document=str(page))
    drawing = transfer.FIGURE(records, settings)
    style.save(drawing.figure, png.with_suffix(""), drawing.rows)
    assert transfer.documents(records, settings, png) == [page]
    text = page.read_text()
    assert "old" not in text
    assert (text.partition("\n")[0], text.rpartition("\n")[0].rpartition("\n")[2]) == ("Before.", "After.")
    assert "| bandit | hypergrid | 1.00 | 1.00 to 1.00 | 5 | 1.00 | 1.00 to 1.00 | 5 |" in text
    assert "| bandit | hypospace | -1.00 | -1.00 to -1.00 | 5 |" in text
    assert "| b | 2.00 | 2.05 [1.41, 2.69] | 4.05 [3.41, 4.69] |" in text
    assert (tmp_path / "page.png").read_bytes() == png.read_bytes()
    pairs = [row for row in drawing.rows if "second" in row]
    assert [row["value"] for row in pairs if row["when"] == "at the bar"] == pytest.approx([1, -1, -1])
    ranks = [row["rank"] for row in drawing.rows if row.get("objective") == "a"]
    assert ranks == [5, 5, 1]
    with pytest.raises(NotRecorded, match="on no two levels"):
        transfer.FIGURE(records.where(level="bandit"), settings)


def test_objectives_of_which_one_seed_stays_below_the_bar_are_drawn_at_the_end_alone():
    below = [
        row | {"reward": 0.95 - 0.08 * row["seed"]}
        for row in made_up(hypergrid=(ORDERED, 2), hypospace=(ORDERED, 2)).rows
    ]
    drawing = transfer.FIGURE(Records(below, ("level", "objective")), PRESETS["demo"])
    assert [(row["when"], row["value"]) for row in drawing.rows] == [("at the end", 1)]


@pytest.mark.slow
def test_every_level_computes_its_objectives(tmp_path):
    # A tiny model in the place of the one that is fetched.
    model = make_checkpoint(tmp_path / "model", "llama", hidden_size=32, num_layers=1)
    settings = dataclasses.replace(PRESETS["demo"], model_dir=str(model))
    found = {(curve.labels["level"], curve.labels["objective"]) for curve in transfer.curves(settings)}
    left_out = {(MODEL, objective) for objective in NOT_OF_MODEL}
    assert found == {(level, objective) for level in LEVELS for objective in OBJECTIVES} - left_out
    assert len(OBJECTIVES) - len(left_out) >= 12


def test_levels_start_from_the_same_policy_and_the_bandit_from_the_reference():
    for level in ("sampled_bandit", "hypergrid_table"):
        environment, policy = transfer.small_problem(level)
        probs = np.asarray(outcome_probs(environment, policy, policy.init(None)))
        found = transfer.measures(environment, probs)
        assert 0.4 < found["reward"] < 0.9
        assert found["effective_outcomes"] == pytest.approx(3.5, abs=0.2)
    np.testing.assert_allclose(np.exp(transfer.small_problem("sampled_bandit")[1].initial_logits), transfer.START)
