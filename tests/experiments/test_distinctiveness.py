from experiments import distinctiveness
from ipsrl.records.tidy import Records
from ipsrl.study import claims

LABELS = ("arm", "errors", "age", "learning_rate")
CLASH = "exact grader: near copies of opposite sign clash more than other answers"
ACCURACY = "exact grader: a mask ends at a higher accuracy than its placebo"
CALM = "exact grader: a mask calms gradients more than its placebo"
ANCHORS = distinctiveness.HOPELESS + "that with their placebo"


def rows(arm, rate=0.03, accuracy=(0.5, 0.5), **values):
    """Two seeds of an arm; `values` are pairs, too."""
    labels = dict(zip(LABELS, (arm, 0.0, 0, rate), strict=True))
    of_seeds = {"accuracy": accuracy, **values}
    return [labels | {"seed": seed, "step": 10} | {name: of[seed] for name, of in of_seeds.items()} for seed in (0, 1)]


def decided(sentence, *arms):
    return claims.decided(distinctiveness.CLAIMS, Records([row for arm in arms for row in arm], LABELS))[sentence]


def test_copies_clash_if_their_cosine_is_below_that_of_other_answers():
    for gap, clash in (((0.1, 0.2), True), ((-0.2, -0.1), False), ((-0.1, 0.1), None)):
        worse = rows("grpo", 0.1, (0.4, 0.4), gap=(-1.0, -1.0))
        assert decided(CLASH, rows("grpo", gap=gap), worse) is clash


def test_one_of_the_masks_must_be_above_its_own_placebo():
    placebos = rows("random", accuracy=(0.4, 0.5)), rows("few_random", accuracy=(0.6, 0.7))
    high, low, same = (0.51, 0.59), (0.1, 0.2), (0.4, 0.6)
    assert decided(ACCURACY, *placebos, rows("mask", accuracy=high), rows("few_mask", accuracy=low)) is True
    assert decided(ACCURACY, *placebos, rows("mask", accuracy=low), rows("few_mask", accuracy=high)) is False
    assert decided(ACCURACY, *placebos, rows("mask", accuracy=same), rows("few_mask", accuracy=low)) is None


def test_calm_is_a_smaller_deviation_and_a_smaller_maximum():
    def of(arm, deviation, maximum):
        return rows(arm, norm_std=(deviation, deviation + 0.1), norm_max=(maximum, maximum + 0.1))

    placebos = of("random", 1, 1), of("few_random", 1, 1), rows("grpo")
    assert decided(CALM, *placebos, of("mask", 0.5, 0.5), of("few_mask", 2, 2)) is True
    assert decided(CALM, *placebos, of("mask", 0.5, 2), of("few_mask", 2, 2)) is False
    assert decided(CALM, *placebos, of("mask", 0.5, 1.05), of("few_mask", 2, 2)) is None


def test_anchors_are_judged_on_hopeless_prompts():
    placebo = rows("own_anchors", accuracy=(0.9, 0.9), hopeless=(0.1, 0.2))
    for hopeless, revived in (((0.3, 0.4), True), ((0.0, 0.05), False), ((0.1, 0.3), None)):
        assert decided(ANCHORS, placebo, rows("anchors", hopeless=hopeless)) is revived
