"""Where does the weaker of two outcomes survive inverse probability scaling by counts? Over group size and exponent.

Claim     A finite group caps the weight of a rare outcome. With rewards r_1 > r_2 and rho = r_1 / r_2, the weaker one
          survives without a baseline iff alpha > ln rho / ln min(G, 1/floor); with a group mean, or a group mean and
          std, iff alpha > ln rho / ln(G - 1) (floor <= 1/G): the baseline costs one sample.
Paper     The rule is Algorithm 1 of arXiv 2601.21669, alpha its exponent; the borders are derived, not the paper's.
Command   python -m experiments.survival_map
Time      on two busy CPU cores smoke and demo under one minute, paper three: 1.15e9 updates, all as one program.
Expected  demo, 32 seeds in each cell: none of 156 cells of each rule is on the wrong side of the border; with a
          threshold of 0.0033 none either, of 0.03 there are 3, 2 and 1. Mean p_2 within 0.04 of the mean field's
          rest everywhere, 0.0004 in the median. With the std p_2 jumps with alpha and G: only signs count there.
          paper, 32 seeds, of 600 cells: 4, 4 and 0, none by more than 0.02 in alpha; 0, 1 and 0 with 0.0033; 19, 16
          and 6 with 0.03.
Smoke     python -m experiments.survival_map --preset=smoke
Figure    OUT/survival_map.png, .pdf and .csv, drawn by the same command; --resume computes all of it again.

A run survives if p_2, on average over the last half of its updates, is above `threshold`. A dying outcome falls as
p_2 = 1 / (c t) with c = 2 (r_1 omega(G) - r_2 omega(1)) without a baseline, t = updates x step size: it is below the
threshold in the end unless it is within c < 1.4 / (threshold t) of the border; the law at rest of a surviving one rises
from 0 at the border. So the map is blurred near the border, by what the table says for a threshold of a third and of
three times as much.
"""

import dataclasses
import math
import sys
import time

import numpy as np

from experiments.launch import Output, launch, read_numbers, read_seeds, require_positive
from experiments.two_outcome_rules import OBJECTIVES, require_ordered_rewards, require_rising_groups
from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics.finite_groups import Rule, count_weights
from ipsrl.dynamics.survival import critical_alpha, stationary_law
from ipsrl.dynamics.two_outcome_training import Cell, train
from ipsrl.figures import style
from ipsrl.figures import survival_map as figure
from ipsrl.measures.seeds import mean_over_seeds
from ipsrl.training.metric_log import MetricLog
from ipsrl.training.progress_line import working
from ipsrl.training.run_folder import RunFolder

RECORDS = 20
"""Intervals in which p_2 is averaged."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Flags of the experiment: `alphas` exponents from `lowest_alpha` to `highest_alpha`; the better reward first."""

    rewards: str = "4.0,1.0"
    group_sizes: str = "2,3,4,5,6,8,11,16,23,32,45,64"
    lowest_alpha: float = 0.0
    highest_alpha: float = 2.0
    alphas: int = 13
    floor: float = 0.0
    seeds: str = "0:32"
    step_size: float = 0.05
    steps: int = 20000
    threshold: float = 0.01

    def __post_init__(self):
        require_positive(self, "step_size", "steps")
        if self.steps % RECORDS:
            raise ValueError(f"--steps is {self.steps}, it must be a multiple of {RECORDS}")
        if not 0 < self.threshold < 1:
            raise ValueError(f"--threshold is {self.threshold}, it is a probability and must lie between 0 and 1")
        if not 0 <= self.floor < 1:
            raise ValueError(f"--floor is {self.floor}, it is a share of the group: 0 (none) or more, and less than 1")
        require_ordered_rewards(self.rewards)
        require_rising_groups(self.group_sizes)
        if len(read_numbers(self.group_sizes, int)) < 2:
            raise ValueError(f"--group_sizes={self.group_sizes} must be two or more, for a map")
        if self.alphas < 2 or not 0 <= self.lowest_alpha < self.highest_alpha < math.inf:
            raise ValueError("--alphas must be at least 2, and they must rise from 0 or more to a finite number")
        read_seeds(self.seeds)


PRESETS = {
    "smoke": Settings(group_sizes="2,4,8,16", alphas=5, seeds="0:4", steps=4000),
    "demo": Settings(),
    "paper": Settings(group_sizes="2,3,4,5,6,7,8,9,10,11,12,14,16,18,20,23,26,29,32,37,42,48,56,64", alphas=25),
}


