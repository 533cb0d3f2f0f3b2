"""The tables and figures of a comparison."""

from collections.abc import Sequence

from experiments.compare import figure, logged_weights
from experiments.compare.flags import (
    Kind,
    Settings,
    Size,
    chosen_objectives,
    is_log,
    kind_of,
    read_log,
)
from experiments.compare.ranking import Result, ranked
from experiments.compare.training import refused
from ipsrl.environments.group_log import MOST_PROMPTS
from ipsrl.figures.style import Drawing
from ipsrl.records.json_files import read_json
from ipsrl.records.tidy import Records
from ipsrl.study import catalog
from ipsrl.study.settings import as_text
from ipsrl.text_table import aligned

COLUMNS: dict[Kind, tuple[str, ...]] = {
    "log": ("survival", "tv_to_proportional"),
    "bandit": ("survival", "tv_to_proportional", "tv_to_uniform_best"),
    "graph": ("effective_best", "l1_to_proportional", "modes"),
    "text": ("recovery", "validity", "uniqueness"),
}
VERDICTS = catalog.root() / "docs" / "verdicts.json"


def title(results: Sequence[Result], settings: Settings) -> str:
    counts = {"objective": len(results), "seed": len(settings.seeds)}
    words = [f"{count} {word}{'s' * (count > 1)}" for word, count in counts.items()]
    return f"{settings.environment}: {words[0]}, mean over {words[1]}"


def table(records: Records, settings: Settings) -> str:
    """The table, in the order of the figure."""
    results, bar = ranked(records)
    columns = ("reward", "effective_outcomes", *COLUMNS[kind_of(settings.environment)])
    several = ("learning_rate",) if len(settings.learning_rates) > 1 else ()
    cells = [["", *(column.replace("_", " ") for column in (*columns, *several))]]
    for result in results:
        rates = [f"{rate:g}" for rate in result.records.distinct("learning_rate") if several]
        cells.append(
            [result.label, *(str(result.records.final(column)) for column in columns), *rates]
        )
    head, *rows = aligned(cells).split("\n")
    compared = sum(result.rank is not None for result in results)
    diverged = set(records.distinct("objective")) - {result.name for result in results}
    left_out = refused(settings) | dict.fromkeys(diverged, "training diverged")
    sizes = " ".join(f"--{name}={as_text(settings, name)}" for name in Size._fields)
    lines = [
        f"{settings.environment}: {sizes}",
        f"{title(results, settings)} [95 % interval]; reward as a share of the best possible one, that of "
        f"reward-proportional probabilities {records.column('proportional_reward')[0]:.3g}, bar {bar:.3g}",
        head,
        *rows[:compared],
        *(["below the bar:", *rows[compared:]] if rows[compared:] else []),
        *(f"left out: {text}: {reason}" for text, reason in left_out.items()),
        *(lines_of_log(settings) if is_log(settings.environment) else ()),
    ]
    return "\n".join(lines)


def lines_of_log(settings: Settings) -> list[str]:
    """How the objectives would have weighed the logged groups, beside their published verdicts."""
    log = read_log(settings.environment)
    words = {entry["objective"]: entry["word"] for entry in read_json(VERDICTS)["verdicts"]}
    choices = len(log.with_a_choice)
    return [
        "",
        f"above, {min(choices, MOST_PROMPTS)} of {choices} prompts with a choice, from the logged shares of outcomes; "
        "below, how objectives would have weighed the logged groups (docs/comparison.md)",
        logged_weights.table(log, chosen_objectives(settings.objectives), words),
    ]


def draw(records: Records, settings: Settings) -> Drawing:
    results, bar = ranked(records)
    return figure.draw(title(results, settings), results, bar)
