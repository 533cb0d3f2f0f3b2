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
Expected  Different right behaviours: prior 8.0, SFT diverse 19.9, narrow 1.2, GRPO 1.3, DARLING 4.5. SFT then GRPO ends
          below the prior, but above GRPO alone; IPS by answer is GRPO. So RL squeezes and SFT expands, but by what it
          shows: narrow SFT squeezes as GRPO does. Held out, GRPO finds fewer right behaviours and is more accurate,
          while diverse SFT finds more and is not. Random rewards squeeze most at GRPO's rate, by noise, and hardly at
          the smallest, where GRPO does.
Doubt     Counts of right behaviours grow with accuracy, wrong ones fall with it; the effective number does so less. The
          prior knows one route. The rate of most accuracy squeezes most. Questions share the asked chain only, so only
          that transfers; all seeds have one graph, none is new. SFT's 256 answers come from outside, 120 times each.
Smoke     python -m experiments.search_diversity --preset=smoke
"""

import dataclasses
import functools

import jax

from experiments.search_agents import tables
from experiments.search_diversity.agents import POLICY, prior, questions, taught
from experiments.search_diversity.counted_searches import HELD_OUT, counted_searches
from ipsrl import objectives, study
from ipsrl.checking.fields import any_of, positive
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.policies.policy import Parameters
from ipsrl.rewards import NoisyVerifier
from ipsrl.study.claims import above, below, near
from ipsrl.study.tuning import of_best

NAMES = {
    "prior": "the prior",
    "sft_diverse": "SFT on diverse demonstrations",
    "sft_narrow": "SFT on narrow demonstrations",
    "sft_shifted": "SFT on the routes of other questions",
    "grpo": "GRPO",
    "sft_then_grpo": "SFT then GRPO",
    "ips_by_answer": "IPS by answer",
    "ips_by_behaviour": "IPS by behaviour",
    "progrpo": "ProGRPO",
    "darling": "DARLING",
    "grpo_random": "GRPO with random rewards",
}
"""Arms -> what they are called."""
PRIOR, DIVERSE, NARROW, SHIFTED, GRPO, THEN, *OTHERS = NAMES
BY_ANSWER, BY_BEHAVIOUR, PROGRPO, DARLING, RANDOM = OTHERS
ROUTES = {DIVERSE: "all", NARROW: "chain", SHIFTED: "shifted"}
"""Arms that imitate -> which routes."""
REWARDED = {
    **dict.fromkeys((GRPO, THEN, RANDOM), "grpo(aggregation=constant_length)"),
    **dict.fromkeys((BY_ANSWER, BY_BEHAVIOUR), "ips_grpo(aggregation=constant_length)"),
    PROGRPO: "progrpo(reference=correct, aggregation=constant_length)",
    DARLING: "darling(aggregation=constant_length)",
}
"""Arms that are rewarded -> the objective.

