"""A supervised start for language models: a checkpoint that knows a task's answers, and likes some more than others.

Claim     Reinforcement learning needs answers that are sometimes right. A model that writes none of a task's answers,
          such as one with random weights, is first taught them, with the bias that a pretrained model has.
Paper     None; the bias is that of `ipsrl.training.supervised.warm_start`, from which the small policies start as well.
Command   python -m experiments.warm_start --model_dir=DIR --out=OUT
Time      demo, with the checkpoint that scripts/make_checkpoint.py writes: five minutes of CPU time, twenty minutes on
          two CPU cores beside other work; smoke under one minute.
Expected  demo, that checkpoint: of 16 answers to each prompt 0.48 +- 0.05 are right, 0.03 cannot be parsed.
Smoke     python -m experiments.warm_start --preset=smoke --model_dir=DIR --out=OUT

OUT/model is a folder that `transformers` loads, and that --policy=hf --model_dir=OUT/model starts from.
"""

import dataclasses
import functools

import jax
from jax.sharding import Mesh

from ipsrl import study
from ipsrl.checking.fields import accepted_by, at_least, between, one_of, positive, probability
from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import make_mesh, read_mesh
from ipsrl.environments import catalog as environments
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.policies.adapters import FLOATS
from ipsrl.policies.transformer_config import REMATERIALISATION_NAMES
from ipsrl.records.progress_line import report_line
from ipsrl.records.tidy import Records
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sampled_answers import independent_answers
from ipsrl.study.language_model import LanguageModelFlags
from ipsrl.study.text_tasks import text_task
from ipsrl.training.language_model import LanguageModel
from ipsrl.training.supervised.warm_start import WarmStart, learn_prior


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`admissible_share` is the share of right training answers; the others are any hypothesis."""

    model_dir: str = ""
    task: str = accepted_by(environments.check, "hypospace_boolean(operators=basic, depth=2)")
    admissible_share: float = probability(0.6)
    steps: int = positive(600)
    prompts_per_step: int = at_least(1, 8)
    answers_per_prompt: int = at_least(1, 8)
    learning_rate: float = positive(2e-3)
    max_tokens: int = positive(48)
    system_prompt: str = ""
    beginning: str = ""
    dtype: str = one_of(*FLOATS, default="float32")
    remat: str = one_of(*REMATERIALISATION_NAMES, default="none")
    seed: int = between(0, 2**31 - 1, 0)
    mesh: str = accepted_by(read_mesh, "data:-1")


PRESETS = {"smoke": Settings(steps=10), "demo": Settings()}
MANY_HOSTS = True


def curves(settings: Settings) -> study.Curves:
    task = text_task(settings.task)
    if not settings.model_dir:
        raise ValueError("--model_dir is missing: the folder of the checkpoint to start from")
    chosen = LanguageModelFlags(**study.shared(settings, LanguageModelFlags))
    model, environment = chosen.read_model(), chosen.in_words(task)
    taught = functools.partial(teach, settings, model, environment, make_mesh(settings.mesh))
    return [study.TrainingRun({"task": settings.task, "seed": settings.seed}, taught)]


def teach(
    settings: Settings,
    model: LanguageModel,
    environment: LanguageTask,
    mesh: Mesh,
    output: study.Output,
) -> study.Points:
    """Shares of right and of unparsable answers among 16 to each prompt, after training."""
    warm_start = WarmStart(**study.shared(settings, WarmStart))
    path = output.path / "model"
    with jax.set_mesh(mesh):
        # An earlier try may have ended between the export and the measurement.
        if not hosts.broadcast(path.exists()):
            start, _ = model.load(mesh)
            model.export(path, learn_prior(environment, model.policy, warm_start, start()), None)
        # What is measured is what was written, in the type of the files.
        written, _ = dataclasses.replace(model, model_dir=str(path)).load(mesh)
        outcomes = independent_answers(
            environment,
            model.policy,
            written(),
            stream(settings.seed, 0, "evaluation"),
            16,
            prompts_at_once=settings.prompts_per_step,
        ).outcomes
    report_line(f"model: {path}")
    measured = {
        "pass_at_1": float(outcomes.rewards.mean()),
        "unparsed": float((outcomes.outcome_id < 0).mean()),
    }
    return study.Points([settings.steps], measured)


def right_answers(records: Records) -> float:
    """The share of right answers of one checkpoint; it has no interval, because other seeds would make other ones."""
    return records.mean("pass_at_1")


CLAIMS = {
    "of 16 answers of this checkpoint to each prompt four in ten are right, or more": study.above(
        study.Computed("share of right answers", right_answers), 0.4
    )
}
VARIANTS: dict[str, study.Variant] = {}
