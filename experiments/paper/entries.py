"""The list: commands, what they should show, and what is not drawn. What an experiment does stands in its module."""

from experiments.paper import readings
from experiments.paper.entry import Entry


def _comparison(environment: str, shows: str, minutes: float) -> Entry:
    flag = {"environment": environment}
    return Entry(
        shows=f"every objective on {shows}: effective outcomes and reward",
        experiment="compare",
        figure="comparison",
        minutes=minutes,
        claim="inverse probability scaling keeps more outcomes than GRPO and a placebo, at a reward above the bar",
        holds=readings.beats_the_placebo,
        numbers=readings.outcomes_left,
        flags={"smoke": flag | {"objectives": "grpo,placebo,ips_grpo,darling"}, "demo": flag, "paper": flag},
    )


def _table_2(task: str, smoke: str, shows: str, minutes: float, grpo: float, scaled: float) -> Entry:
    return Entry(
        shows=f"Table 2, {shows}: recovery",
        experiment="hypospace",
        figure="hypospace",
        minutes=minutes,
        claim="IPS-GRPO recovers more than GRPO, at the same validity",
        holds=readings.recovers_more,
        numbers=readings.recoveries,
        paper={"GRPO": grpo, "IPS-GRPO": scaled},
        flags={"smoke": {"tasks": smoke}, "demo": {"tasks": task}, "paper": {"tasks": task}},
    )


OF_THE_PAPER = {
    "two_outcomes": Entry(
        shows="Theorems 3.1, 4.1: log-ratio of two outcomes",
        experiment="two_outcomes",
        figure="two_outcomes",
        minutes=0.1,
        claim="training follows the closed forms",
        holds=lambda summary: summary["agrees"],
        numbers=lambda summary: {
            "share of times outside 3 standard errors": max(summary["share_outside_3_standard_errors"].values())
        },
    ),
    "hypergrid": Entry(
        shows="Table 1, n = 2: mean error per cell",
        experiment="hypergrid",
        figure="hypergrid_laws",
        minutes=1,
        claim="GRPO ends on one mode, IPS-GRPO finds every cell and mode",
        holds=readings.finds_the_grid,
        numbers=readings.cell_errors(2),
        paper={"GRPO": 0.028, "IPS-GRPO": 0.003},
        flags={"paper": {"dimensions": "2"}},
    ),
    "hypergrid_4": Entry(
        shows="Table 1, n = 4: mean error per cell",
        experiment="hypergrid",
        figure="",
        minutes=1,
        claim="IPS-GRPO errs less than GRPO",
        holds=readings.fewer_errors,
        numbers=readings.cell_errors(4),
        paper={"GRPO": 5.2e-4, "IPS-GRPO": 3.7e-4},
        flags={
            "smoke": {"dimensions": "4", "side": "4"},
            "demo": {"dimensions": "4", "steps": "600", "seeds": "0:2", "hidden_size": "128"},
            "paper": {"dimensions": "4"},
        },
    ),
    "hypospace_boolean": _table_2(
        "hypospace_boolean(operators=full, depth=2)",
        "hypospace_boolean(operators=basic, depth=2)",
        "Boolean",
        7,
        grpo=0.095,
        scaled=0.6074,
    ),
    "hypospace_causal": _table_2(
        "hypospace_causal(nodes=4, perturbations=2)",
        "hypospace_causal(nodes=3, perturbations=1)",
        "causal",
        8,
        grpo=0.1602,
        scaled=0.4391,
    ),
    "hypospace_voxels": _table_2(
        "hypospace_voxels(blocks=2, fixed=True)",
        "hypospace_voxels(blocks=1, fixed=True)",
        "voxels",
        17,
        grpo=0.3161,
        scaled=0.9,
    ),
    "group_size_and_floor": Entry(
        shows="Table 4: recovery by group size and floor, causal",
        experiment="group_size_and_floor",
        figure="group_size_and_floor",
        minutes=7,
        claim="equal cells where floor <= 1/G",
        holds=lambda summary: summary["floors_up_to_1_over_G_agree"],
        numbers=readings.extreme_recoveries,
        paper={"lowest": 0.1763, "highest": 0.4391},
    ),
    "path_multiplicity": Entry(
        shows="Section 6: 35 against 7 paths to two outcomes",
        experiment="path_multiplicity",
        figure="path_multiplicity",
        minutes=1,
        claim="GRPO ends on the 35 paths, IPS-GRPO keeps both",
        holds=readings.keeps_both,
        numbers=readings.path_shares,
    ),
}

