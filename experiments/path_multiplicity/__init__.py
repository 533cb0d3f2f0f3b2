"""Two equally good outcomes, one of which is reached by 35 paths and the other by 7: do paths decide what is kept?

Claim     GRPO ends on the outcome with more paths: true for plain gradient ascent, while under Adam noise decides in
          some seeds. Inverse probability scaling keeps both at equal shares, by counts and by exact probabilities.
          Exact ones must be those of the outcome: r / P(path), `backward=none`, aims at 35 : 7.
Paper     Section 6 of arXiv 2601.21669; the correction is that of arXiv 2106.04399. Our reading of the graph: lattice
          paths of 7 steps, of which 35 end in (3, 4) and 7 in (1, 6); all other ends pay nothing.
Arms      GRPO; IPS-GRPO by counts, by exact probabilities of the outcome, and by those of the path (placebo: the
          correction for paths is left out); trajectory balance. Each with 64 seeds, 4000 updates of plain gradient
          ascent at a rate of 0.5, with groups of 16, from uniform actions. --optimizer=adam --learning_rate=0.05 is a
          second run.
Command   python -m experiments.path_multiplicity
Time      demo one minute on two busy CPU cores, smoke half of it; paper, not run, an estimated twenty minutes.
Expected  Share of the outcome with more paths: grpo 0.980 [0.979, 0.981]; ips_grpo 0.498 [0.491, 0.504], with exact
          probabilities 0.500 +- 0.001, as trajectory_balance; with those of the path 0.833 +- 0.001, where it started.
          With --optimizer=adam --learning_rate=0.05 grpo is at 0.84 [0.76, 0.92], and the rest as before.
Doubt     The claim on GRPO is one on plain gradient ascent: by Adam noise decides in some seeds. One small graph in a
          table of logits, where states share nothing, one rate and two ends of equal reward. Kept means a share between
          0.1 and 0.9, which is ours.
Smoke     python -m experiments.path_multiplicity --preset=smoke

Policies are tables of logits that start with uniform actions; all numbers are exact for the policy of each seed.
"""

import dataclasses
import functools

import numpy as np

from experiments.path_multiplicity.seeds_layer import Seeds
from ipsrl import study
from ipsrl.checking.fields import at_least, between, positive
from ipsrl.environments.graphs.tree import Tree
from ipsrl.figures.layers import Level, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures import diversity
from ipsrl.policies.tabular import Tabular

FIVE = (
    "grpo",
    "ips_grpo",
    "ips_grpo(probability=exact)",
    "ips_grpo(probability=exact(backward=none))",
    "trajectory_balance",
)


@dataclasses.dataclass(frozen=True)
class Settings(study.EnsembleSettings):
    """`depth` is the length of the paths, `ends` says how far right the rewarded ends lie, first that of more paths."""

    objectives: tuple[str, ...] = study.objectives(FIVE)
    depth: int = between(1, 60, 7)
    ends: tuple[int, ...] = at_least(0, (3, 1))
    seeds: tuple[int, ...] = study.seeds(range(64), least=2)
    optimizer: str = "sgd"
    learning_rate: float = positive(0.5)
    steps: int = positive(4000)

    def __post_init__(self):
        super().__post_init__()
        if not (
            len(self.ends) == 2 and max(self.ends) <= self.depth and self.paths[0] > self.paths[1]
        ):
            raise ValueError(
                f"--ends={self.ends} must be two ends, of which more paths lead to the first"
            )

    @property
    def paths(self) -> np.ndarray:
        """`[2]`, the number of paths to each rewarded end."""
        return self.tree().path_counts()[list(self.ends)]

    def tree(self) -> Tree:
        return Tree(self.depth, 1, tuple(float(end in self.ends) for end in range(self.depth + 1)))


PRESETS = {
    "smoke": Settings(seeds=tuple(range(8)), steps=1000, record_every=500),
    "demo": Settings(),
    "paper": Settings(seeds=tuple(range(256)), steps=40_000, record_every=400),
}


def curves(settings: Settings) -> study.Curves:
    tree = settings.tree()
    measure = functools.partial(measures, ends=settings.ends)
    policy = Tabular.of(tree)
    for text in settings.objectives:
        yield study.trained(
            tree, policy, text, settings, measure=measure, optimizer=settings.optimizer
        )


def measures(probs: np.ndarray, ends: tuple[int, int]) -> dict[str, np.ndarray]:
    """Share of the first end, exp(H) of both shares, and probability of both, of distributions `[S, U, K]`."""
    both = probs[..., ends]
    reward = both.sum(axis=-1)
    shares = both / reward[..., None]
    effective = np.asarray(diversity.effective_outcomes_of_distribution(shares))
    return {"share": shares[..., 0], "effective_outcomes": effective, "reward": reward}


BOTH = 0.1**-0.1 * 0.9**-0.9
"""Effective outcomes exp(H) of shares 0.1 and 0.9."""
CLAIMS = {
    "GRPO ends on the outcome with more paths: its share is above 0.9 in over 0.9 of the runs": study.above(
        study.share_above("share", 0.9, objective="grpo"), 0.9
    ),
    "IPS-GRPO keeps both outcomes: the share is between 0.1 and 0.9 in over 0.9 of the runs": study.above(
        study.share_above("effective_outcomes", BOTH, objective="ips_grpo"), 0.9
    ),
}
HEADLINE = study.Headline(
    subject="Collapse as a dynamical system",
    claim="GRPO ends on the outcome with more paths; inverse probability scaling keeps both.",
    scope="lattice paths to two rewarded ends, a table of logits",
    decided_by=tuple(CLAIMS),
)
AXES = {"ylabel": "share of the outcome with more paths", "ylim": (-0.03, 1.03)}
PATHS = Level(lambda settings: settings.paths[0] / settings.paths.sum(), "as the paths")
ENDS = Panel([Seeds("share"), Level(0.5, "1 : 1, as the rewards"), PATHS], width=1.6, **AXES)
FIGURE = Panels([Panel([Line("share")], xlabel="updates", **AXES), ENDS], size=(12.5, 3.7))
