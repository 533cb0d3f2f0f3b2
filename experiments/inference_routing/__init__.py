"""Routing through layers of models when only the last one knows the errors: do baselines and queues keep EXP4 stable?

Claim     Where a task's errors are seen only if all layers pass it on, variance-reduced EXP4 with virtual queues is
          unbiased, has less variance and less regret than plain EXP4, the more the deeper, and keeps to its budgets.
Paper     arXiv 2603.04247 (VR-Ly-EXP4); all formulas and baselines are our reading of its abstract.
Arms      2 to 5 layers, the last an oracle; error rates fall evenly from 0.3 (3 layers: 0.3, 0.15, 0), or, rare errors,
          from 0.03; layer l may pass on 0.5^l of all tasks. Ten experts a layer, thresholds on a confidence; each
          layer passes on with 0.1 at least. `learned`: the baseline is the mean loss seen at a layer and confidence;
          `weighted`: the same weighted by 1 / p; `constant` 0.15, the placebo; `clipped` divides by 0.05 at least;
          `full` information; `no_queues`: learned, without prices. Variances are those of the first layer's estimate
          over all decisions, given the task, while all arms keep equal weights and so decide alike. Regret: errors
          beyond those of the best fixed thresholds within budgets (exact, the same 0.1), plus costs above budgets. Each
          half of the seeds has the rate of six that is best for the other half. After trials margins were set, and
          seeds raised to 64, because a choice of rates by 16 was chance.
Command   python -m experiments.inference_routing
Time      demo four CPU minutes, smoke 12 CPU seconds.
Expected  Unbiased and within budgets at each depth; without queues far above them. With two layers `learned` removes 29
          % of the variance, with five it adds 19 %, because tasks that hardly reach the oracle hardly err. Nor does
          regret fall: with five layers plain EXP4 ends at a regret of 142 errors, `learned` at 185, `weighted` between
          them, and `clipped` at 79: a small bias helps.
Doubt     Losses other than 0 and 1, or confidences that say little. More context does not help much: a baseline that
          knows the difficulty would leave 80 % of the variance with 5 layers. In longer runs clipping's bias may cost.
Smoke     python -m experiments.inference_routing --preset=smoke
"""

import dataclasses
import itertools
from functools import partial

from experiments.inference_routing.estimators import Estimator
from experiments.inference_routing.exp4 import Learner
from experiments.inference_routing.inference_layers import InferenceLayers
from experiments.inference_routing.routed_tasks import Runs, from_median
from ipsrl import study
from ipsrl.checking.fields import any_of, between, finite, positive, share
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study import above, below, near
from ipsrl.study.tuning import of_best

ARMS = ("plain", "constant", "learned", "weighted", "clipped", "full", "no_queues")
COMMON, RARE = 0.3, 0.03
SHOWN_OVER_TIME = {"error_rate": COMMON, "depth": 5}
"""Labels of the curves that are recorded after each interval, the others at the end alone, to keep records small."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`rounds` tasks arrive; `budget` to the power l is what layer l may pass on, as a share of all tasks."""

    depths: tuple[int, ...] = study.rising((2, 3, 4, 5), least=2, most=7)
    rare_depths: tuple[int, ...] = study.rising((5,), least=2, most=7)
    arms: tuple[str, ...] = any_of(ARMS)
    seeds: tuple[int, ...] = study.seeds(range(64), least=2)
    learning_rates: tuple[float, ...] = study.rising(
        (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03), least=1e-9, most=1e3
    )
    rounds: int = positive(10_000)
    intervals: int = positive(5)
    budget: float = share(0.5)
    p_min: float = share(0.1)
    trade_off: float = positive(100.0)
    constant: float = finite(0.15)
    least: float = between(0, 1, 0.05)

    def __post_init__(self):
        super().__post_init__()
        self.require_multiple("rounds", "intervals")
        if self.budget <= self.p_min:
            raise ValueError(f"--budget is {self.budget}, it must be above --p_min, {self.p_min}")


