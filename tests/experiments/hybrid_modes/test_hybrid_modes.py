"""Which curves the study has, and that all of it runs."""

import numpy as np

from experiments import hybrid_modes as study
from experiments.hybrid_modes import ARMS, CONTROLLED, EXACT, FIXED, FOMAML, FORCED_HGPO, GRPO, SAMPLED


def test_arms_are_exact_or_sampled_or_both():
    settings, found = study.PRESETS["demo"], {}
    for curve in study.curves(settings):
        rate = curve.labels["learning_rate"]
        part, skills, arm = (curve.labels[name] for name in ("part", "skills", "arm"))
        found.setdefault((arm, skills), {}).setdefault(part, []).append(rate)
    assert found[GRPO, "growing"].keys() == {EXACT, SAMPLED}
    assert found[FOMAML, "growing"].keys() == {EXACT}
    assert found[FORCED_HGPO, "growing"].keys() == {SAMPLED}
    assert {arm for arm, skills in found if skills == FIXED} == {GRPO, *CONTROLLED}
    assert {arm for arm, _ in found} == set(ARMS)
    assert {tuple(rates) for parts in found.values() for rates in parts.values()} == {settings.learning_rates}


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
