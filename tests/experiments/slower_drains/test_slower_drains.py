import pytest

from experiments import slower_drains
from experiments.slower_drains import CLAIMS, METHODS, NUMBERS, PLACEBO
from ipsrl.records.tidy import Records
from ipsrl.study import claims


def decided(words=(), times=(), ends=(), steps=(1, 2, 4, 8)):
    """Sentence -> what it is, of records of GRPO and methods that are as GRPO, but for these."""
    words, times, ends, rows = dict(words), dict(times), dict(ends), []
    for name in ("grpo", "ips_grpo", *METHODS, PLACEBO):
        flow = {"word": words.get(name, "collapses"), "half_time": times.get(name, 200)}
        rows += [{"side": "exact", "objective": name, "k": k, "step": 2000, **flow} for k in steps]
        for seed in range(6):
            # Runs of a seed differ from the others by as much; a spread is that of one objective.
            more, spread = ends.get(name, (0.0, 0.0))
            kept = 2.0 + 0.2 * seed + more + spread * (-1) ** seed
            values = {"effective": kept, "at_bar": kept}
            rows += [
                {"side": "sampled", "objective": name, "k": k, "step": 2000, "seed": seed, **values} for k in steps
            ]
    return claims.decided(CLAIMS, Records(rows, ("side", "objective", "k")))


def about(found, *parts):
    (held,) = (held for sentence, held in found.items() if all(part in sentence for part in parts))
    return held


@pytest.mark.parametrize("kind", ["than GRPO, at 8", "quarter of the step"])
def test_each_method_is_compared_with_its_rival_by_paired_seeds(kind):
    found = decided(ends={"clip_cov": (0.2, 0.0), "dapo(overlong=0)": (0.05, 0.0), "cispo": (0.1, 0.1)})
    assert [about(found, name, kind) for name in ("Clip-Cov", "KL-Cov", "DAPO")] == [True, False, False]
    assert about(found, "CISPO", kind) is None
    assert about(decided(steps=(1, 2)), "CISPO", kind) is None


def test_a_delay_is_one_at_every_number_of_steps():
    found = decided(times={"clip_cov": 250, "kl_cov": 210, "cispo": 100})
    assert [about(found, name, "half-time") for name in ("Clip-Cov", "KL-Cov", "CISPO")] == [True, False, False]
    # GRPO does not lose half: nothing is later.
    assert about(decided(times={"grpo": 2000, "clip_cov": 2000}), "Clip-Cov", "half-time") is None
    assert about(decided(times={"clip_cov": 250}, steps=(1,)), "Clip-Cov", "half-time") is None


def test_where_training_ends_is_decided_by_words_and_other_is_none():
    found = decided({"grpo(entropy=0.01)": "uniform over correct", "skywork_entropy": "other"})
    assert about(found, "no clip") is True
    assert [about(found, name, "does not change") for name in ("the bonus", "Skywork", "Entrocraft")] == [
        False,
        None,
        True,
    ]
    assert about(found, "GRPO collapses") is True
    assert about(found, "IPS-GRPO keeps both") is False
    assert about(decided({"ips_grpo": "uniform over correct"}), "IPS-GRPO keeps both") is True
    assert about(decided({"gppo": "reference-shaped"}), "no clip") is False
    assert about(decided({"grpo": "other"}), "no clip") is None
    assert about(decided({"grpo": "other"}), "GRPO collapses") is None


def test_no_claim_is_made_of_aer_which_is_grpo_here():
    assert not [sentence for sentence in CLAIMS if "AER" in sentence]
    assert [label for label in NUMBERS if "AER" in label]


def test_grpo_loses_a_right_outcome_and_ips_keeps_both(smoke):
    _, records = smoke(slower_drains)
    words = {
        name: set(records.where(side="exact", objective=name).column("word").tolist()) for name in ("grpo", "ips_grpo")
    }
    assert words == {"grpo": {"collapses"}, "ips_grpo": {"uniform over correct"}}
    fast, slow = (records.mean("half_time", side="exact", objective=name, k=2) for name in ("grpo", PLACEBO))
    assert fast < slow
    sampled = {name: records.mean("effective", side="sampled", objective=name, k=2) for name in words}
    assert sampled["grpo"] + 1 < sampled["ips_grpo"]
