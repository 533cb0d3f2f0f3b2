import pytest

from experiments import molecules
from experiments.molecules import ARMS, CLAIMS, PAPER, PRESETS, Settings
from experiments.molecules.tables import of_papers
from ipsrl.policies.state_space import StateSpace
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("part", "arm")


def rows(arm, **values):
    """Two seeds of an arm; `values` are pairs."""
    return [
        {"part": "search", "arm": arm, "seed": seed, "step": 2000} | {name: of[seed] for name, of in values.items()}
        for seed in (0, 1)
    ]


def decided(sentence, *arms):
    return claims.decided({sentence: CLAIMS[sentence]}, Records([row for arm in arms for row in arm], LABELS))[sentence]


def test_there_is_a_curve_for_the_prior_and_for_each_seed_of_each_arm():
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    curves = list(molecules.curves(PRESETS["smoke"]))
    assert [curve.labels for curve in curves] == [
        {"part": "prior"},
        *({"part": "search", "arm": arm, "seed": seed} for seed in (0, 1) for arm in ("prior", "grpo")),
    ]


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_can_be_trained(arm):
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    PRESETS["smoke"].search().curve(arm, ARMS[arm], 0)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"), [((700, 710), (600, 640), True), ((500, 510), (600, 640), False)]
)
def test_more_molecules_are_more_in_the_mean_of_pairs(ours, theirs, expected):
    sentence = "IPS-GRPO by counts of scaffolds finds more molecules of stand-in reward 0.80 than REINVENT"
    assert decided(sentence, rows("ips_scaffold", yield_80=ours), rows("reinvent", yield_80=theirs)) is expected


@pytest.mark.parametrize(("circles", "expected"), [((40, 41), True), ((20, 21), False), ((29, 31), None)])
def test_better_in_both_asks_for_more_and_for_more_different_ones(circles, expected):
    sentence = "IPS-GRPO by exact probabilities of r^16 finds more of them than GRPO, and more #Circles"
    arms = rows("ips_exact", yield_80=(700, 710), circles=circles), rows("grpo", yield_80=(600, 640), circles=(30, 30))
    assert decided(sentence, *arms) is expected


def test_the_papers_numbers_stand_beside_ours():
    table = of_papers(Records(rows("reinvent", yield_80=(600, 640)), LABELS), PRESETS["demo"])
    assert "5695" in table
    assert "here, stand-in reward synth, at 0.80; scaffold class" in table
    assert "620 [600, 640]" in table
    assert set(PAPER) <= set(molecules.NUMBERS)


def test_the_policy_of_the_paper_has_its_size():
    paper = PRESETS["paper"]
    policy = StateSpace(37, paper.hidden_size, paper.num_layers, state_size=paper.state_size)
    assert (policy.inner_size, policy.convolution) == (512, 4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reward": "docking"}, "docking.*known: all_amide, qed, synth"),
        ({"arms": ("grpo", "ppo")}, "ppo"),
        ({"identity": "ring"}, "identity is 'ring'"),
    ],
)
def test_unknown_rewards_and_arms_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Settings(**fields)


def test_missing_molecules_are_named_with_the_command_that_makes_them(tmp_path, monkeypatch):
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    monkeypatch.setenv("IPSRL_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="run python scripts/make_molecules"):
        list(molecules.curves(Settings()))