PRESETS = {
    "smoke": Settings(
        depths=(2,),
        rare_depths=(3,),
        arms=("plain", "learned"),
        seeds=(0, 1),
        learning_rates=(1e-3, 1e-2),
        rounds=40,
        intervals=2,
    ),
    "demo": Settings(),
}


def learner(arm: str, layers: InferenceLayers, settings: Settings) -> Learner:
    """The learner of one of `ARMS`."""
    estimators = {
        "constant": Estimator(constant=settings.constant),
        "learned": Estimator("mean"),
        "no_queues": Estimator("mean"),
        "weighted": Estimator("weighted mean"),
        "clipped": Estimator(least=settings.least),
    }
    return Learner(
        layers,
        settings.p_min,
        settings.trade_off,
        estimators.get(arm, Estimator()),
        full_information=arm == "full",
        queues=arm != "no_queues",
    )


def curves(settings: Settings) -> study.Curves:
    for error_rate, depths in ((COMMON, settings.depths), (RARE, settings.rare_depths)):
        for depth, arm in itertools.product(depths, settings.arms):
            of = learner(arm, InferenceLayers(depth, error_rate, settings.budget), settings)
            labels = {"error_rate": error_rate, "depth": depth, "arm": arm}
            whole_course = labels.items() >= SHOWN_OVER_TIME.items()
            runs = Runs(
                of, settings.rounds, settings.intervals, settings.seeds, settings.learning_rates
            )
            for number, rate in enumerate(settings.learning_rates):
                of_rate = labels | {"learning_rate": rate}
                yield study.Curve(of_rate, partial(runs.with_rate, number, whole_course))
            yield study.Curve(labels | {"weights": "equal"}, runs.at_equal_weights)


ERROR, CHOICE = "uniform_variance", "uniform_choice_variance"
DEPTHS = (2, 3, 4, 5)
SCORE = "minus_regret"
at_best = partial(study.Best, score=SCORE)
"""A number of curves at the rate that ends with the best score for other seeds."""


def end(value: str, arm: str, depth: int = 5, error_rate: float = COMMON) -> study.Number:
    return study.final(value, error_rate=error_rate, depth=depth, arm=arm)


def lowers(value: str, arm: str, depth: int = 5) -> study.Claim:
    """An arm has over 10 % less of a value than plain EXP4."""
    return below(end(value, arm, depth), 0.9 * end(value, "plain", depth))


def excess(arm: str, than: str, depth: int = 5, error_rate: float = COMMON) -> study.Number:
    """How many errors of regret an arm ends above another one, each at its best rate."""
    one, other = (end("regret", each, depth, error_rate) for each in (arm, than))
    return at_best(one - other)


def beats(arm: str, than: str, depth: int = 5) -> study.Claim:
    """An arm ends over 20 errors of regret below another one."""
    return below(excess(arm, than, depth), -20)


def removed(arm: str, depth: int) -> study.Number:
    """The share of the variance of the estimated error that an arm removes."""
    return 1 - end(ERROR, arm, depth) / end(ERROR, "plain", depth)


def at_each_depth(claim: study.Claim) -> study.Claim:
    return study.at_each("depth", claim, error_rate=COMMON)