OF_OUR_OWN = {
    "verdicts": Entry(
        shows="what every objective does to the outcomes, in a word",
        experiment="verdicts",
        figure="verdicts",
        minutes=10,
        claim="GRPO collapses, IPS-GRPO rests in proportion to a power of the reward",
        holds=lambda summary: (
            (summary["verdicts"]["grpo"], summary["verdicts"]["ips_grpo"]) == ("collapses", "reward-proportional")
        ),
        numbers=readings.counted,
        flags={"smoke": {"objectives": "grpo,ips_grpo"}},
    ),
    "phase_portraits": Entry(
        shows="expected training as flows over three outcomes",
        experiment="phase_portraits",
        figure="phase_portraits",
        minutes=2,
        claim="of outcomes with rewards 1, 0.6, 0.3 GRPO keeps the best alone, IPS-GRPO rests within 0.1 of r / sum r",
        holds=readings.rests_inside,
        numbers=readings.best_at_rest,
    ),
    "survival_map": Entry(
        shows="where the weaker outcome survives, over group size and exponent",
        experiment="survival_map",
        figure="survival_map",
        minutes=1,
        claim="the border is alpha = ln rho / ln G, or ln(G - 1) with a group mean: 1 % of cells beyond it, or fewer",
        holds=readings.border_holds,
        numbers=readings.wrong_cells,
    ),
    "collapse_time": Entry(
        shows="how long a tie lasts without a baseline",
        experiment="collapse_time",
        figure="collapse_time",
        minutes=1,
        claim="in proportion to G; all intervals hold the exact times",
        holds=lambda summary: summary["sampled_agrees_with_exact"],
        numbers=readings.collapse_times,
    ),
    "recovery_time": Entry(
        shows="how long a lost outcome takes to return",
        experiment="recovery_time",
        figure="recovery_time",
        minutes=0.25,
        claim="as 1 / p by counts: within 10 % of the mean field from every start",
        holds=readings.near_the_mean_field,
        numbers=readings.recovery_times,
    ),
    "many_outcomes": Entry(
        shows="diversity kept where outcomes outnumber the group, as a share of K",
        experiment="many_outcomes",
        figure="many_outcomes",
        minutes=3,
        claim="exact probabilities restore it, counts hardly do; rates are the closed forms",
        holds=readings.exact_restores,
        numbers=readings.diversities,
    ),
    "comparison_bandit": _comparison("bandit", "a bandit", 3),
    "comparison_hypergrid": _comparison("hypergrid", "the hypergrid", 4),
    "comparison_hypospace": _comparison("hypospace_boolean", "HypoSpace, Boolean", 24),
    "countdown": Entry(
        shows="recovery on countdown",
        experiment="countdown",
        figure="countdown",
        minutes=5,
        claim="IPS-GRPO recovers more than GRPO, at the same validity",
        holds=readings.recovers_more,
        numbers=readings.recoveries,
    ),
}

ENTRIES = OF_THE_PAPER | OF_OUR_OWN

LEFT_OUT = {
    "FlowRL in Tables 1 and 2": "the objective is here: add flowrl to --objectives of the same commands",
    "Section 5.3, molecules": "no experiment here: it needs the scoring functions of drug design",
    "pass@k on math answers": "python -m experiments.math_answers needs a pretrained model and a data set",
}
"""What is not drawn, and why."""
