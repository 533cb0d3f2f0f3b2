import numpy as np
import pytest

from experiments import recovery_time
from experiments.recovery_time import EXACT, PRESETS
from experiments.recovery_time.recovery_times import recovery_coefficient
from ipsrl.dynamics.softmax.finite_groups import COUNT_RULES


def test_theory_begins_a_hundred_times_below_the_rarest_start_and_rules_differ_there():
    settings = PRESETS["smoke"]
    rarest = min(settings.starts) / 100
    ends = {rule: recovery_time.mean_field_time(rule, rarest, settings) for rule in (*COUNT_RULES, EXACT)}
    # By counts as 1 / p, with exact probabilities as its logarithm.
    assert ends[EXACT] < 10 < 1e3 < ends["no baseline"] < ends["group mean"] < ends["group mean and std"]
    curve = recovery_time.theory(EXACT, settings).values
    assert (curve["start"][0], curve["mean_field"][0]) == (rarest, ends[EXACT])
    assert curve["mean_field"] == sorted(curve["mean_field"], reverse=True)


def test_rare_outcomes_recover_hyperbolically(smoke):
    settings, records = smoke(recovery_time)
    for rule in COUNT_RULES:
        for start in settings.starts:
            where = {"rule": rule, "kind": "sampled", "start": start}
            times, mean_field = records.ends("time", **where), records.mean("mean_field", **where)
            standard_error = times.std(ddof=1) / np.sqrt(len(times))
            # A finite step takes longer by up to h r_2 omega(1) / G = 1 % of omega(1) / (omega(1) - 4 omega(G)).
            assert -4 * standard_error < times.mean() - mean_field < 4 * standard_error + 0.0135 * mean_field
        coefficient, rarer = recovery_coefficient(settings.rewards, settings.weights, rule), settings.starts[-1] / 10
        assert recovery_time.mean_field_time(rule, rarer, settings) == pytest.approx(1 / coefficient / rarer, rel=0.05)