CLAIMS = {
    "at each depth, at equal weights, the mean estimate with a learned baseline is within 0.02 of"
    " the error": at_each_depth(near(study.final("uniform_off", arm="learned"), 0, 0.02)),
    "at each depth, with queues and a learned baseline no mean cost is over 0.01 above its"
    " budget": at_each_depth(below(at_best(study.final("overspent", arm="learned")), 0.01)),
    "at each depth, without queues a mean cost is over 0.05 above its budget": at_each_depth(
        above(at_best(study.final("overspent", arm="no_queues")), 0.05)
    ),
    **{
        f"{depth} layers: a learned baseline lowers the variance of the estimated error by over"
        " 10 %": lowers(ERROR, "learned", depth)
        for depth in DEPTHS
    },
    **{
        f"{depth} layers: a learned baseline ends over 20 errors of regret below plain EXP4": beats(
            "learned", "plain", depth
        )
        for depth in DEPTHS
    },
    **{
        f"{depth} layers: a learned baseline ends within 20 errors of regret of full"
        " information": below(excess("learned", "full", depth), 20)
        for depth in DEPTHS
    },
    "the regret that a learned baseline saves is over 20 errors larger with 5 layers than with"
    " 2": above(excess("plain", "learned", 5), excess("plain", "learned", 2), 20),
    "5 layers: a learned baseline lowers the variance of passing on less answering, on which"
    " weights depend, by 10 %": lowers(CHOICE, "learned"),
    "5 layers: a weighted baseline lowers the variance of the estimated error by over 10 %": lowers(
        ERROR, "weighted"
    ),
    "5 layers: a weighted baseline ends over 20 errors of regret below plain EXP4": beats(
        "weighted", "plain"
    ),
    "5 layers: a learned baseline ends over 20 errors of regret below a constant one": beats(
        "learned", "constant"
    ),
    "5 layers: a learned baseline ends over 20 errors of regret below clipping at 0.05": beats(
        "learned", "clipped"
    ),
    "5 layers: clipped at 0.05, the mean estimate of tuned runs is over 0.02 too low": below(
        at_best(end("off", "clipped")), -0.02
    ),
    "5 layers: with a learned baseline the regret of seeds is spread over 20 % less than that of"
    " plain EXP4": below(
        at_best(from_median("regret", error_rate=COMMON, depth=5, arm="learned")),
        0.8 * at_best(from_median("regret", error_rate=COMMON, depth=5, arm="plain")),
    ),
    "5 layers, rare errors: a learned baseline ends within 2 errors of regret of plain EXP4": near(
        excess("learned", "plain", error_rate=RARE), 0, 2
    ),
}
HEADLINE = study.Headline(
    subject="Theories next door",
    claim=(
        "With a learned baseline and virtual queues, EXP4 routes through layers with less "
        "variance, less regret and kept budgets."
    ),
    scope="synthetic tasks, two to five layers",
    decided_by=(
        (
            "at each depth, with queues and a learned baseline no mean cost is over 0.01 above "
            "its budget"
        ),
        "5 layers: a learned baseline lowers the variance of the estimated error by over 10 %",
        "5 layers: a learned baseline ends over 20 errors of regret below plain EXP4",
    ),
)
NUMBERS = {
    f"share removed of the variance of the estimated error, {depth} layers, {arm}": removed(
        arm, depth
    )
    for depth in DEPTHS
    for arm in ("learned", "weighted")
}
TABLE = of_best(
    study.one_below_the_other(
        study.Grid("regret", "depth", title="regret after {rounds} tasks"),
        study.Grid("overspent", "depth", title="mean cost above budget"),
        study.Grid("learning_rate", "depth", title="best rate"),
        study.Grid(
            ERROR,
            "depth",
            title="variance of the estimated error at the first layer, equal weights",
        ),
        study.Grid(
            CHOICE,
            "depth",
            title="variance of passing on less answering at the first layer, equal weights",
        ),
        study.Grid("removable", "depth", {"arm": "plain"}, "share that a best baseline removes"),
        study.Grid("revealed", "depth", {"arm": "plain"}, "probability of feedback"),
    ),
    SCORE,
)
ESTIMATES = Line(ERROR, "depth", "arm", {"error_rate": COMMON}, ("no_queues", "full"), at_end=True)
ENDED = Line("regret", "depth", "arm", {"error_rate": COMMON}, ("no_queues",), at_end=True)
COURSE = Line("regret", "step", "arm", SHOWN_OVER_TIME, ("no_queues",))
PANELS = [
    Panel([ESTIMATES], "equal weights", "layers", "variance of the estimated error", yscale="log"),
    Panel([ENDED], "tuned runs", "layers", "regret after {rounds} tasks"),
    Panel([COURSE], "tuned runs, 5 layers", "tasks", "regret so far"),
]
FIGURE = of_best(Panels(PANELS), SCORE)