@dataclasses.dataclass(frozen=True)
class Map:
    """One rule: n exponents, m group sizes, S seeds.

    Attributes:
      group_sizes: `[m]`, rising.
      alphas: `[n]`, rising.
      second: `[n, m, S]`, p_2 of each run, averaged over the end of training.
      critical_alpha: `[m]`, above which the weaker outcome survives; inf where it never does.
    """

    rule: Rule
    group_sizes: np.ndarray
    alphas: np.ndarray
    second: np.ndarray
    critical_alpha: np.ndarray

    def above(self) -> np.ndarray:
        """`[n, m]` bool, cells in which the weaker outcome survives by the closed form."""
        return self.alphas[:, None] > self.critical_alpha

    def share(self, threshold: float) -> np.ndarray:
        """`[n, m]`, share of seeds in which the weaker outcome survives."""
        return (self.second > threshold).mean(axis=-1)

    def wrong(self, threshold: float) -> np.ndarray:
        """`[n, m]` bool, cells in which most seeds end on the other side of the border; cells on it are on no side."""
        on_border = np.isclose(self.alphas[:, None], self.critical_alpha)
        return ((self.share(threshold) > 0.5) != self.above()) & ~on_border


def run(settings: Settings, output: Output) -> None:
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        maps = trained_maps(settings)
        rests = [at_rest(trained, settings) for trained in maps]
        with MetricLog(folder.metrics_path) as log:
            log.truncate_after(-1)
            for trained, rest in zip(maps, rests, strict=True):
                write(log, trained, rest, settings)
        rows = {trained.rule: compared(trained, rest, settings) for trained, rest in zip(maps, rests, strict=True)}
        print(table(rows, settings))
        panels = [panel(trained, settings) for trained in maps]
        rewards = read_numbers(settings.rewards, count=2)
        seeds = len(read_seeds(settings.seeds))
        length = f"{seeds} seeds in each cell, {settings.steps:,} updates of size {settings.step_size:g}"
        caption = figure.caption(rewards, settings.threshold, length)
        drawn = figure.draw(panels, rewards)
        png = style.save(drawn, folder.path / "survival_map", figure.data(panels), caption)
        folder.write_summary({"rules": rows})
        print(f"figure: {png}")


