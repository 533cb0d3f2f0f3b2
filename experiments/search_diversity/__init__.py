"""Does RL squeeze the behaviours of a search agent, and do diverse demonstrations (SFT) expand them?

Claim     RL lowers the number of different behaviours, wrong and right ones; SFT on diverse demonstrations raises that
          of right ones.
Paper     RL Squeezes, SFT Expands, arXiv 2509.21128, which is about mathematics (256 answers to a problem, clusters of
          similar texts). That it holds of search agents is the extension tested here; a behaviour is the exact sequence
          of queries and the answer. Ours: narrow demonstrations, the objectives for diversity, the margins, placebos.
Arms      A prior that knows the chain its question names, and no other route; SFT on routes drawn among all right ones
          (diverse) or on the chain alone (narrow); GRPO; SFT (diverse), then GRPO; IPS by answer and by behaviour;
          ProGRPO; DARLING by behaviour. Placebos: SFT on the routes of other questions; random rewards at GRPO's
          rate, and beside GRPO at the smallest. World: `agents`, eight questions in `search_agent`
          with 14 to 26 right routes, and eight held-out ones on the same graph; a table for each question and one that
          questions share. RL arms sample equally many answers (15,360), token sums, three rates, of which each
          half of the seeds has the most accurate one of the other half. SFT has 256 demonstrations, 120 steps on all of
          them, at one rate set on other seeds.
Command   python -m experiments.search_diversity
Time      demo one CPU minute, smoke 12 CPU seconds; paper, not run, an hour.
Expected  Five seeds, 256 answers to a question, different right and wrong behaviours (effective right ones; accuracy):
          prior 8.0 and 106 (4.4; 0.12), SFT diverse 19.9 and 16.5 (15.3; 0.93), narrow 1.2 and 2.8 (1.0; 0.99), GRPO
          1.3 and 0.6 (1.0; 0.998), SFT then GRPO 4.7 and 0.5 (1.6; 0.998), below the prior, but above GRPO alone; IPS
          by behaviour 5.7 (3.2; 0.990), DARLING 4.5 (3.6; 0.980), ProGRPO 1.5 (1.2; 0.998); IPS by answer is GRPO. So
          RL squeezes and SFT expands, but by what it shows: narrow SFT squeezes as GRPO does. Held out: GRPO 4.7 right
          of 10.6, 0.33 accurate (prior 0.14), pass@64 unchanged; SFT diverse 13.1, 0.14 and 0.96; narrow 0.35. Random
          rewards squeeze more at GRPO's rate (0.4 right), by noise; at the smallest they leave 7.5, and GRPO 1.9.
Doubt     Counts of right behaviours grow with accuracy, wrong ones fall with it; the effective number does so less. The
          prior knows one route. The rate of most accuracy squeezes most. Questions share the asked chain only, so only
          that transfers; all seeds have one graph, none is new. SFT's 256 answers come from outside, 120 times each.
Smoke     python -m experiments.search_diversity --preset=smoke
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from experiments.search_diversity.agents import (
    BY_ANSWER,
    DIVERSE,
    DIVERSITY,
    GRPO,
    NAMES,
    NARROW,
    PLACEBOS,
    PRIOR,
    RANDOM,
    REWARDED,
    SHIFTED,
    THEN,
    Agents,
    Budget,
)
from experiments.search_diversity.counted_searches import HELD_OUT
from ipsrl import study
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.records.tidy import Records
from ipsrl.study.claims import above, below, near
from ipsrl.study.tuning import best_for_others, of_best

RIGHT, WRONG, EFFECTIVE, ACCURACY = "right", "wrong", "effective", "pass_1"


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """SFT takes as many steps as RL; `demonstrations` are those to a question, `sft_rate` is their learning rate."""

    arms: tuple[str, ...] = study.selecting(one_of(*NAMES, default=tuple(NAMES)))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4), least=2)
    learning_rates: tuple[float, ...] = positive((16.0, 64.0, 256.0))
    sft_rate: float = positive(64.0)
    demonstrations: int = positive(32)
    group_size: int = at_least(2, 16)
    intervals: int = positive(6)
    steps_between: int = positive(20)

    @property
    def budget(self) -> Budget:
        steps = self.intervals * self.steps_between
        return Budget(
            steps, self.steps_between, self.group_size, self.demonstrations, self.sft_rate
        )


PRESETS = {
    "smoke": Settings(
        arms=(DIVERSE, GRPO),
        seeds=(0, 1),
        learning_rates=(64.0,),
        demonstrations=4,
        group_size=4,
        intervals=1,
        steps_between=2,
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), steps_between=200),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    agents = Agents()
    for arm in settings.arms:
        rates = [{"learning_rate": rate} for rate in settings.learning_rates]
        for rate in rates if arm in REWARDED else [{}]:
            compute = functools.partial(points, agents, arm, settings, **rate)
            yield study.Curve({"arm": arm} | rate, compute)


def points(
    agents: Agents, arm: str, settings: Settings, learning_rate: float | None = None
) -> study.Points:
    steps = range(0, settings.budget.steps + 1, settings.steps_between)
    found = agents.found(arm, learning_rate, settings.seeds, settings.budget)
    return study.Points(steps, found, settings.seeds)


def end(value: str, arm: str) -> study.Number:
    """A value at the end, at the best learning rate of an arm that is rewarded."""
    return study.Best(study.final(value, arm=arm), ACCURACY)


def fewer(value: str, arm: str, than: str = PRIOR) -> study.Claim:
    return below(end(value, arm) - 0.9 * end(value, than), 0.0)


def more(value: str, arm: str, than: str = PRIOR) -> study.Claim:
    return above(end(value, arm) - 1.1 * end(value, than), 0.0)


def right_by_random_rewards(records: Records) -> list[np.ndarray]:
    """Right behaviours with random rewards, of each seed at the learning rate that it has for GRPO."""
    rates = best_for_others(records.where(arm=GRPO), ACCURACY).ends("learning_rate")
    return [
        records.ends(RIGHT, arm=RANDOM, learning_rate=rate, seed=seed)[0]
        for seed, rate in zip(records.distinct("seed"), rates, strict=True)
    ]


RANDOMLY_REWARDED = study.Computed(
    "right behaviours with random rewards at GRPO's rate", right_by_random_rewards
)
SMALLEST = min(Settings().learning_rates)
SFT = NAMES[DIVERSE]
IN_ANSWERS = "behaviours in 256 answers than its prior, by over a tenth"
FEWER_RIGHT = f"ends with fewer different right {IN_ANSWERS}"
MORE_RIGHT = f"ends with more different right {IN_ANSWERS}"
FEWER_WRONG = f"ends with fewer different wrong {IN_ANSWERS}"
CLAIMS = {
    f"GRPO {FEWER_RIGHT}": fewer(RIGHT, GRPO),
    f"GRPO {FEWER_WRONG}": fewer(WRONG, GRPO),
    f"{SFT} {MORE_RIGHT}": more(RIGHT, DIVERSE),
    f"{SFT} {FEWER_WRONG}": fewer(WRONG, DIVERSE),
    f"{NAMES[NARROW]} {FEWER_RIGHT}": fewer(RIGHT, NARROW),
    f"SFT then GRPO keeps over half of the right behaviours that {SFT} had added": above(
        end(RIGHT, THEN) - 0.5 * (end(RIGHT, PRIOR) + end(RIGHT, DIVERSE)), 0.0
    ),
    **{
        f"{NAMES[arm]} ends with over twice GRPO's effective right behaviours": above(
            end(EFFECTIVE, arm) - 2.0 * end(EFFECTIVE, GRPO), 0.0
        )
        for arm in (THEN, *DIVERSITY)
    },
    **{
        f"{NAMES[arm]} ends at most 0.02 less accurate than GRPO": above(
            end(ACCURACY, arm), end(ACCURACY, GRPO), -0.02
        )
        for arm in DIVERSITY
    },
    "check: IPS by answer ends with GRPO's effective right behaviours, within 0.05": near(
        end(EFFECTIVE, BY_ANSWER), end(EFFECTIVE, GRPO), 0.05
    ),
    f"on held-out questions GRPO {FEWER_RIGHT}": fewer(HELD_OUT + RIGHT, GRPO),
    f"on held-out questions {SFT} {MORE_RIGHT}": more(HELD_OUT + RIGHT, DIVERSE),
    "on held-out questions GRPO ends over 0.02 more accurate than its prior": above(
        end(HELD_OUT + ACCURACY, GRPO), end(HELD_OUT + ACCURACY, PRIOR), 0.02
    ),
    f"on held-out questions GRPO ends over 0.02 more accurate than {SFT}": above(
        end(HELD_OUT + ACCURACY, GRPO), end(HELD_OUT + ACCURACY, DIVERSE), 0.02
    ),
    "on held-out questions GRPO's pass@64 ends over 0.02 below its prior's": below(
        end(HELD_OUT + "pass_64", GRPO), end(HELD_OUT + "pass_64", PRIOR), 0.02
    ),
    "placebo: SFT on diverse routes of its questions has over a tenth more right behaviours"
    " than on those of others": more(RIGHT, DIVERSE, SHIFTED),
    "placebo: GRPO ends with over a tenth fewer right behaviours than with random rewards": below(
        end(RIGHT, GRPO) - 0.9 * RANDOMLY_REWARDED, 0.0
    ),
    "placebo: at the smallest rate GRPO ends with over a tenth fewer right behaviours"
    " than with random rewards": below(
        study.final(RIGHT, arm=GRPO, learning_rate=SMALLEST)
        - 0.9 * study.final(RIGHT, arm=RANDOM, learning_rate=SMALLEST),
        0.0,
    ),
}
HEADLINE = study.Headline(
    subject="Agents that search or talk",
    claim=(
        "Reinforcement learning lowers the number of different behaviours; diverse "
        "demonstrations raise that of right ones."
    ),
    scope="a search agent on knowledge graphs, tables of logits",
    decided_by=(
        (
            "GRPO ends with fewer different right behaviours in 256 answers than its "
            "prior, by over a tenth"
        ),
        (
            "GRPO ends with fewer different wrong behaviours in 256 answers than its "
            "prior, by over a tenth"
        ),
        (
            "SFT on diverse demonstrations ends with more different right behaviours in "
            "256 answers than its prior, by over a tenth"
        ),
    ),
)
SHOWN = {
    RIGHT: "different right behaviours",
    WRONG: "different wrong ones",
    EFFECTIVE: "effective right ones",
    ACCURACY: "accuracy",
}
PARTS = {"": "trained questions", HELD_OUT: "held-out questions"}


def columns(part: str) -> list[str]:
    values = (*SHOWN, "pass_4", "pass_16", "pass_64")
    return [*(part + value for value in values), "learning_rate"]


TABLE = study.one_below_the_other(
    *(of_best(study.Table(columns(part), where), ACCURACY) for part, where in PARTS.items()),
    study.Table(list(SHOWN), "trained questions, at each rate", rows=("arm", "learning_rate")),
)
PANELS = [
    Panel([Line(part + value, by="arm", without=PLACEBOS)], where, "updates", shown)
    for part, where in PARTS.items()
    for value, shown in SHOWN.items()
]
FIGURE = of_best(Panels(PANELS, (20, 8.5), columns=4), ACCURACY)
