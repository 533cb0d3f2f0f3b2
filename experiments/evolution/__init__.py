"""Do evolution strategies keep the right answers that policy gradients of expected return lose?

Claim     Evolution strategies (ES) reach the accuracy of policy gradients and keep a higher pass@k. Theory, ours: with
          little noise their mean step is the gradient of expected return, so that of two right answers they lose the
          rarer alike, late as t^(-1/2). With more noise they climb a smoothed return, which loses it later; at no noise
          is it restored, because the likelier answer gains in most perturbed policies.
Paper     arXiv 2509.24372 (language models; greedy answers, 30 members, standardised rewards, noise 0.001), 2608.12679
          (pass@k; second-hand). Pairs of opposite noise are those of arXiv 1703.03864.
Arms      GRPO, IPS-GRPO, and ES with GRPO's advantages: as many answers and rewards in each step. ES also with greedy
          answers, on IPS rewards, and on rewards of other answers (placebo). Table: two right outcomes and a wrong one
          from 0.3, 0.2, 0.5, noise on the logits, SGD; exact flows of the smoothed return. Shared: 8 prompts, 16 of 64
          words right for each, a linear policy of 128 weights whose states overlap, Adam. Accuracy and pass@k are exact
          and of temperature 1; arms are compared where accuracy first is as high. Learning rates, bars and margins were
          set after trials with some of these seeds.
Command   python -m experiments.evolution
Time      demo a hundred CPU seconds, smoke 18; paper, not run, hours.
Expected  The rarer's share of the right outcomes, 0.4 at first, at accuracy 0.99: exact flow 0.173, 0.174, 0.265, 0.362
          at noise 0, 0.1, 1, 4; GRPO 0.174, ES 0.21 [0.18, 0.24], 0.269, 0.360 at noise 0.1, 1, 4, on IPS rewards
          0.488. ES ends at 0.18, 0.19, 0.28. Random rewards cost 0.08 at noise 0.1: its steps are a random walk. With
          greedy answers it ends at accuracy 0.73, share 0.27: what is never the likeliest is never rewarded. Shared, at
          accuracy 0.6: GRPO leaves 4.65 effective right words of 16 at a pass@4 of 0.960, ES 4.05 at 0.948, 4.61 at
          0.942, 3.68 at 0.921 with noise 0.1, 0.3, 1, IPS-GRPO 8.26 at 0.972. Random rewards alone take 16 to 6.5.
Doubt     With 256 members (--shared_population=256) noise 0.1 leaves as many words as GRPO, 4.86, noise 1 fewer, 3.85,
          and pass@4 is 0.01 to 0.03 lower. Whether shared states or many more weights undo the table's gain we do not
          know. A higher pass@k at equal accuracy in a larger network would change our mind; an answer has three tokens.
Smoke     python -m experiments.evolution --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Iterator

from experiments.evolution.evolved import SHARED, TABLED, Arm, at, each_lower, exact, more, sampled
from ipsrl import study
from ipsrl.fields import Range, in_range, one_of, positive
from ipsrl.figures.layers import Layer, Line, Markers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.study.claims import above, below, every, near

ARMS = "grpo", "ips_grpo", "es", "es_greedy", "es_ips", "es_random", "grpo_random"
GRPO, IPS, ES, GREEDY, BY_IPS, RANDOM, GRPO_RANDOM = ARMS
FLOW, EXACT = "exact_flow", (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
NOISES, SHARED_NOISES = (
    {0.1: 0.02, 1.0: 0.05, 4.0: 0.2},
    {0.1: 0.01, 0.3: 0.01, 1.0: 0.01},
)  # Noise -> learning rate.
WORLDS = {
    TABLED: (
        Arm(GRPO, "grpo", 0.05),
        Arm(IPS, "ips_grpo", 0.05),
        Arm(GRPO_RANDOM, "grpo", 0.05, random=True),
        *(Arm(ES, "grpo", rate, noise) for noise, rate in NOISES.items()),
        *(Arm(GREEDY, "grpo", rate, noise, greedy=True) for noise, rate in NOISES.items()),
        *(Arm(RANDOM, "grpo", rate, noise, random=True) for noise, rate in NOISES.items()),
        Arm(BY_IPS, "ips_grpo", NOISES[1.0], 1.0),
    ),
    SHARED: (
        Arm(GRPO, "grpo", 0.0015),
        Arm(IPS, "ips_grpo", 0.003),
        *(Arm(ES, "grpo", rate, noise) for noise, rate in SHARED_NOISES.items()),
        Arm(GREEDY, "grpo", SHARED_NOISES[0.3], 0.3, greedy=True),
        Arm(BY_IPS, "ips_grpo", SHARED_NOISES[0.3], 0.3),
        Arm(RANDOM, "grpo", SHARED_NOISES[0.3], 0.3, random=True),
    ),
}
R65, R90, R99, RARER = "rarer at 0.65", "rarer at 0.9", "rarer at 0.99", "rarer at the end"
PASS, WORDS = "pass@4 at 0.6", "effective at 0.6"
LITTLE, MORE = 0.01, 0.05  # Differences of shares and of pass@4 that do not count.
EVEN = Range("be even and positive", lambda number: number > 0 and number % 2 == 0)


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """Each of a `population`, or of a group of that size, answers each prompt once in each of the steps."""

    arms: tuple[str, ...] = study.selecting(one_of(*ARMS, default=ARMS))
    seeds: tuple[int, ...] = study.seeds(tuple(range(64)), least=2)
    population: int = in_range(EVEN, 64)
    steps: int = positive(1000)
    shared_seeds: tuple[int, ...] = study.seeds(tuple(range(16)), least=2)
    shared_population: int = in_range(EVEN, 32)
    shared_steps: int = positive(500)


PRESETS = {
    "smoke": Settings((GRPO, ES, BY_IPS), tuple(range(8)), 64, 600, (0, 1), 4, 5),
    "demo": Settings(),
    "paper": Settings(ARMS, tuple(range(256)), 256, 4000, tuple(range(64)), 256, 2000),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for noise in EXACT:
        yield study.Curve(
            {"world": TABLED, "kind": FLOW, "noise": noise}, functools.partial(exact, noise)
        )
    chosen = {
        world: [arm for arm in arms if arm.kind in settings.arms] for world, arms in WORLDS.items()
    }
    yield from sampled(chosen[TABLED], TABLED, settings.seeds, settings.population, settings.steps)
    shared = settings.shared_seeds, settings.shared_population, settings.shared_steps
    yield from sampled(chosen[SHARED], SHARED, *shared)


CLAIMS = {
    "noise 0.1: the rarer's share is within 0.01 of that without noise at accuracy 0.9 and 0.99 (exact flow)": every(
        near(at(value, FLOW, 0.1), at(value, FLOW), LITTLE) for value in (R90, R99)
    ),
    "each larger noise leaves over 0.01 more of the rarer's share at accuracy 0.99 (exact flow)": each_lower(
        LITTLE, *(at(R99, FLOW, noise) for noise in reversed(EXACT[1:]))
    ),
    "at every noise the rarer's share falls by over 0.01 from accuracy 0.65 to 0.99, and again later (exact flow)": every(
        each_lower(LITTLE, *(at(value, FLOW, noise) for value in (R65, R99, RARER)))
        for noise in EXACT
    ),
    **{
        f"noise {noise:g}: the rarer's share is within 0.05 of the exact flow's at accuracy 0.99 (table)": near(
            at(R99, ES, noise), at(R99, FLOW, noise), MORE
        )
        for noise in NOISES
    },
    "noise 0.1: the rarer's share is within 0.05 of that under GRPO at accuracy 0.9 (table)": near(
        more(R90, (ES, 0.1), (GRPO, 0.0)), 0.0, MORE
    ),
    **{
        f"noise {noise:g}: the rarer's share is over 0.05 above that under GRPO at accuracy 0.99 (table)": above(
            more(R99, (ES, noise), (GRPO, 0.0)), MORE
        )
        for noise in NOISES
    },
    **{
        f"noise {noise:g}, greedy: the rarer's share is over 0.01 above that under GRPO at accuracy 0.65 (table)": above(
            more(R65, (GREEDY, noise), (GRPO, 0.0)), LITTLE
        )
        for noise in NOISES
    },
    "noise 1: IPS rewards leave over 0.05 more of the rarer's share at accuracy 0.99 (table)": above(
        more(R99, (BY_IPS, 1.0), (ES, 1.0)), MORE
    ),
    **{
        f"noise {noise:g}: random rewards cost over 0.05 of the rarer's share, 0.4 (table)": below(
            at(RARER, RANDOM, noise), 0.4 - MORE
        )
        for noise in NOISES
    },
    **{
        f"noise {noise:g}: pass@4 is over 0.01 above that of GRPO at accuracy 0.6 (shared)": above(
            more(PASS, (ES, noise), (GRPO, 0.0), SHARED), LITTLE
        )
        for noise in SHARED_NOISES
    },
    "noise 0.3, greedy: pass@4 is over 0.01 above that of GRPO at accuracy 0.6 (shared)": above(
        more(PASS, (GREEDY, 0.3), (GRPO, 0.0), SHARED), LITTLE
    ),
    **{
        f"noise {noise:g}: over 0.5 more effective right words are left than by GRPO at accuracy 0.6 (shared)": above(
            more(WORDS, (ES, noise), (GRPO, 0.0), SHARED), 0.5
        )
        for noise in SHARED_NOISES
    },
    "noise 0.3: IPS rewards leave over 0.5 more effective right words at accuracy 0.6 (shared)": above(
        more(WORDS, (BY_IPS, 0.3), (ES, 0.3), SHARED), 0.5
    ),
    "noise 0.3: random rewards cost over a quarter of the 16 effective right words (shared)": below(
        at("effective", RANDOM, 0.3, SHARED), 12.0
    ),
}
SHOWN = {TABLED: ("accuracy", R90, R99, RARER), SHARED: ("accuracy", WORDS, PASS, "effective")}
NUMBERS = {
    f"{value}, {arm.kind}" + f", noise {arm.noise:g}" * (arm.noise > 0) + f" ({world})": at(
        value, arm.kind, arm.noise, world
    )
    for world, values in SHOWN.items()
    for value in values
    for arm in WORLDS[world]
    # Without a signal accuracy reaches no bar.
    if not (arm.random and " at 0." in value)
}
TABLE = study.one_below_the_other(
    *(
        study.Table(values, world, {"world": world}, ("kind", "noise"))
        for world, values in SHOWN.items()
    )
)


def drawn(value: str, world: str) -> list[Layer]:
    chosen = {"where": {"world": world}, "without": (FLOW, RANDOM, GRPO_RANDOM)}
    return [
        Line(value, "noise", "kind", markers=False, **chosen),
        Markers(value, "noise", "kind", **chosen),
    ]


LINE = Line(R99, "noise", "kind", {"kind": FLOW}, dashed=True)
FIGURE = Panels(
    [
        Panel(
            [LINE, *drawn(R99, TABLED)],
            "table, accuracy 0.99",
            "noise",
            "share of the rarer right outcome",
        ),
        Panel(
            drawn(WORDS, SHARED),
            "shared states, accuracy 0.6",
            "noise",
            "effective right words of 16",
        ),
        Panel(
            drawn(PASS, SHARED), "shared states, accuracy 0.6", "noise", "pass@4 at accuracy 0.6"
        ),
    ]
)
