"""ModeBench's own table, with IPS-GRPO in it: which right answers are left where problems have many?

Claim     MaxRL, UCPO, GAPO and SetPO, made for diversity, keep more of the right answers than GRPO; inverse
          probability scaling keeps most, at the same accuracy, and on problems that are held out as well.
Paper     ModeBench, arXiv 2610.11064: five domains, PCMD (do two right answers differ?) beside accuracy, from its code;
          that it compares these rivals, and not IPS-GRPO (2601.21669), is known at second hand. Its models are language
          models of 0.5 to 14 billion parameters; here are small transformers from scratch, in a compact language, so
          its numbers are not set beside these. The claims and margins are ours, set after a trial of GRPO and IPS-GRPO
          with another seed.
Arms      Graph colouring (level 1: 6 vertices, 3 of them without a color, 2 to 18 right answers) and factors (a
          divisor of each of 4 numbers, 16 to 128). The prior is taught on 512 other problems, 60 % right answers,
          mostly small numbers; then 100 updates of 8 problems with 16 answers, of 384, by Adam, at one learning rate
          for all. Placebo: the weights of IPS, permuted among the right answers. PCMD is ModeBench's estimate from
          pairs, over problems with two right answers or more among 32, on 128 problems of training and 128 held out.
Command   python -m experiments.mode_bench
Time      demo six CPU minutes beside other work, smoke 25 CPU seconds.
Expected  PCMD on training problems at the end. Colouring: GRPO 0.28 [0.23, 0.34], MaxRL 0.48, IPS-GRPO 0.57; factors:
          GRPO and MaxRL below 0.05, IPS-GRPO 0.80 [0.79, 0.81]. UCPO, GAPO and SetPO keep little more than GRPO;
          IPS-GRPO keeps most, for a loss of accuracy in factors. Held out it is alike. In factors pass@32 stays at its
          ceiling whatever is lost.
Doubt     One prior and one learning rate, five seeds. What an objective loses is hardly a matter of its step: GRPO
          passes the accuracy of IPS-GRPO in factors at its 20th update, with a PCMD of 0.18 (one seed,
          --evaluate_every=5). The problems, and levels above 2, are ours.
Smoke     python -m experiments.mode_bench --preset=smoke
"""

import dataclasses

from experiments.mode_bench.several_answers import SeveralAnswers
from ipsrl import study
from ipsrl.checking.fields import at_least, between, one_of, positive
from ipsrl.environments.tasks.mode_bench import LEVELS, mode_bench
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels

NAMES = {
    "grpo": "GRPO",
    "maxrl": "MaxRL",
    "ucpo": "UCPO",
    "gapo": "GAPO",
    "setpo": "SetPO",
    "ips_grpo": "IPS-GRPO",
    "placebo": "the placebo",
}
GRPO, *RIVALS, IPS, PLACEBO = NAMES
DOMAINS = {"graph_coloring": "graph colouring", "factors": "factors"}


@dataclasses.dataclass(frozen=True)
class Settings(study.SmallTransformers):
    """`taught` problems teach the prior; `answers` are those to each problem at an evaluation."""

    domains: tuple[str, ...] = study.selecting(one_of(*LEVELS, default=tuple(DOMAINS)))
    objectives: tuple[str, ...] = study.objectives(tuple(NAMES))
    seeds: tuple[int, ...] = study.seeds(range(100, 105), least=2)
    level: int = between(1, 5, 1)
    hidden_size: int = positive(32)
    num_layers: int = positive(2)
    taught: int = positive(512)
    prior_steps: int = positive(800)
    steps: int = positive(100)
    evaluate_every: int = positive(50)
    prompts_per_step: int = positive(8)
    group_size: int = at_least(2, 16)
    learning_rate: float = positive(1e-3)
    answers: int = at_least(2, 32)


PRESETS = {
    "smoke": Settings(
        domains=("factors",),
        objectives=(IPS,),
        seeds=(0, 1),
        hidden_size=16,
        num_layers=1,
        taught=32,
        prior_steps=10,
        steps=2,
        evaluate_every=1,
        prompts_per_step=4,
        group_size=4,
        answers=8,
    ),
    "demo": Settings(),
}


def curves(settings: Settings) -> study.Curves:
    for domain in settings.domains:
        task = mode_bench(domain, settings.level)
        world = SeveralAnswers(
            task,
            settings.transformer(task),
            settings.taught,
            settings.prior_steps,
            settings.training(),
            settings.answers,
        )
        for objective in settings.objectives:
            yield world.curve(objective, settings.seeds, domain)


def claims_on(domain: str) -> dict[str, study.Claim]:
    on = DOMAINS[domain]

    def end(value: str, objective: str, **labels: int) -> study.Number:
        return study.final(value, domain=domain, objective=objective, **labels)

    def above(value: str, objective: str, than: str, by: float) -> study.Claim:
        return study.above(end(value, objective), end(value, than), by)

    return {
        f"{on}: GRPO ends with a PCMD over 0.1 below its prior's": study.below(
            end("pcmd", GRPO), end("pcmd", GRPO, step=0), 0.1
        ),
        **{
            f"{on}: {NAMES[arm]} ends with a PCMD over 0.05 above GRPO's": above(
                "pcmd", arm, GRPO, 0.05
            )
            for arm in (*RIVALS, IPS)
        },
        **{
            f"{on}: IPS-GRPO ends with a PCMD over 0.05 above {NAMES[rival]}'s": above(
                "pcmd", IPS, rival, 0.05
            )
            for rival in RIVALS
        },
        f"{on}: IPS-GRPO ends at most 0.05 less accurate than GRPO": above(
            "pass_1", IPS, GRPO, -0.05
        ),
        f"{on}, held out: IPS-GRPO ends with a PCMD over 0.05 above GRPO's": above(
            "held_out_pcmd", IPS, GRPO, 0.05
        ),
        f"{on}, held out: IPS-GRPO ends with a pass@32 over 0.02 above GRPO's": above(
            "held_out_pass_32", IPS, GRPO, 0.02
        ),
        f"placebo: {on}: permuted weights end with a PCMD at most 0.05 above GRPO's": study.below(
            end("pcmd", PLACEBO), end("pcmd", GRPO) + 0.05
        ),
    }


CLAIMS = claims_on("graph_coloring") | claims_on("factors")
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim="Objectives made for diversity keep more right answers than GRPO.",
    scope="graph colouring and factors, small transformers",
    decided_by=tuple(
        each
        for each in CLAIMS
        if "ends with a PCMD over 0.05 above GRPO's" in each and "held out" not in each
    ),
)
PARTS = {"": "{domain}, training problems", "held_out_": "{domain}, held-out problems"}
MEASURES = ("pass_1", "pass_8", "pass_32", "pcmd", "effective", "defined")
TABLE = study.one_below_the_other(
    *(
        study.Table([part + name for name in MEASURES], title, each="domain")
        for part, title in PARTS.items()
    )
)
PANELS = [
    Panel([Line(part + name, by="objective")], title, "updates", label)
    for name, label in {"pass_1": "accuracy", "pcmd": "PCMD"}.items()
    for part, title in PARTS.items()
]
FIGURE = Panels(PANELS, (20, 4.5), each="domain")
