"""Studies of text tasks: which admissible answers a policy still produces after training, for any objectives.

Recovery is the share of a prompt's A admissible hypotheses among N = A answers to it, mean over all prompts.
`independent` answers are sampled independently, so even uniform sampling recovers only 1 - (1 - 1/A)^A (the ceiling);
`with_history` shows each query the earlier answers, as the HypoSpace benchmark does, for policies that can read them.
All seeds start from the same prior and are evaluated with the same random numbers: intervals cover only training.
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Iterator
from typing import Any

from ipsrl.checking.fields import accepted_by, between, one_of, positive, probability
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments import catalog as environments
from ipsrl.environments.text import TextTask
from ipsrl.figures.layers import Bars, Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.measures.answers import Protocol
from ipsrl.policies.transformer import Transformer
from ipsrl.records.evaluation import shared_at_start
from ipsrl.study.claims import above, at_each, every
from ipsrl.study.curves import Output, Points, TrainingRun
from ipsrl.study.language_model import LanguageModelFlags
from ipsrl.study.numbers import final
from ipsrl.study.pages.tables import Table
from ipsrl.study.settings import folder_name, objectives
from ipsrl.study.training_runs import TrainingFlags, TrainingGrid
from ipsrl.training.supervised.warm_start import WarmStart, prior_parameters
from ipsrl.training.text_evaluation import evaluate_held_out, evaluate_text, require_memory

PRIOR, CEILING = "prior", "ceiling of independent answers"


@dataclasses.dataclass(frozen=True)
class TextTaskSettings(TrainingFlags, LanguageModelFlags):
    """`answers` is the number of answers to each prompt at an evaluation.

    `policy` is `small`, a transformer of `hidden_size` and `num_layers` that uses the compact token language of a task
    and starts from a prior learned in `prior_steps` (these settings apply only to it), or `hf`, a language model that
    reads prompts in plain words. That is also asked the questions of the task `held_out`, which it is not trained on.
    """

    tasks: tuple[str, ...] = accepted_by(environments.check, ("hypospace_boolean(operators=full, depth=2)",))
    objectives: tuple[str, ...] = objectives(("grpo", "ips_grpo(floor=0.2)", "progrpo"))
    policy: str = one_of("small", "hf", default="small")
    hidden_size: int = positive(64)
    num_layers: int = positive(2)
    prior_share: float = probability(0.6)
    prior_steps: int = positive(1000)
    prior_seed: int = between(0, 2**31 - 1, 0)
    protocol: str = one_of(*typing.get_args(Protocol), default="independent")
    answers: int = between(1, 2**31 - 1, 64)
    held_out: str = accepted_by(environments.check_if_any, "")

    def __post_init__(self):
        super().__post_init__()
        if (self.policy == "hf") != bool(self.model_dir):
            raise ValueError(
                f"--policy={self.policy} --model_dir={self.model_dir!r}: --model_dir is required for, and only for, hf"
            )
        given = {field.name for field in dataclasses.fields(self) if getattr(self, field.name) != field.default}
        of_models = {field.name for field in dataclasses.fields(LanguageModelFlags)} - {"dtype", "remat"} | {"held_out"}
        if self.policy == "small" and (wrong := sorted(given & of_models)):
            raise ValueError(f"--{wrong[0]} is for language models: give --policy=hf and --model_dir as well")

    @property
    def host_devices(self) -> int | None:
        """One device for a language model: its matrices occupy all cores, and two devices would read them twice."""
        return super().host_devices if self.policy == "small" else None

    @property
    def warm_start(self) -> WarmStart:
        """The prior of a small policy."""
        return WarmStart(admissible_share=self.prior_share, steps=self.prior_steps, seed=self.prior_seed)


SMOKE = TextTaskSettings(
    seeds=(0, 1),
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
)
"""Everything small, for any task."""
SMALL = TextTaskSettings(prompts_per_step=16, micro_batches=1, learning_rate=1e-3, hidden_size=32, monitors="none")
"""A smaller transformer, for tasks that it learns in a hundred updates."""


def curves(settings: TextTaskSettings) -> Iterator[TrainingRun]:
    """The prior, all runs and the ceiling, for each task."""
    for task in settings.tasks:
        prior, *trained = training_grid(task, settings).curves({"task": task}, PRIOR)
        yield from (prior, *trained)
        yield TrainingRun({"task": task, "objective": CEILING}, functools.partial(ceiling, prior))


def ceiling(prior: TrainingRun, output: Output) -> Points:
    """The mean recovery of independent uniform answers, a property of the task."""
    found = prior.train(output)
    return Points(found.steps, {"recovery": found.values["ceiling"]})


def training_grid(task: str, settings: TextTaskSettings) -> TrainingGrid:
    """The runs on one task, in a folder of the output."""
    environment, training, mesh = text_task(task), settings.train_settings(), make_mesh(settings.mesh)
    identity: dict[str, Any] = {"protocol": settings.protocol}
    export, held_out = None, None
    if settings.policy == "small":
        names, warm_start = ("hidden_size", "num_layers", "dtype", "remat"), settings.warm_start
        policy = Transformer(environment.vocabulary_size, **{name: getattr(settings, name) for name in names})
        policy.require_memory()
        identity["warm_start"] = dataclasses.asdict(warm_start)
        start = functools.cache(lambda: (prior_parameters(environment, policy, warm_start), None))
    else:
        model, environment = settings.read_model(), settings.in_words(environment)
        if settings.held_out:
            questions = held_out_task(settings.held_out, task)
            identity["held_out"] = repr(questions)
            held_out = settings.in_words(questions)
        if settings.decoding:
            identity["decoding"] = settings.decoding
        policy, export = model.policy, model.export if settings.export else None
        start = functools.cache(functools.partial(model.load, mesh))
    # Flags are texts, of which `one_of` has let only a `Protocol` pass.
    how: tuple[Any, ...] = policy, training, mesh, settings.answers, settings.protocol
    for asked in filter(None, (environment, held_out)):
        require_memory(asked, *how)
    by_rules = functools.partial(evaluate_text, decoding=settings.evaluated_by(settings.temperature))
    evaluate = functools.partial(by_rules, environment, *how)
    if held_out is not None:
        others = functools.partial(by_rules, held_out, *how)
        evaluate = functools.partial(evaluate_held_out, evaluate, others, environment.num_prompts)
    runs = settings.objectives, settings.seeds, training, mesh
    return TrainingGrid(
        environment,
        policy,
        *runs,
        shared_at_start(evaluate),
        folder=folder_name(task),
        identity=identity,
        start=start,
        export=export,
    )


def held_out_task(name: str, trained: str) -> TextTask:
    """Raises ValueError if a task has questions of the one that is trained on."""
    task, other = text_task(name), text_task(trained)
    known = {other.prompt_text(prompt) for prompt in range(other.num_prompts)}
    asked = (task.prompt_text(prompt) for prompt in range(task.num_prompts))
    if twice := [text for text in asked if text in known]:
        raise ValueError(
            f"--held_out={name} has {len(twice)} questions of {trained}, such as {twice[0]!r}: hold out others"
        )
    return task


def text_task(name: str) -> TextTask:
    """Raises ValueError unless a specification is that of a `TextTask`."""
    task = environments.make(name)
    if not isinstance(task, TextTask):
        rows = environments.CATALOG.items()
        others = [other for other, make in rows if inspect.isclass(make) and issubclass(make, TextTask)]
        raise ValueError(f"{name} is not a text task, whose answers are listed: take one such as {', '.join(others)}")
    return task


GRPO, IPS = "grpo", "ips_grpo(floor=0.2)"
CLAIMS = {
    "IPS-GRPO recovers more than GRPO, both at validity 0.9 or more": at_each(
        "task",
        every(
            (
                above(final("recovery", objective=IPS), final("recovery", objective=GRPO)),
                above(final("validity", objective=IPS), 0.9),
                above(final("validity", objective=GRPO), 0.9),
            )
        ),
    )
}
TABLE = Table(
    ("recovery", "recovery_of_4_to_27", "validity", "uniqueness", "effective_outcomes", "pass_at_1"),
    "{task}, protocol {protocol}, mean over seeds {seeds} [95 % interval]",
    rows=("objective",),
    each="task",
    decimals=2,
)
LEFT = Line("effective_outcomes", without=(PRIOR,), markers=False)
FIGURE = Panels(
    [
        Panel([LEFT], "{task}", "update", "effective valid outcomes\nin {answers} answers to a prompt", ylim=(0, None)),
        Panel([Bars("recovery")], xlabel="recovery", xlim=(0, 1.1)),
        Panel([Bars("validity")], xlabel="validity", xlim=(0, 1.1)),
    ],
    each="task",
)
