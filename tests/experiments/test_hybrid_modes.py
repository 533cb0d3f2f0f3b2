import numpy as np
import pytest

from experiments import hybrid_modes as study
from experiments.hybrid_modes import CONTROLLED, DEGRPO, EXACT, FIXED, FOMAML, FORCED_HGPO, GRPO, HGPO, PAPERS, SAMPLED
from ipsrl.records.tidy import Records
from ipsrl.study import claims

SEEDS = 32
LABELS = ("part", "skills", "arm")
COLLAPSE = {"collapsed": 1.0, "reward": 0.5, "fits": 0.0, "short_then": 0.2}
BOTH = {"collapsed": 0.0, "reward": 0.7, "fits": 0.9, "short_then": 0.99}
RARER = {"rarer": 0.001} | {f"rarer_at_{rate:g}": 0.001 for rate in study.Settings().learning_rates}


def decided(arms=(), fixed=(), exact=(), paired=0.1):
    """Sentence -> what it is, of runs that all collapse with growing skills and do not with fixed ones, but for these.

    Args:
      arms, fixed: of arms with growing and with fixed skills, value -> its mean over seeds.
      exact: of arms, value -> itself.
      paired: by how much a seed changes the reward of all arms alike.
    """
    arms, fixed, exact = dict(arms), dict(fixed), dict(exact)
    rows = [
        {"part": EXACT, "skills": "growing", "arm": arm, "reward": 0.5} | RARER | exact.get(arm, {})
        for arm in (study.SLOW, GRPO, FOMAML)
    ]
    for skills, of_arms, names in (("growing", arms, study.NAMES), (FIXED, fixed, CONTROLLED)):
        for arm in names:
            values = (COLLAPSE if skills == "growing" else BOTH) | of_arms.get(arm, {})
            spread = values.pop("spread", 0.0)
            for seed in range(SEEDS):
                of_seed = values | {"collapsed": int(seed < values["collapsed"] * SEEDS)}
                of_seed["reward"] += paired * seed + spread * (-1) ** seed
                rows.append({"part": SAMPLED, "skills": skills, "arm": arm, "seed": seed, **of_seed})
    return claims.decided(study.CLAIMS, Records([row | {"step": study.EARLY} for row in rows], LABELS))


def about(found, *parts):
    (held,) = (held for sentence, held in found.items() if all(part in sentence for part in parts))
    return held


def test_all_that_is_claimed_may_hold():
    others = dict.fromkeys(study.REMEDIES, BOTH) | {FORCED_HGPO: BOTH | {"reward": 0.8}}
    others |= {GRPO: COLLAPSE | {"collapsed": 0.7}}
    assert set(decided(others, exact={FOMAML: {"rarer_at_16": 0.4, "reward": 0.6}}).values()) == {True}


def test_all_that_is_claimed_may_be_wrong():
    worse = COLLAPSE | {"reward": 0.45}
    arms = (
        dict.fromkeys(study.REMEDIES, COLLAPSE)
        | dict.fromkeys((study.SLOW, GRPO, study.TOKENS), BOTH)
        | {PAPERS: worse}
    )
    fixed = {GRPO: COLLAPSE, HGPO: BOTH}
    found = decided(arms, fixed, {GRPO: {"rarer": 0.3, "reward": 0.6}, study.SLOW: {"rarer": 0.3}})
    assert set(found.values()) == {False}


def test_overlap_decides_nothing():
    half, some = {"collapsed": 0.5}, {"collapsed": 0.25, "reward": 0.52, "spread": 0.1, "fits": 0.9}
    found = decided(dict.fromkeys(study.REMEDIES, some) | {GRPO: half}, {HGPO: BOTH | {"spread": 1.0}})
    assert found["GRPO ends in one mode in over half of its runs"] is None
    for name in study.REMEDIES.values():
        assert about(found, f"{name} ends in one mode in under a quarter of its runs and thinks more") is None
        assert found[f"{name} ends with a reward over 0.02 above GRPO's"] is None
    assert about(found, "placebo") is None


def test_rewards_are_compared_seed_by_seed():
    found = decided({HGPO: {"reward": 0.53}}, paired=10.0)
    assert found["HGPO ends with a reward over 0.02 above GRPO's"] is True
    assert found["Dr. GRPO ends with a reward over 0.02 above GRPO's"] is False


def test_an_arm_that_stands_still_is_no_remedy():
    found = decided({PAPERS: BOTH | {"fits": 0.02}})
    assert found[f"DeGRPO at alpha 0.001 {study.FEW} and {study.FITS}"] is False


@pytest.mark.parametrize(("grpo", "held"), [({}, True), ({"rarer_at_16": 0.3}, False), ({"rarer_at_64": 0.3}, True)])
def test_meta_learning_is_compared_with_grpo_rate_by_rate(grpo, held):
    exact = {FOMAML: {"rarer_at_16": 0.4}, GRPO: grpo}
    assert about(decided(exact=exact), "at a learning rate at which GRPO ends in one") is held


def test_the_placebo_is_asked_early():
    """Later no arm has room above GRPO's reward."""
    assert about(decided(fixed={HGPO: BOTH | {"reward": 0.8}}), "placebo", "after 10 updates") is False


def test_one_better_alpha_is_enough_to_beat_that_of_the_paper():
    last = list(DEGRPO)[-1]
    found = decided({last: BOTH})
    assert about(found, "at most 0.02 in reward below") is False
    assert about(decided(), "at most 0.02 in reward below") is True


def test_a_claim_without_its_arms_is_undecided():
    assert set(claims.decided(study.CLAIMS, Records([], LABELS)).values()) == {None}


def test_arms_are_exact_or_sampled_or_both():
    parts = {}
    for curve in study.curves(study.PRESETS["demo"]):
        part, skills, arm = (curve.labels[name] for name in LABELS)
        parts.setdefault((arm, skills), set()).add(part)
    assert parts[GRPO, "growing"] == {EXACT, SAMPLED}
    assert parts[FOMAML, "growing"] == {EXACT}
    assert parts[FORCED_HGPO, "growing"] == {SAMPLED}
    assert {arm for arm, skills in parts if skills == FIXED} == set(CONTROLLED)
    assert {arm for arm, _ in parts} == {*study.NAMES, FOMAML}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ("forced_dapo",)}, "forced_dapo"),
        ({"skills": ("lost",)}, "--skills is 'lost', it must be one of growing, fixed"),
        ({"learning_rates": (0.0,)}, r"--learning_rates is 0\.0, it must be positive"),
        ({"group_size": 6}, "--group_size is 6, it must be a multiple of 4 for forced_grpo"),
        ({"updates": 1}, "--updates is 1, it must be at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        study.Settings(**changes)


def test_smoke_records_what_became_of_the_modes(smoke):
    _, records = smoke(study)
    assert study.Settings(arms=(GRPO,), group_size=6).group_size == 6
    for part, runs in ((SAMPLED, 2), (EXACT, 1)):
        steps, share = records.curve("share", part=part)
        assert steps.tolist() == list(range(11))
        assert share.shape == (runs, 11)
        np.testing.assert_allclose(share[:, 0], 0.5)
        _, tokens = records.curve("kilotokens", part=part)
        # Four answers to each of four prompts, half of 2 tokens and half of 20.
        np.testing.assert_allclose(tokens[:, 1], 4 * 4 * 11 / 1000, rtol=1e-5)
    difficulties = [records.curve(name, part=EXACT)[1] for name in (f"thinking_{place}" for place in (1, 2, 3, 4))]
    np.testing.assert_allclose(np.mean(difficulties, axis=0), records.curve("share", part=EXACT)[1], rtol=1e-5)
