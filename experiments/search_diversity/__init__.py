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
          questions share. RL arms sample equally many answers (15,360), token sums, the best of three rates by the
          accuracy of other seeds. SFT has 256 demonstrations, 120 steps on all of them, at one rate set on other seeds.
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

from experiments.search_diversity import agents as world
from experiments.search_diversity.agents import DIVERSE, DIVERSITY, GRPO, NAMES, NARROW, PRIOR, THEN
from experiments.search_diversity.counted_searches import HELD_OUT, TRIES
from ipsrl import study
from ipsrl.fields import at_least, one_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.seeds import Interval
from ipsrl.records.tidy import Records, interval_of
from ipsrl.study.claims import above, below, close

RIGHT, WRONG, EFFECTIVE, ACCURACY = "right", "wrong", "effective", "pass_1"
KINDS = ("arm", "placebo")


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
    def budget(self) -> world.Budget:
        steps, shown = self.intervals * self.steps_between, (self.demonstrations, self.sft_rate)
        return world.Budget(steps, self.steps_between, self.group_size, self.learning_rates, *shown)


PRESETS = {
    "smoke": Settings(
        (DIVERSE, GRPO),
        (0, 1),
        (64.0,),
        demonstrations=4,
        group_size=4,
        intervals=1,
        steps_between=2,
    ),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(20)), steps_between=200),
}


def curves(settings: Settings) -> Iterator[study.Curve]:
    for arm in settings.arms:
        yield study.Curve(
            {"arm": arm, "kind": KINDS[arm in world.PLACEBOS]},
            functools.partial(curve, arm, settings),
        )


def curve(arm: str, settings: Settings) -> study.Points:
    steps = range(0, settings.budget.steps + 1, settings.steps_between)
    return study.Points(
        steps, world.Agents().found(arm, settings.seeds, settings.budget), settings.seeds
    )


def beyond(value: str, arm: str, than: str = PRIOR, times: float = 1.0) -> study.Number:
    """A value at the end less so many times that of another arm, paired by seed."""
    return lambda records: interval_of(
        records.ends(value, arm=arm) - times * records.ends(value, arm=than)
    )


def kept(records: Records) -> Interval:
    """What GRPO after SFT has of right behaviours beyond the prior, less half of what SFT had added."""
    before, taught, after = (records.ends(RIGHT, arm=arm) for arm in (PRIOR, DIVERSE, THEN))
    return interval_of(after - before - 0.5 * (taught - before))


def fewer(value: str, arm: str, than: str = PRIOR) -> study.Claim:
    return below(beyond(value, arm, than, 0.9), 0.0)


def more(value: str, arm: str, than: str = PRIOR) -> study.Claim:
    return above(beyond(value, arm, than, 1.1), 0.0)


SFT = NAMES[DIVERSE]
FEWER, MORE = (
    f"ends with {how} different %s behaviours in 256 answers than its prior, by over a tenth"
    for how in ("fewer", "more")
)
UNSEEN = "on held-out questions"
CLAIMS = {
    **{f"GRPO {FEWER % kind}": fewer(kind, GRPO) for kind in (RIGHT, WRONG)},
    f"{SFT} {MORE % RIGHT}": more(RIGHT, DIVERSE),
    f"{SFT} {FEWER % WRONG}": fewer(WRONG, DIVERSE),
    f"{NAMES[NARROW]} {FEWER % RIGHT}": fewer(RIGHT, NARROW),
    f"SFT then GRPO keeps over half of the right behaviours that {SFT} had added": above(kept, 0.0),
    **{
        f"{NAMES[arm]} ends with over twice GRPO's effective right behaviours": above(
            beyond(EFFECTIVE, arm, GRPO, 2.0), 0.0
        )
        for arm in (THEN, *DIVERSITY)
    },
    **{
        f"{NAMES[arm]} ends at most 0.02 less accurate than GRPO": above(
            beyond(ACCURACY, arm, GRPO), -0.02
        )
        for arm in DIVERSITY
    },
    "check: IPS by answer ends with GRPO's effective right behaviours, within 0.05": lambda records: (
        close(beyond(EFFECTIVE, world.BY_ANSWER, GRPO)(records), 0.0, 0.05)
    ),
    f"{UNSEEN} GRPO {FEWER % RIGHT}": fewer(HELD_OUT + RIGHT, GRPO),
    f"{UNSEEN} {SFT} {MORE % RIGHT}": more(HELD_OUT + RIGHT, DIVERSE),
    f"{UNSEEN} GRPO ends over 0.02 more accurate than its prior": above(
        beyond(HELD_OUT + ACCURACY, GRPO), 0.02
    ),
    f"{UNSEEN} GRPO ends over 0.02 more accurate than {SFT}": above(
        beyond(HELD_OUT + ACCURACY, GRPO, DIVERSE), 0.02
    ),
    f"{UNSEEN} GRPO's pass@64 ends over 0.02 below its prior's": below(
        beyond(HELD_OUT + "pass_64", GRPO), -0.02
    ),
    "placebo: SFT on diverse routes of its questions has over a tenth more right behaviours than on those of others": more(
        RIGHT, DIVERSE, world.SHIFTED
    ),
    "placebo: GRPO ends with over a tenth fewer right behaviours than with random rewards": fewer(
        RIGHT, GRPO, world.RANDOM
    ),
    "placebo: at the smallest rate GRPO ends with over a tenth fewer right behaviours than with random rewards": fewer(
        RIGHT, world.SLOW, world.SLOW_RANDOM
    ),
}
PASSES = {f"pass_{k}": f"pass@{k}" for k in TRIES} | {ACCURACY: "accuracy"}
SHOWN = {
    RIGHT: "different right behaviours",
    WRONG: "different wrong ones",
    EFFECTIVE: "effective right ones",
} | PASSES
PARTS = {"": "trained questions", HELD_OUT: "held-out questions"}
NUMBERS = {
    f"{shown}, {where}, {NAMES[arm]}": study.final(part + value, arm=arm)
    for part, where in PARTS.items()
    for value, shown in SHOWN.items()
    for arm in NAMES
}
TABLE = study.one_below_the_other(
    *(
        study.Table((*(part + value for value in SHOWN), "learning_rate"), where)
        for part, where in PARTS.items()
    )
)
PANELS = [
    Panel([Line(part + value, by="arm", where={"kind": KINDS[0]})], where, "updates", SHOWN[value])
    for part, where in PARTS.items()
    for value in (RIGHT, WRONG, EFFECTIVE, ACCURACY)
]
FIGURE = Panels(PANELS, (20, 8.5), columns=4)
