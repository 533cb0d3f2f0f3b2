"""Verdicts: what every objective does to the set of outcomes, in one word each.

Claim     Expected return, however it is clipped and normalised, loses all but one of several equally good outcomes, at
          t^-0.5; inverse probability scaling keeps them all, by a power of their rewards that nears 1 as groups grow;
          exact probabilities and trajectory balance keep them in proportion.
Paper     Theorems 3.1 and 4.1 of arXiv 2601.21669 for expected return and inverse probability scaling; for the others
          exact dynamics of the objectives' own code.
Command   python -m experiments.verdicts --document=docs/verdicts.md
Time      demo 3.5 to 10 minutes on two CPU cores by how fast they are, paper three times that; mostly compilation
Expected  exact, no seeds: most of the catalog is one row, that of GRPO, where the rarer of two right outcomes is lost
          as t^-0.5. Rewards 1, 0.6, 0.3 end at 0.58 : 0.32 : 0.10 under ips_grpo (G = 8; 0.54 : 0.32 : 0.14 at
          G = 16) and at 0.53 : 0.32 : 0.16 = r / sum(r) under exact probabilities and trajectory balance.
Smoke     python -m experiments.verdicts --preset=smoke
Figure    OUT/verdicts.png, .pdf and .csv, drawn by the same command; --resume judges only what OUT does not hold yet.

The Markdown is OUT/verdicts.md; `--document` writes it, and the figure, there as well. An objective that needs an
answer which the policy did not draw gets half of the group, and the best of the other half.
"""

import dataclasses
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from experiments.arenas import group_and_rule
from experiments.launch import Output, folder_name, launch, require_positive
from experiments.verdict_document import MEANINGS, Judgement, document, grouped, short_table, sides_of
from ipsrl import objectives, specifications
from ipsrl.dynamics.verdict import CASES, STARTS, Verdict, check, verdict
from ipsrl.figures import style
from ipsrl.figures import verdicts as figure
from ipsrl.training.json_files import read_json, replace_file
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder, is_complete

VARIANTS = (
    "grpo(kl=0.04)",
    "ips_grpo(kl=0.04)",
    "ips_grpo(alpha=0.5)",
    "ips_reinforce(probability=exact)",
    "progrpo(reference=correct)",
)
"""What `all` adds to the catalog's rows."""
SHOWN = (0, 2, 3, 6, 8, 9)
"""Which of `STARTS` are drawn: of either law the orders in which outcome 1, 2 and 3 leads, the others in line."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment; `all` is the whole catalog and some variants, `document` a path that ends in .md."""

    objectives: str = "all"
    group_size: int = 8
    document: str = ""

    def __post_init__(self):
        require_positive(self, "group_size")
        if self.document and Path(self.document).suffix != ".md":
            raise ValueError(f"--document={self.document} must end in .md: the figure goes beside it, as .png")


PRESETS = {
    "smoke": Settings(objectives="grpo,grpo(kl=0.04),ips_dr_grpo,maxrl", group_size=4),
    "demo": Settings(),
    "paper": Settings(group_size=16),
}


def run(settings: Settings, output: Output) -> None:
    chosen, left_out = chosen_objectives(settings)
    # What is judged may change from command to command: each objective has a folder and an identity of its own.
    with RunFolder.open(output.path, {"group_size": settings.group_size}, output.resume) as folder:
        judgements = [
            judge(name, settings.group_size, output, f"{number} of {len(chosen)}")
            for number, name in enumerate(chosen, start=1)
        ]
        rows = grouped(judgements)
        ends = [figure_row(row) for row in rows]
        shown = ends, CASES, np.array(STARTS)[list(SHOWN)]
        drawn = figure.draw(*shown, MEANINGS, settings.group_size)
        png = style.save(drawn, folder.path / "verdicts", figure.data(*shown))
        page = folder.path / "verdicts.md"
        usual = dataclasses.asdict(Settings())
        flags = [f"--{name}={v}" for name, v in dataclasses.asdict(settings).items() if v != usual[name]]
        command = shlex.join(["python", "-m", "experiments.verdicts", *flags])
        replace_file(page, document(rows, left_out, settings.group_size, command, png.name))
        folder.write_summary({"verdicts": {judged.objective: judged.word for judged in judgements}})
        if settings.document:
            page = Path(settings.document)
            page.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(png, page.with_suffix(".png"))
            beside = page.with_suffix(".png").name
            replace_file(page, document(rows, left_out, settings.group_size, command, beside))
        print(short_table(rows))
    print(f"document: {page}")
    print(f"figure: {png}")


def chosen_objectives(settings: Settings) -> tuple[list[str], dict[str, str]]:
    """The objectives to judge, `all` written out, and what of the catalog cannot be judged, with the reason.

    Raises:
      ValueError: one that is named cannot be judged.
    """
    chosen, left_out = {}, {}
    for item in specifications.split(settings.objectives):
        for name in (*objectives.names(), *VARIANTS) if item == "all" else (item,):
            reason = refusal(name, settings.group_size)
            if reason is None:
                chosen[name] = None
            elif item == "all":
                left_out[name] = reason
            else:
                raise ValueError(f"{name} cannot be judged: {reason}")
    return list(chosen), left_out


def refusal(name: str, group_size: int) -> str | None:
    """Why an objective cannot be judged; None where it can."""
    try:
        check(objectives.make(name), *group_and_rule(name, group_size))
    except ValueError as error:
        return str(error)
    return None


def judge(name: str, group_size: int, output: Output, place: str = "1 of 1") -> Judgement:
    """Judges an objective, or reads what an earlier command left in its folder of `output`; `place` is for display."""
    config = {"objective": name, "group_size": group_size}
    with RunFolder.open(output.path / folder_name(name), config, output.resume) as folder:
        if not is_complete(folder.path):
            with working(f"judging {name}, {place}"):
                judged = verdict(objectives.make(name), *group_and_rule(name, group_size))
            with MetricLog(folder.metrics_path) as log:
                log.truncate_after(-1)
                write_ends(log, judged)
            folder.write_summary(dataclasses.asdict(Judgement.of(name, judged)))
            print(f"judged {name}: {judged.word}", file=sys.stderr, flush=True)
            # Programs of an objective are of no use to the next one, and hundreds of them take gigabytes.
            jax.clear_caches()
        summary = read_json(folder.summary_path)
    return Judgement(**{field.name: summary[field.name] for field in dataclasses.fields(Judgement)})


def write_ends(log: MetricLog, judged: Verdict) -> None:
    """One record for each flow: start, end and exponents of the three outcomes, numbered from 1."""
    flows = [
        ({"reference": side, "rewards": name}, start, case.ends[number], case.exponents[number])
        for side, cases in sides_of(judged).items()
        for name, case in cases.items()
        for number, start in enumerate(STARTS)
    ]
    for number, (setting, *arrays) in enumerate(flows):
        columns = zip(("start", "end", "exponent"), arrays, strict=True)
        log.write(number, setting | {f"{what}_{i}": v for what, array in columns for i, v in enumerate(array, 1)})


def figure_row(row: Sequence[Judgement]) -> figure.Row:
    """The ends from `SHOWN` of objectives that do the same, one strip for each reference policy."""
    strips = {
        f"{side} reference" if len(row[0].laws) > 1 else "": {
            name: np.array(laws)[list(SHOWN)] for name, laws in cases.items()
        }
        for side, cases in row[0].laws.items()
    }
    return figure.Row(row[0].word, tuple(judged.objective for judged in row), strips)


if __name__ == "__main__":
    launch("verdicts", PRESETS, run)