def trained_maps(settings: Settings) -> list[Map]:
    """All cells of all rules, trained as one program."""
    rewards, seeds = read_numbers(settings.rewards, count=2), read_seeds(settings.seeds)
    alphas = np.linspace(settings.lowest_alpha, settings.highest_alpha, settings.alphas)
    group_sizes = np.array(read_numbers(settings.group_sizes, int))
    cells = [
        Cell(
            objectives.make(f"{name}(alpha={float(alpha)}, floor={settings.floor})"),
            rewards,
            int(size),
            settings.step_size,
        )
        for name in OBJECTIVES.values()
        for alpha in alphas
        for size in group_sizes
    ]
    begin, runs = time.monotonic(), len(cells) * len(seeds)
    with working(f"training {runs} runs of {settings.steps} updates as one program"):
        records = train(cells, seeds, settings.steps, settings.steps // RECORDS, make_mesh())
    seconds = time.monotonic() - begin
    if not np.isfinite(records.log_ratio).all():
        raise ValueError("some runs left float32: take a smaller --step_size, --highest_alpha or --rewards")
    print(f"trained {runs} runs of {settings.steps} updates in {seconds:.0f} s", file=sys.stderr)
    end = records.second[..., RECORDS // 2 :].mean(axis=-1, dtype=np.float64)
    by_rule = end.reshape(len(OBJECTIVES), len(alphas), len(group_sizes), len(seeds))
    return [
        Map(rule, group_sizes, alphas, second, border(rule, group_sizes, settings))
        for rule, second in zip(OBJECTIVES, by_rule, strict=True)
    ]


def panel(trained: Map, settings: Settings) -> figure.Panel:
    """What is drawn of a map."""
    every_size = np.arange(trained.group_sizes[0], trained.group_sizes[-1] + 1)
    return figure.Panel(
        rule=trained.rule,
        formula=formula(trained.rule, settings.floor),
        group_sizes=trained.group_sizes,
        alphas=trained.alphas,
        survival=trained.share(settings.threshold),
        probability=trained.second.mean(axis=-1),
        wrong=trained.wrong(settings.threshold),
        border=np.array([every_size, border(trained.rule, every_size, settings)]),
    )


def border(rule: Rule, group_sizes: np.ndarray, settings: Settings) -> np.ndarray:
    """The critical alpha for each group size."""
    better, worse = read_numbers(settings.rewards, count=2)
    return np.array([critical_alpha(better / worse, int(size), rule, settings.floor) for size in group_sizes])


def formula(rule: Rule, floor: float) -> str:
    """Of the border, in symbols."""
    if rule == "no baseline":
        return "α > ln ρ / ln min(G, 1/floor)" if floor else "α > ln ρ / ln G"
    return "α > ln ρ / ln min(G−1, (1−1/G)/floor)" if floor else "α > ln ρ / ln(G−1)"


def write(log: MetricLog, trained: Map, rest: np.ndarray, settings: Settings) -> None:
    """One line for each cell."""
    share, second = trained.share(settings.threshold), mean_over_seeds(np.moveaxis(trained.second, -1, 0))
    for row, column in np.ndindex(share.shape):
        log.write(
            settings.steps,
            {
                "rule": trained.rule,
                "group_size": int(trained.group_sizes[column]),
                "alpha": float(trained.alphas[row]),
                "critical_alpha": float(trained.critical_alpha[column]),
                "survival": float(share[row, column]),
                "second": float(second.mean[row, column]),
                "second_low": float(second.low[row, column]),
                "second_high": float(second.high[row, column]),
                "second_at_rest": float(rest[row, column]),
            },
        )


def at_rest(trained: Map, settings: Settings) -> np.ndarray:
    """`[n, m]`, p_2 of the law at which the mean field rests; 0 where the weaker outcome dies out."""
    rewards, rest = np.array(read_numbers(settings.rewards, count=2)), np.zeros(trained.second.shape[:2])
    for row, column in np.argwhere(trained.above()):
        weights = count_weights(int(trained.group_sizes[column]), float(trained.alphas[row]), settings.floor)
        rest[row, column] = stationary_law(rewards, weights, trained.rule)[1]
    return rest


def compared(trained: Map, rest: np.ndarray, settings: Settings) -> dict:
    """How far the map and the closed forms are apart.

    `beyond_border` is the distance in alpha of the farthest cell on the wrong side; `undecided` the share of runs that
    a threshold of a third or of three times as much might call otherwise.
    """
    threshold = settings.threshold
    wrong = trained.wrong(threshold)
    distance = np.abs(trained.alphas[:, None] - trained.critical_alpha)
    off = np.abs(trained.second.mean(axis=-1) - rest)
    return {
        "cells": wrong.size,
        "wrong_cells": int(wrong.sum()),
        "wrong_share": float(wrong.mean()),
        "beyond_border": float(distance[wrong].max(initial=0.0)),
        "dead_above_border": int((wrong & trained.above()).sum()),
        "wrong_cells_at_a_third": int(trained.wrong(threshold / 3).sum()),
        "wrong_cells_at_three_times": int(trained.wrong(threshold * 3).sum()),
        "undecided": float(np.mean((trained.second > threshold / 3) & (trained.second <= 3 * threshold))),
        "off_law_at_rest_median": float(np.median(off)),
        "off_law_at_rest_most": float(off.max()),
    }


def table(rows: dict[Rule, dict], settings: Settings) -> str:
    """The results as text."""
    low, high = settings.threshold / 3, settings.threshold * 3
    cells, lines = next(iter(rows.values()))["cells"], []
    for rule, row in rows.items():
        wrong = f"{row['wrong_cells']} ({row['wrong_share']:.1%}), farthest {row['beyond_border']:.2f}"
        others = f"{row['wrong_cells_at_a_third']}, {row['wrong_cells_at_three_times']}"
        off = f"{row['off_law_at_rest_median']:.4f}, {row['off_law_at_rest_most']:.4f}"
        lines.append(f"{rule:20s}  {wrong:26s}  {others:27s}  {off}")
    return "\n".join(
        [
            f"rewards {settings.rewards}, {cells} cells for each rule, {len(read_seeds(settings.seeds))} seeds, "
            f"{settings.steps} updates of size {settings.step_size:g}; survival: mean p_2 > {settings.threshold:g}",
            f"{'rule':20s}  {'cells on the wrong side of':26s}  {f'... if p_2 > {low:.2g}, {high:.2g}':27s}  "
            "mean p_2 off the mean field's",
            f"{'':20s}  {'the border, by alpha':26s}  {'':27s}  rest: median, most",
            *lines,
        ]
    )


if __name__ == "__main__":
    launch("survival_map", PRESETS, run)
