"""Math answers: does training on verified answers make a language model find more, or only sooner what it could find?

Claim     Training on verified answers raises pass@1 and lowers pass@k at large k below that of the model it started
          from: what is right becomes likelier, fewer questions can be solved at all. Which objectives avoid that?
Paper     arXiv 2504.13837 makes the claim for models after reinforcement learning; whether objectives differ in it is
          our question. Where one number is right, its frequency in the group is the share of right answers. `ips_grpo`
          then takes the steps of `grpo`, because the standard deviation takes the common factor out again; without it,
          in `ips_dr_grpo`, the factor favours questions that are rarely solved, without a floor exactly as in `maxrl`.
Command   python -m experiments.math_answers --model_dir=DIR --data="math_answers(builder=gsm8k)"
          --evaluation_data="math_answers(builder=gsm8k, split=test, limit=200)" --mesh=data:-1
Time      smoke one minute on two CPU cores beside other work; demo needs an accelerator, and was not run.
Expected  unknown: no pretrained checkpoint was at hand. With random weights, as in the smoke command, next to no answer
          is right before or after training: it shows that everything runs.
Smoke     python scripts/make_checkpoint.py --out=MODEL --hidden_size=16 --num_layers=1
          python scripts/make_questions.py --out=DATA
          python -m experiments.math_answers --preset=smoke --model_dir=MODEL
          --data="math_answers(data_dir='DATA', builder=small_sums)"
          --evaluation_data="math_answers(data_dir='DATA', builder=small_sums, split=test, limit=8)"
Figure    OUT/math_answers.png, .pdf and .csv, drawn by the same command; --resume draws them again from what is there.

All seeds start from the same model and are evaluated with the same draws: intervals cover the training alone, neither
the choice of questions nor the sampling of answers.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from experiments.grid import Run, TrainingFlags, TrainingGrid, claim_lines, final_intervals, group_by_objective
from experiments.language_model import LanguageModel, LanguageModelFlags
from experiments.launch import Output, launch, read_seeds, require_positive
from ipsrl import specifications
from ipsrl.distributed.mesh import DATA, make_mesh
from ipsrl.environments import catalog as environments
from ipsrl.environments.language import LanguageTask
from ipsrl.environments.math_answers import MathAnswers
from ipsrl.figures import pass_at_k as figure
from ipsrl.figures import style
from ipsrl.measures import diversity
from ipsrl.measures.pass_at_k import mean_pass_at_k
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.answers import completions, independent_answers
from ipsrl.training.evaluation import Evaluate, Evaluation
from ipsrl.training.metric_log import EVALUATION
from ipsrl.training.randomness import stream
from ipsrl.training.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class Settings(TrainingFlags, LanguageModelFlags):
    """Flags of the experiment.

    `data` are the questions of training, `evaluation_data` those that are held out. An evaluation samples `answers` to
    each of the latter, at the temperature of training, and holds those to `prompts_at_once` questions in memory. pass@k
    is estimated for k = 1, 2, 4, ... up to `pass_at`; the more answers there are beyond it, the better is the estimate.
    """

    data: str = ""
    evaluation_data: str = ""
    objectives: str = "grpo,ips_dr_grpo(aggregation=sequence_mean),progrpo"
    steps: int = 200
    prompts_per_step: int = 32
    micro_batches: int = 8
    learning_rate: float = 1e-6
    evaluate_every: int = 100
    answers: int = 128
    prompts_at_once: int = 8
    pass_at: int = 64
    check_claims: bool = True

    def __post_init__(self):
        require_positive(self, "answers", "prompts_at_once", "pass_at")
        if self.pass_at > self.answers:
            raise ValueError(f"pass@{self.pass_at} cannot be estimated from {self.answers} answers: raise --answers")

    @property
    def tried(self) -> list[int]:
        """The numbers of answers k at which pass@k is estimated."""
        powers = {1 << power for power in range(self.pass_at.bit_length())}
        return sorted(powers | {self.pass_at})


PRESETS = {
    "smoke": Settings(
        seeds="0:2",
        steps=2,
        prompts_per_step=8,
        group_size=4,
        micro_batches=1,
        learning_rate=1e-3,
        max_tokens=4,
        evaluate_every=2,
        checkpoint_every=2,
        answers=8,
        pass_at=4,
        check_claims=False,
    ),
    "demo": Settings(),
}

MANY_HOSTS = MIRRORS = True


def run(settings: Settings, output: Output) -> None:
    grid, held_out = prepare(settings)
    with RunFolder.open(output.path, dataclasses.asdict(settings), output.resume) as folder:
        runs = train_all(grid, held_out, settings, output)
        summary = summarise(runs, settings)
        print(table(summary, settings))
        curves = summary["pass_at_k"]
        trained = {name: np.array(rows) for name, rows in curves["objectives"].items()}
        shown = curves["k"], np.array(curves["start"]), trained
        drawn = figure.draw(*shown, f"{held_out.num_prompts} held-out questions, {settings.answers} answers to each")
        png = style.save(drawn, folder.path / "math_answers", figure.data(*shown))
        folder.write_summary(summary)
        print(f"figure: {png}")


def prepare(settings: Settings) -> tuple[TrainingGrid, LanguageTask]:
    """The runs, and what they are evaluated on.

    Raises:
      ValueError: a flag is missing, its questions or its model are not there, or one of the runs would be impossible.
    """
    for name, example in (
        ("model_dir", "DIR, the folder of a Hugging Face checkpoint"),
        ("data", '"math_answers(builder=gsm8k)", or the questions that scripts/make_questions.py writes'),
        ("evaluation_data", '"math_answers(builder=gsm8k, split=test, limit=200)", questions that are held out'),
    ):
        if not getattr(settings, name):
            raise ValueError(f"--{name} is missing: give it as in --{name}={example}")
    mesh = make_mesh(settings.mesh)
    if settings.prompts_at_once % (devices := mesh.shape.get(DATA, 1)):
        raise ValueError(
            f"--prompts_at_once={settings.prompts_at_once} questions cannot be shared evenly by the {devices} devices "
            f"of mesh axis {DATA!r}: give a multiple of {devices}"
        )
    model = LanguageModel.of_flags(settings)
    environment = model.environment(
        _questions(settings.data),
        settings.max_tokens,
        settings.system_prompt,
        settings.thinking,
        settings.longest_prompt,
    )
    grid = TrainingGrid(
        environment,
        model.policy,
        specifications.split(settings.objectives),
        read_seeds(settings.seeds),
        settings.train_settings(),
        mesh,
    )
    return grid, dataclasses.replace(environment, task=_questions(settings.evaluation_data))


def _questions(text: str) -> MathAnswers:
    task = environments.make(text)
    if not isinstance(task, MathAnswers):
        raise ValueError(f"{text} asks no questions with numbers as answers: give math_answers(...)")
    return task


def train_all(grid: TrainingGrid, held_out: LanguageTask, settings: Settings, output: Output) -> list[Run]:
    """All runs, without their parameters."""
    model = LanguageModel.of_flags(settings)
    start, frozen = model.load(grid.mesh)

    def measure(step: int, parameters: Parameters) -> Evaluation:
        return evaluate(grid, held_out, settings, parameters)

    # The data a run is judged by is no part of its environment, and would be missing from its config.json.
    identity = {name: getattr(settings, name) for name in ("evaluation_data", "answers", "prompts_at_once", "pass_at")}
    finished = []
    for run in grid.train(output, start, evaluated_once_at_start(measure), identity, frozen):
        if settings.export:
            model.export_run(run, frozen)
        finished.append(dataclasses.replace(run, parameters=None))
    return finished


def evaluated_once_at_start(measure: Evaluate) -> Evaluate:
    """All runs start with the same parameters and are asked with the same draws: one evaluation serves them all."""
    start = []

    def measure_once(step: int, parameters: Parameters) -> Evaluation:
        if step > 0:
            return measure(step, parameters)
        if not start:
            start.append(measure(step, parameters))
        return start[0]

    return measure_once


def evaluate(grid: TrainingGrid, held_out: LanguageTask, settings: Settings, parameters: Parameters) -> Evaluation:
    """Measures of the answers to the held-out questions, each the mean over questions, and the first answers as text.

    Outcomes are numbers, right or wrong; answers without one have none.
    """
    # The same draws at each evaluation, whatever the seed: differences come from the policies.
    asked = independent_answers(
        held_out,
        grid.policy,
        parameters,
        stream(0, 0, "evaluation"),
        settings.answers,
        settings.temperature,
        settings.prompts_at_once,
    )
    verdict = asked.verdict
    right = (verdict.rewards > 0).sum(axis=1)
    pass_at = mean_pass_at_k(right, settings.answers, settings.tried)
    metrics = {
        **{f"pass_at_{k}": value for k, value in pass_at.items()},
        "effective_outcomes": float(diversity.effective_outcomes(verdict.outcome_id).mean()),
        "distinct_outcomes": float(diversity.distinct_outcomes(verdict.outcome_id).mean()),
        "parse_rate": float((verdict.outcome_id >= 0).mean()),
    }
    shares = np.asarray(diversity.ranked_shares(verdict.outcome_id)).mean(axis=0)
    return Evaluation(metrics, shares, completions(held_out, asked, names=()))


def summarise(runs: Sequence[Run], settings: Settings) -> dict:
    """The start; means over seeds with 95 % intervals at the end; the curves of the figure; whether the claims hold.

    They are about intervals: with one seed it is None.
    """
    ends = final_intervals(runs)
    start = {measure: runs[0].first(EVALUATION + measure) for measure in next(iter(ends.values()))}
    first, last = "pass_at_1", f"pass_at_{settings.pass_at}"
    return {
        "start": start,
        "objectives": ends,
        "pass_at_k": {
            "k": settings.tried,
            "start": [start[f"pass_at_{k}"] for k in settings.tried],
            "objectives": {
                name: [[run.last(f"{EVALUATION}pass_at_{k}") for k in settings.tried] for run in same]
                for name, same in group_by_objective(runs).items()
            },
        },
        "checks": {
            f"{name}: pass@1 rises and pass@{settings.pass_at} falls, intervals apart from the start": (
                measured[first].low > start[first] and measured[last].high < start[last]
                if measured[first].seeds > 1
                else None
            )
            for name, measured in ends.items()
            if settings.check_claims
        },
    }


def table(summary: dict, settings: Settings) -> str:
    """The results as text, one row for each objective."""
    columns = list(summary["start"])
    rows = {
        "before training": [f"{value:.2f}" for value in summary["start"].values()],
        **{name: [str(measured[column]) for column in columns] for name, measured in summary["objectives"].items()},
    }
    width = max(map(len, rows))
    return "\n".join(
        [
            f"{settings.evaluation_data}, {settings.answers} answers to each question, mean over seeds "
            f"{settings.seeds} [95 % bootstrap interval]",
            "  ".join([" " * width, *(column.replace("_", " ").ljust(20) for column in columns)]).rstrip(),
            *("  ".join([name.ljust(width), *(cell.ljust(20) for cell in row)]).rstrip() for name, row in rows.items()),
            *claim_lines(summary["checks"]),
        ]
    )


if __name__ == "__main__":
    launch("math_answers", PRESETS, run, many_hosts=MANY_HOSTS, mirrors=MIRRORS)
