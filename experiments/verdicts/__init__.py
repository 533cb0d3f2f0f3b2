"""Verdicts: what every objective does to the set of outcomes, in one word each.

Claim     Expected return, however it is clipped and normalised, loses all but one of several equally good outcomes, at
          t^-0.5; inverse probability scaling keeps them all, by a power of their rewards; exact probabilities and
          trajectory balance keep them in proportion.
Paper     Theorems 3.1 and 4.1 of arXiv 2601.21669 for expected return and inverse probability scaling; for the others
          exact dynamics of the objectives' own code.
Arms      All objectives of the catalog whose expected update on three outcomes can be computed exactly, and six
          variants, in groups of 8. Each is followed from twelve starts for four vectors of rewards, with a uniform and
          a skewed reference, then beside another prompt, and on walks of which two end in one outcome. There is no
          sampling, no seed and no optimiser: paths are flows, or plain steps of 0.25 where a flow is not smooth.
Command   python -m experiments.verdicts --document=docs/verdicts.md
          and, for one row of that page in a minute, the same with --only=NAME
Time      demo half an hour of CPU time, shared by all cores, most for walks and for four steps; paper, not run, hours.
Expected  Exact, without seeds. Most of the catalog is one row, that of GRPO, where the rarer of two right outcomes is
          lost as t to the power -0.5. Three graded rewards end at 0.58 : 0.32 : 0.10 under ips_grpo, and in proportion
          under exact probabilities and trajectory balance. On walks of two moves counts share outcomes alike, entropies
          and KL divergences their walks, twice as much for two.
Doubt     A word is a summary of flows in tables of three logits: noise, shared parameters and long steps play no part,
          and clips none while each batch is used once (those that may act are followed for several steps on a batch).
          The two claims are of two objectives; other words of the table decide nothing. Another group size moves where
          counts rest.
Smoke     python -m experiments.verdicts --preset=smoke

The Markdown is OUT/verdicts.md; `--document` writes it, and the figure, there as well, and beside it as JSON what it is
made of, so that `--only` can replace a part. An objective that needs an answer which the policy did not sample gets
half of the group, and the best of the other half.
"""

import dataclasses
import functools
import shlex
import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from experiments.verdicts import figure as figure
from experiments.verdicts import verdict_page
from experiments.verdicts.another_prompt import beside_another
from experiments.verdicts.verdict_page import SEVERAL, PublishedVerdict, grouped
from ipsrl import objectives, study
from ipsrl.checking.fields import between
from ipsrl.command import extensions
from ipsrl.distributed.cpu_processes import cpu_processes
from ipsrl.distributed.start_up import cores, start_up
from ipsrl.dynamics.cases import CASES
from ipsrl.dynamics.expected_update import LARGEST_GROUP_OF_THREE
from ipsrl.dynamics.verdict import MEANINGS, check, verdict
from ipsrl.figures.style import Drawing
from ipsrl.records.json_files import replace_file
from ipsrl.records.tidy import NotRecorded, Record, Records
from ipsrl.rollouts.sources.refinements import spend_samples
from ipsrl.study.settings import as_text
from ipsrl.text_table import aligned

ADDED = (
    "grpo(kl=0.04)",
    "ips_grpo(kl=0.04)",
    "ips_grpo(alpha=0.5)",
    "ips_reinforce(probability=exact)",
    "progrpo(reference=correct)",
    "rep_exp(features=outcome)",
)
"""Variants that `all` adds to the catalog's rows."""
ENOUGH_FOR_PROCESSES = 8
"""Objectives from which on each core computes its own: to start a process takes seconds."""


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """In `objectives`, `all` is the whole catalog and some variants; `document` is a path that ends in .md.

    `only` are objectives that are computed instead, for the page that `document` names.
    """

    objectives: tuple[str, ...] = study.selecting(study.objectives(("all",), also=("all",)))
    only: tuple[str, ...] = study.selecting(study.objectives(()))
    group_size: int = between(1, LARGEST_GROUP_OF_THREE, 8)
    document: str = study.document(".md", ": the figure goes beside it, as .png")

    def __post_init__(self):
        super().__post_init__()
        if self.only and not self.document:
            raise ValueError("--only updates a page: name it by --document, or use --objectives")

    @property
    def data(self) -> Path:
        """The data file of the page."""
        return Path(self.document).with_suffix(".json")


PRESETS = {
    "smoke": Settings(objectives=("grpo", "grpo(kl=0.04)", "ips_dr_grpo", "maxrl"), group_size=4),
    "demo": Settings(),
    "paper": Settings(group_size=16),
}


def curves(settings: Settings) -> study.Curves:
    if settings.only:
        verdict_page.read(settings.data, settings.group_size)
    chosen, _ = chosen_objectives(settings.only or settings.objectives, settings.group_size)
    results: dict[str, Future] = {}

    def points(name: str) -> study.Points:
        if len(chosen) < ENOUGH_FOR_PROCESSES:
            return flows(name, settings.group_size)
        if not results:
            pool = cpu_processes(cores())
            # Those before are read from the folder.
            for later in chosen[chosen.index(name) :]:
                results[later] = pool.schedule(flows, (later, settings.group_size))
        return results[name].result()

    for name in chosen:
        yield study.Curve({"objective": name}, functools.partial(points, name))


