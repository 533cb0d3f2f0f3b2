"""Text tasks: what is left of the admissible answers after training, for any objectives.

The experiments `hypospace` and `countdown` are presets of these settings.

Recovery is the share of a prompt's A admissible hypotheses among N = A answers to it, mean over all prompts.
`independent` answers know nothing of each other, so that even uniform sampling recovers only 1 - (1 - 1/A)^A (the
ceiling); `with_history` shows each query the earlier answers, as the HypoSpace benchmark does, to policies that can
read them. All seeds start from the same prior and are evaluated with the same draws: intervals cover the training
alone.
"""

import dataclasses
import typing
from collections.abc import Sequence

import numpy as np

from experiments.grid import Run, TrainingFlags, TrainingGrid, claim_lines, final_intervals, group_by_objective
from experiments.language_model import LanguageModel, LanguageModelFlags
from experiments.launch import Output, folder_name, read_seeds, require_positive
from ipsrl import specifications
from ipsrl.distributed.mesh import DATA, make_mesh
from ipsrl.environments import catalog as environments
from ipsrl.environments.language import LanguageTask
from ipsrl.environments.text import TextTask
from ipsrl.figures import style
from ipsrl.figures import text_tasks as figure
from ipsrl.measures import answers, diversity
from ipsrl.measures.pass_at_k import mean_pass_at_k
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.answers import answers_with_history, completions, independent_answers
from ipsrl.training.evaluation import Evaluation
from ipsrl.training.metric_log import EVALUATION
from ipsrl.training.randomness import stream
from ipsrl.training.run_folder import RunFolder
from ipsrl.training.warm_start import WarmStart, prior_parameters


@dataclasses.dataclass(frozen=True)
class Settings(TrainingFlags, LanguageModelFlags):
    """Flags of the experiment.

    `answers` is the number of answers to each prompt at an evaluation. `policy` is `small`, a transformer of
    `hidden_size` and `num_layers` that speaks the compact language of a task and starts from a prior that is learned in
    `prior_steps` (all of these are for it alone), or `hf`, a language model, which reads prompts in plain words.
    """

    tasks: str = "hypospace_boolean(operators=full, depth=2)"
    objectives: str = "grpo,ips_grpo(floor=0.2),progrpo"
    policy: str = "small"
    hidden_size: int = 64
    num_layers: int = 2
    prior_share: float = 0.6
    prior_steps: int = 1000
    prior_seed: int = 0
    protocol: str = "independent"
    answers: int = 64
    check_claims: bool = True

    def __post_init__(self):
        require_positive(self, "answers")
        if self.policy not in ("small", "hf"):
            raise ValueError(f"unknown policy {self.policy!r}; known: small, hf")
        if (self.policy == "hf") != bool(self.model_dir):
            raise ValueError(f"--policy={self.policy} --model_dir={self.model_dir!r}: hf, and only hf, has a folder")
        for field in dataclasses.fields(LanguageModelFlags):
            for_both = field.name in ("dtype", "remat")
            if self.policy == "small" and not for_both and getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name} is for language models: give --policy=hf and --model_dir as well")
        if self.protocol not in typing.get_args(answers.Protocol):
            known = ", ".join(typing.get_args(answers.Protocol))
            raise ValueError(f"unknown protocol {self.protocol!r}; known: {known}")
        read_seeds(str(self.prior_seed))


SMOKE = Settings(
    seeds="0:2",
    steps=4,
    prompts_per_step=8,
    group_size=8,
    micro_batches=2,
    hidden_size=16,
    num_layers=1,
    prior_steps=20,
    answers=16,
    evaluate_every=2,
    checkpoint_every=2,
    check_claims=False,
)
"""Everything small, for any task."""

PASS_AT = (1, 4, 16)
# Recovery is also told apart by the number A of admissible hypotheses: one answer to a prompt with A = 1 recovers all.
SIZES = ((1, 3), (4, 27), (28, 1000))