All sum over tokens and divide by the longest answer's length, so that no length of a search is preferred.
"""
COUNT_BEHAVIOURS = (BY_BEHAVIOUR, DARLING)
"""Arms for which an outcome is a behaviour, and not an answer."""
DIVERSITY = (BY_BEHAVIOUR, PROGRPO, DARLING)
"""Arms that are to keep several behaviours."""
PLACEBOS = (SHIFTED, RANDOM)
"""Arms that are no suggestion of anyone."""
COIN = NoisyVerifier(0.5, 0.5)
"""Random rewards."""
RIGHT, WRONG, EFFECTIVE, ACCURACY = "right", "wrong", "effective", "pass_1"


@dataclasses.dataclass(frozen=True)
class Settings(tables.Settings):
    """SFT takes as many steps as RL; `demonstrations` are those to a question, `sft_rate` is their learning rate."""

    arms: tuple[str, ...] = study.selecting(any_of(NAMES))
    sft_rate: float = positive(64.0)
    demonstrations: int = positive(32)


PRESETS = {
    "smoke": Settings(arms=(DIVERSE, GRPO), demonstrations=4, **tables.SMOKE),
    "demo": Settings(),
    "paper": Settings(**tables.PAPER),
}


def curves(settings: Settings) -> study.Curves:
    for arm in settings.arms:
        rates = [{"learning_rate": rate} for rate in settings.learning_rates]
        for rate in rates if arm in REWARDED else [{}]:
            yield study.Curve({"arm": arm} | rate, functools.partial(points, arm, settings, **rate))


def points(arm: str, settings: Settings, learning_rate: float | None = None) -> study.Points:
    found = counted_searches(policies(arm, settings, learning_rate), settings.seeds)
    return study.Points(settings.records, found, settings.seeds)


def policies(arm: str, settings: Settings, learning_rate: float | None = None) -> Parameters:
    """The policies of an arm, leaves `[seed, record, ...]`; the prior has one record."""
    first = prior(settings.seeds)
    if arm == PRIOR:
        return jax.tree.map(lambda leaf: leaf[:, None], first)
    if arm in ROUTES:
        answers, rate = settings.demonstrations, settings.sft_rate
        length = settings.intervals, settings.steps_between
        return taught(ROUTES[arm], answers, settings.seeds, rate, *length)
    if arm == THEN:
        first = jax.tree.map(lambda leaf: leaf[:, -1], policies(DIVERSE, settings))
    task = questions(outcome="behaviour" if arm in COUNT_BEHAVIOURS else "answer")
    objective, reward = objectives.make(REWARDED[arm]), COIN if arm == RANDOM else None
    return tables.trained(task, POLICY, objective, first, learning_rate, settings, reward)


def end(value: str, arm: str) -> study.Number:
    """A value at the end, at the best learning rate of an arm that is rewarded."""
    return study.Best(study.final(value, arm=arm), ACCURACY)


def fewer(value: str, arm: str) -> study.Claim:
    return below(end(value, arm), 0.9 * end(value, PRIOR))


def more(value: str, arm: str, than: str = PRIOR) -> study.Claim:
    return above(end(value, arm), 1.1 * end(value, than))


# At the rate that a seed has for GRPO.
RANDOMLY_REWARDED = study.Best(study.final(RIGHT, arm=RANDOM), ACCURACY, judged_at={"arm": GRPO})
SMALLEST = min(Settings().learning_rates)
SFT = NAMES[DIVERSE]
IN_ANSWERS = "behaviours in 256 answers than its prior, by over a tenth"
FEWER_RIGHT = f"ends with fewer different right {IN_ANSWERS}"
MORE_RIGHT = f"ends with more different right {IN_ANSWERS}"
FEWER_WRONG = f"ends with fewer different wrong {IN_ANSWERS}"
PAPERS = {
    f"GRPO {FEWER_RIGHT}": fewer(RIGHT, GRPO),
    f"GRPO {FEWER_WRONG}": fewer(WRONG, GRPO),
    f"{SFT} {MORE_RIGHT}": more(RIGHT, DIVERSE),
}
CLAIMS = PAPERS | {
    f"{SFT} {FEWER_WRONG}": fewer(WRONG, DIVERSE),
    f"{NAMES[NARROW]} {FEWER_RIGHT}": fewer(RIGHT, NARROW),
    f"SFT then GRPO keeps over half of the right behaviours that {SFT} had added": above(
        end(RIGHT, THEN), 0.5 * (end(RIGHT, PRIOR) + end(RIGHT, DIVERSE))
    ),
    **{
        f"{NAMES[arm]} ends with over twice GRPO's effective right behaviours": above(
            end(EFFECTIVE, arm), 2.0 * end(EFFECTIVE, GRPO)
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
        end(RIGHT, GRPO), 0.9 * RANDOMLY_REWARDED
    ),
    "placebo: at the smallest rate GRPO ends with over a tenth fewer right behaviours"
    " than with random rewards": below(
        study.final(RIGHT, arm=GRPO, learning_rate=SMALLEST),
        0.9 * study.final(RIGHT, arm=RANDOM, learning_rate=SMALLEST),
    ),
}
HEADLINE = study.Headline(
    subject="Agents that search or talk",
    claim=(
        "Reinforcement learning lowers the number of different behaviours; diverse "
        "demonstrations raise that of right ones."
    ),
    scope="a search agent on knowledge graphs, tables of logits",
    decided_by=tuple(PAPERS),
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
