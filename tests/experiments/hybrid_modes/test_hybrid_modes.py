import numpy as np

from experiments import hybrid_modes as study
from experiments.hybrid_modes import EXACT, GRPO, SAMPLED


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