def run(experiment: str, settings: Settings, output: Output) -> None:
    """Trains, measures and draws; the figure is called as the experiment."""
    grids = {task: training_grid(task, settings) for task in specifications.split(settings.tasks)}
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        results, summary = [], {}
        for task, grid in grids.items():
            runs = train_on_task(grid, settings, output.inside(folder_name(task)))
            results.append(task_result(task, runs, settings.answers))
            summary[task] = summarise(runs, settings.check_claims)
        print(table(summary, settings))
        png = style.save(figure.draw(results), folder.path / experiment, figure.data(results))
        folder.write_summary({"protocol": settings.protocol, "tasks": summary})
        print(f"figure: {png}")


def train_on_task(grid: TrainingGrid, settings: Settings, output: Output) -> list[Run]:
    """All runs on one task, without their parameters."""
    model, frozen = language_model(settings), None
    identity = {"protocol": settings.protocol}
    if model is None:
        warm_start = WarmStart(
            admissible_share=settings.prior_share, steps=settings.prior_steps, seed=settings.prior_seed
        )
        start = prior_parameters(grid.environment, grid.policy, warm_start)
        identity["warm_start"] = dataclasses.asdict(warm_start)
    else:
        start, frozen = model.load(grid.mesh)
    found_at_start = []

    def measure(step: int, parameters: Parameters) -> Evaluation:
        if step:
            return evaluate(grid, settings.answers, settings.protocol, step, parameters)
        # All runs start from the same parameters and are asked with the same draws.
        if not found_at_start:
            found_at_start.append(evaluate(grid, settings.answers, settings.protocol, step, parameters))
        return found_at_start[0]

    finished = []
    for run in grid.train(output, start, measure, identity, frozen):
        if settings.export:
            model.export_run(run, frozen)
        finished.append(dataclasses.replace(run, parameters=None))
    return finished


def language_model(settings: Settings) -> LanguageModel | None:
    """What --policy=hf names; None for a small policy."""
    return None if settings.policy == "small" else LanguageModel.of_flags(settings)


def training_grid(task: str, settings: Settings) -> TrainingGrid:
    """The runs on one task."""
    environment = environments.make(task)
    if not isinstance(environment, TextTask):
        raise ValueError(f"{task} is no text task: take countdown or one of the three hypospace tasks")
    model = language_model(settings)
    if model is None:
        policy = Transformer(
            environment.vocabulary_size,
            hidden_size=settings.hidden_size,
            num_layers=settings.num_layers,
            dtype=settings.dtype,
            remat=settings.remat,
        )
    else:
        policy = model.policy
        environment = model.environment(
            environment, settings.max_tokens, settings.system_prompt, settings.thinking, settings.longest_prompt
        )
    return TrainingGrid(
        environment,
        policy,
        specifications.split(settings.objectives),
        read_seeds(settings.seeds),
        settings.train_settings(),
        make_mesh(settings.mesh),
    )


def evaluate(
    grid: TrainingGrid, kept: int, protocol: answers.Protocol, step: int, parameters: Parameters
) -> Evaluation:
    """Measures of the answers to every prompt, each the mean over prompts, and the first answers as text.

    Recovery, validity and uniqueness look at each prompt's first A answers, all others at its first `kept`, or at all
    where there are fewer. The ranked shares are those among a prompt's valid answers.
    """
    environment = grid.environment
    queries = int(answers.query_count(environment.admissible.sum(axis=1)).max())
    independent = protocol == "independent"
    # The same draws at each evaluation, whatever the seed: differences come from the policies.
    key, temperature = stream(0, 0, "evaluation"), grid.settings.temperature
    if independent:
        count = max(kept, queries)
        at_once = prompts_at_once(grid, count) if isinstance(environment, LanguageTask) else None
        asked = independent_answers(environment, grid.policy, parameters, key, count, temperature, at_once)
    else:
        at_once = grid.settings.prompts_per_step if isinstance(environment, LanguageTask) else None
        asked = answers_with_history(environment, grid.policy, parameters, key, queries, temperature, at_once)
    verdict = asked.verdict
    valid = verdict.rewards > 0
    measured = answers.measure_answers(verdict.outcome_id, valid, environment.admissible, protocol)
    outcomes = np.where(valid, verdict.outcome_id, -1)[:, :kept]
    # The estimator is unbiased for independent answers only.
    tried = [k for k in PASS_AT if independent and k <= kept]
    pass_at = mean_pass_at_k(valid[:, :kept].sum(axis=1), kept, tried)
    sizes = {(low, high): measured.recovery_between(low, high) for low, high in SIZES}
    metrics = {
        **measured.means(),
        "effective_outcomes": float(diversity.effective_outcomes(outcomes).mean()),
        "largest_outcome_share": float(diversity.largest_outcome_share(outcomes).mean()),
        **{f"pass_at_{k}": value for k, value in pass_at.items()},
        **{f"recovery_of_{low}_to_{high}": value for (low, high), value in sizes.items() if value is not None},
    }
    shares = np.asarray(diversity.ranked_shares(outcomes)).mean(axis=0)
    return Evaluation(metrics, shares, completions(environment, asked, environment.hypotheses))