def chosen_objectives(listed: Sequence[str], group_size: int) -> tuple[list[str], dict[str, str]]:
    """The objectives that get a verdict, with `all` expanded, and the reasons why others of the catalog can have none.

    Raises:
      ValueError: one that is named can have no verdict.
    """
    chosen, left_out = {}, {}
    for item in listed:
        for name in (*objectives.names(), *ADDED) if item == "all" else (item,):
            reason = refusal(name, group_size)
            if reason is None:
                chosen[name] = None
            elif item == "all":
                left_out[name] = reason
            else:
                raise ValueError(f"{name} has no verdict: {reason}")
    return list(chosen), left_out


def refusal(name: str, group_size: int) -> str | None:
    """Why an objective can have no verdict; None if it can."""
    try:
        made = objectives.make(name)
        check(made, *spend_samples(made, group_size))
    except ValueError as error:
        return str(error)
    return None


def flows(name: str, group_size: int) -> study.Points:
    """One point for each flow, numbered by reference policy, rewards and start."""
    # In a process of its own nothing has set the cache of compiled programs.
    start_up()
    extensions.load()
    records = computed_flows(name, group_size)
    return study.Points.of_runs(range(len(records)), [records])


def computed_flows(name: str, group_size: int) -> list[Record]:
    made = objectives.make(name)
    groups = spend_samples(made, group_size)
    found = verdict(made, *groups)
    several = verdict(made, *groups, SEVERAL) if found.unseen else None
    return verdict_page.records_of(
        found, beside_another(made, *groups), verdict(made, *groups, walks=True), several
    )


def computed(records: Records) -> list[PublishedVerdict]:
    return [
        PublishedVerdict.of(labels["objective"], rows) for labels, rows in records.each("objective")
    ]


def rows_of(records: Records, settings: Settings) -> list[list[PublishedVerdict]]:
    """Groups of objectives with equal results; with --only, those of the page with the new ones replaced."""
    entries = {entry.objective: entry for entry in computed(records)}
    if settings.only:
        published = verdict_page.read(settings.data, settings.group_size)
        kept = {entry.objective: entry for entry in published} | entries
        entries = {
            name: kept[name]
            for name in dict.fromkeys((*objectives.names(), *ADDED, *kept))
            # What the catalog no longer has is dropped.
            if name in kept and refusal(name, settings.group_size) is None
        }
    return grouped(list(entries.values()))


def TABLE(records: Records, settings: Settings) -> str:
    """One line for each row, for a uniform reference policy."""
    heads = (f"{name} {verdict_page.numbers(rewards)}" for name, rewards in CASES.items())
    lines = [("verdict", "objectives", *heads)]
    for first, *more in rows_of(records, settings):
        texts = [
            text.partition(": 0.")[0] if "start" in text else text
            for text in first.texts["uniform"].values()
        ]
        others = f" and {len(more)} more" if more else ""
        lines.append((first.word, first.objective + others, *texts))
    entries = computed(records) if settings.only else []
    own = [f"{entry.objective}: {entry.word}, {entry.evidence}" for entry in entries]
    return "\n".join([aligned(lines), *own])


def FIGURE(records: Records, settings: Settings) -> Drawing:
    return figure.draw(rows_of(records, settings), settings.group_size)


def documents(records: Records, settings: Settings, png: Path) -> list[Path]:
    """Writes the page to the folder of the results, and to --document."""
    rows = rows_of(records, settings)
    _, left_out = chosen_objectives(
        ("all",) if settings.only else settings.objectives, settings.group_size
    )
    usual = Settings()
    flags = [
        f"--{name}={as_text(settings, name)}"
        for name in ("objectives", "group_size", "document")
        if getattr(settings, name) != getattr(usual, name)
    ]
    command = shlex.join(["python", "-m", "experiments.verdicts", *flags])
    paths = [png.with_suffix(".md"), *([Path(settings.document)] if settings.document else [])]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.with_suffix(".png") != png:
            shutil.copyfile(png, path.with_suffix(".png"))
            verdict_page.write(
                settings.data, [entry for row in rows for entry in row], settings.group_size
            )
        figure_name = path.with_suffix(".png").name
        replace_file(
            path, verdict_page.document(rows, left_out, settings.group_size, command, figure_name)
        )
    return paths[-1:]


def counted(word: str, records: Records) -> int:
    """The number of objectives with a word."""
    if word not in records.distinct("word"):
        raise NotRecorded(f"nothing is {word}")
    return len(records.where(word=word).distinct("objective"))


def gets(objective: str, word: str) -> study.Claim:
    """An objective has a word."""
    share = study.Computed(
        f"share of {word}",
        lambda records: np.mean(records.column("word") == word),
        {"objective": objective},
    )
    return study.above(share, 0.5)


CLAIMS = {
    "GRPO collapses": gets("grpo", "collapses"),
    "IPS-GRPO rests in proportion to a power of the reward": gets(
        "ips_grpo", "reward-proportional"
    ),
}
HEADLINE = study.Headline(
    subject="Collapse as a dynamical system",
    claim=(
        "GRPO loses all but one of equally good outcomes; inverse probability scaling keeps "
        "all, by a power of their rewards."
    ),
    scope="three outcomes, exact expected training in groups of 8",
    decided_by=tuple(CLAIMS),
)
NUMBERS = {
    word: study.Computed(f"objectives that are {word}", functools.partial(counted, word))
    for word in MEANINGS
}
VARIANTS = {
    "verdicts": study.Variant(
        "what every objective does to the outcomes, in a word", {"smoke": {"objectives": "grpo"}}
    )
}
