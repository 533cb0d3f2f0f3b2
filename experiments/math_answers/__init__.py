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

All seeds start from the same model and are evaluated with the same random numbers: intervals cover the training alone,
neither the choice of questions nor the sampling of answers. Data sets of reasoning-gym are questions, too, such as
"reasoning_gym(dataset=gcd, threshold=1.0)", held out with seed=64.
"""

import dataclasses
import functools

import numpy as np

from ipsrl import study
from ipsrl.checking.fields import accepted_by, positive
from ipsrl.distributed.mesh import DATA, make_mesh
from ipsrl.environments import catalog as environments
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.questions import Questions
from ipsrl.environments.text import TextTask
from ipsrl.figures import style
from ipsrl.figures.layers import LineOverNumbers
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures import diversity
from ipsrl.measures.pass_at_k import mean_pass_at_k
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.records.evaluation import Evaluation, shared_at_start
from ipsrl.records.tidy import Records
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampled_answers import completions, independent_answers
from ipsrl.study.language_model import LanguageModelFlags
from ipsrl.study.training_runs import TrainingFlags, TrainingGrid

START = "before training"
NEEDED = {
    "model_dir": "DIR, the folder of a Hugging Face checkpoint",
    "data": '"math_answers(builder=gsm8k)", or the questions that scripts/make_questions.py writes',
    "evaluation_data": '"math_answers(builder=gsm8k, split=test, limit=200)", questions that are held out',
}


@dataclasses.dataclass(frozen=True)
class Settings(TrainingFlags, LanguageModelFlags):
    """`data` are the questions for training, `evaluation_data` the held-out ones.

    An evaluation samples `answers` to each of the latter, by the rules `decoding`, and holds those to
    `prompts_at_once` questions in memory. pass@k is estimated for k = 1, 2, 4, ... up to `pass_at`; the more answers
    there are beyond it, the better is the estimate.
    """

    data: str = accepted_by(environments.check_if_any, "")
    evaluation_data: str = accepted_by(environments.check_if_any, "")
    objectives: tuple[str, ...] = study.objectives(
        ("grpo", "ips_dr_grpo(aggregation=sequence_mean)", "progrpo")
    )
    steps: int = positive(200)
    prompts_per_step: int = positive(32)
    micro_batches: int = positive(8)
    learning_rate: float = positive(1e-6)
    evaluate_every: int = positive(100)
    answers: int = positive(128)
    prompts_at_once: int = positive(8)
    pass_at: int = positive(64)

    def __post_init__(self):
        super().__post_init__()
        if self.pass_at > self.answers:
            raise ValueError(
                f"pass@{self.pass_at} cannot be estimated from {self.answers} answers: raise --answers"
            )

    @property
    def tried(self) -> list[int]:
        """The numbers of answers k at which pass@k is estimated."""
        powers = {1 << power for power in range(self.pass_at.bit_length())}
        return sorted(powers | {self.pass_at})


PRESETS = {
    "smoke": Settings(
        seeds=(0, 1),
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
    ),
    "demo": Settings(),
}
MANY_HOSTS = TRACKERS = True


def curves(settings: Settings) -> study.Curves:
    for name, example in NEEDED.items():
        if not getattr(settings, name):
            raise ValueError(f"--{name} is missing: give it as in --{name}={example}")
    mesh = make_mesh(settings.mesh)
    if settings.prompts_at_once % (devices := mesh.shape.get(DATA, 1)):
        raise ValueError(
            f"--prompts_at_once={settings.prompts_at_once} questions cannot be shared evenly by the {devices} devices "
            f"of mesh axis {DATA!r}: give a multiple of {devices}"
        )
    model, environment = settings.read_model(), settings.in_words(questions(settings.data))
    held_out = dataclasses.replace(environment, task=questions(settings.evaluation_data))
    measure = shared_at_start(functools.partial(evaluate, held_out, model.policy, settings))
    # What a run is measured on is no part of its environment, and would be missing from its config.json.
    measured_on = ("evaluation_data", "answers", "prompts_at_once", "pass_at", "decoding")
    grid = TrainingGrid(
        environment,
        model.policy,
        settings.objectives,
        settings.seeds,
        settings.train_settings(),
        mesh,
        measure,
        identity={name: getattr(settings, name) for name in measured_on},
        start=functools.cache(functools.partial(model.load, mesh)),
        export=model.export if settings.export else None,
    )
    return grid.curves({}, START)


def questions(text: str) -> Questions:
    """Raises ValueError unless a specification is that of questions in words with one right answer each."""
    task = environments.make(text)
    if not isinstance(task, Questions) or isinstance(task, TextTask):
        raise ValueError(
            f"{text} asks no questions with one right answer each: give math_answers(...), or "
            "reasoning_gym(dataset=..., threshold=1.0)"
        )
    return task


def evaluate(
    held_out: LanguageTask, policy: Policy, settings: Settings, step: int, parameters: Parameters
) -> Evaluation:
    """Measures of the answers to the held-out questions, each the mean over questions, and the first answers as text.

    Outcomes are numbers, or the texts of answers, right or wrong; answers without one have none. Right is what gets the
    full reward. Policies of all steps and seeds are asked with the same random numbers.
    """
    answers = independent_answers(
        held_out,
        policy,
        parameters,
        stream(0, 0, "evaluation"),
        settings.answers,
        settings.evaluated_by(settings.temperature),
        settings.prompts_at_once,
    )
    outcomes = answers.outcomes
    pass_at = mean_pass_at_k(outcomes.right.sum(axis=1), settings.answers, settings.tried)
    metrics = {
        **{f"pass_at_{k}": value for k, value in pass_at.items()},
        "effective_outcomes": float(diversity.effective_outcomes(outcomes.outcome_id).mean()),
        "distinct_outcomes": float(diversity.distinct_outcomes(outcomes.outcome_id).mean()),
        "parse_rate": float((outcomes.outcome_id >= 0).mean()),
    }
    shares = np.asarray(diversity.ranked_shares(outcomes.outcome_id)).mean(axis=0)
    return Evaluation(metrics, shares, completions(held_out, answers, names=()))


def at_largest_k(records: Records) -> np.ndarray:
    """`[S]`, pass@k at the end at the largest k that was tried."""
    tried = ["pass_at_1", *(name for name in records.measured if name.startswith("pass_at_"))]
    return records.ends(tried[-1])


def narrows(objective: str) -> study.Claim:
    """Whether an objective makes right answers likelier, and fewer questions solvable, than before training."""
    sooner = study.difference("pass_at_1", {"objective": objective}, {"objective": START})
    last = study.Computed("pass@k at the largest k", at_largest_k)
    more = last.within(objective=objective) - last.within(objective=START)
    return study.every([study.above(sooner, 0.0), study.below(more, 0.0)])


def FIGURE(records: Records, settings: Settings) -> style.Drawing:
    """pass@k against k: how often one answer is right, and whether one of many is."""
    panel = Panel(
        [LineOverNumbers("pass", "k", numbers=tuple(settings.tried))],
        "{evaluation_data}",
        "k, number of answers",
        "pass@k: share of questions with\na right one among k answers",
        xscale="log",
        ylim=(0, None),
    )
    return Panels([panel], size=(6.4, 3.6))(records, settings)


CLAIMS = {
    f"{name}: pass@1 rises and pass@k at the largest k falls": narrows(name)
    for name in Settings().objectives
}
TABLE = study.Table(
    title="{evaluation_data}, {answers} answers to each question, mean over seeds {seeds} [95 % interval]",
    decimals=2,
)
VARIANTS: dict[str, study.Variant] = {}