def prompts_at_once(grid: TrainingGrid, answers_per_prompt: int) -> int:
    """Prompts with no more answers than a training step samples, which fits into memory; the devices share them evenly.

    With more answers to a prompt than that, it is one prompt for each of the devices that prompts lie over.
    """
    settings, devices = grid.settings, grid.mesh.shape.get(DATA, 1)
    fitting = settings.prompts_per_step * min(settings.group_size, answers_per_prompt) // answers_per_prompt
    return max(1, fitting // devices) * devices


def task_result(task: str, runs: Sequence[Run], answers_per_prompt: int) -> figure.TaskResult:
    """What the figure draws of the runs on one task."""
    by_objective = group_by_objective(runs)

    def ends(metric: str) -> dict[str, np.ndarray]:
        prior = {"prior": np.array([runs[0].first(metric)])}
        return prior | {name: np.array([run.last(metric) for run in same]) for name, same in by_objective.items()}

    return figure.TaskResult(
        task=task,
        updates=np.array(runs[0].curve(EVALUATION + "recovery")[0]),
        effective_outcomes={
            name: np.array([run.curve(EVALUATION + "effective_outcomes")[1] for run in same])
            for name, same in by_objective.items()
        },
        answers=answers_per_prompt,
        recovery=ends(EVALUATION + "recovery"),
        validity=ends(EVALUATION + "validity"),
        ceiling=runs[0].first(EVALUATION + "ceiling"),
    )


def summarise(runs: Sequence[Run], check_claims: bool) -> dict:
    """Means over seeds with 95 % intervals at the end of training; the prior; the ceiling; whether the claims hold.

    They are about intervals: with one seed it is None.
    """
    rows = final_intervals(runs)
    plain = [name for name in rows if name.startswith("grpo")]
    scaled = [name for name in rows if name.startswith("ips_grpo")]
    return {
        "objectives": rows,
        "prior": {measure: runs[0].first(EVALUATION + measure) for measure in next(iter(rows.values()))},
        "checks": {
            f"{b} recovers more than {a}, intervals apart, both at validity 0.9": (
                rows[b]["recovery"].low > rows[a]["recovery"].high
                and min(rows[a]["validity"].mean, rows[b]["validity"].mean) >= 0.9
                if rows[a]["recovery"].seeds > 1
                else None
            )
            for a in plain
            for b in scaled
            if check_claims
        },
    }


def table(summary: dict, settings: Settings) -> str:
    """The results as text: one block for each task, one row for each objective."""
    columns = ("recovery", "recovery_of_4_to_27", "validity", "uniqueness", "effective_outcomes", "pass_at_1")
    lines = []
    for task, result in summary.items():
        shown = [column for column in columns if column in result["prior"]]
        rows = {
            "prior": [f"{result['prior'][column]:.2f}" for column in shown],
            **{
                objective: [str(measured[column]) for column in shown]
                for objective, measured in result["objectives"].items()
            },
            "ceiling of independent answers": [f"{result['prior']['ceiling']:.2f}"],
        }
        lines += [
            f"{task}, protocol {settings.protocol}, mean over seeds {settings.seeds} [95 % bootstrap interval]",
            "  ".join(["".ljust(32), *(column.replace("_", " ").ljust(20) for column in shown)]).rstrip(),
            *("  ".join([name.ljust(32), *(cell.ljust(20) for cell in row)]).rstrip() for name, row in rows.items()),
            *claim_lines(result["checks"]),
            "",
        ]
    return "\n".join(lines)
