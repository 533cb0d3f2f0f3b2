"""Inside TRL: does an objective do in another trainer what it does in this one?

Claim     What an objective does to the set of outcomes belongs to the objective: inside TRL's GRPOTrainer, GRPO loses
          as many solutions of countdown as in ipsrl's own trainer, and inverse probability scaling keeps as many.
Paper     Ours; what the objectives do is the claim of arXiv 2601.21669, and that they do it anywhere is that of
          docs/integrations.md.
Arms      GRPO and IPS-GRPO with a floor of 0.2, each in ipsrl's trainer and in TRL's GRPOTrainer, with five seeds: 100
          updates by Adam at 0.001, of 16 prompts with 16 answers each, from one prior of 1000 supervised steps. Both
          trainers take the loss from ipsrl; sampling, batches and optimiser are each trainer's own.
Command   python -m experiments.inside_trl
Time      demo 15 minutes on two busy CPU cores, 12 of CPU time, most of it in TRL; smoke under one minute.
Expected  Recovery +- 0.03: prior 0.24; GRPO 0.20 here and in TRL; IPS-GRPO 0.33 here and 0.35 in TRL.
Doubt     One tiny model, one task, one rate, and a single step on each batch, so that clips play no part. GRPO in TRL
          is ipsrl's loss there, not TRL's own. The margin of 0.05 is ours, and larger than what GRPO loses of the
          prior's recovery. Another version of TRL may sample or step otherwise.
Smoke     python -m experiments.inside_trl --preset=smoke

The policy is a tiny Qwen2 in the compact language of the task, after a prior that is competent and biased
(`ipsrl.training.supervised.warm_start`). Both trainers start from the same weights and have the same number of prompts
and answers in a step, learning rate, Adam and clipping of gradients; they sample with other random numbers, by JAX here
and by PyTorch in TRL (extra [trl]). What TRL has trained is read back, and all policies are evaluated by the same code
and random numbers. Recovery and validity: `ipsrl.study.text_tasks`.
"""

import dataclasses
import functools
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ipsrl import extras, study
from ipsrl.checking.fields import accepted_by, at_least, positive
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments import catalog as environments
from ipsrl.environments.text import PADDING, STOP, TextTask
from ipsrl.figures.layers import Line
from ipsrl.figures.panels import Panel, Panels
from ipsrl.policies import hugging_face
from ipsrl.policies.policy import Parameters
from ipsrl.policies.transformer import Transformer
from ipsrl.records.evaluation import shared_at_start
from ipsrl.study import at_each, final, text_tasks
from ipsrl.study.training_runs import TrainingGrid
from ipsrl.training.settings import TrainSettings
from ipsrl.training.supervised.warm_start import WarmStart, prior_parameters
from ipsrl.training.text_evaluation import evaluate_text

GRPO = "grpo"
IPS = "ips_grpo(floor=0.2)"
OURS = "ipsrl"
TRL = "TRL"


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`answers` is the number of answers to each prompt at an evaluation."""

    task: str = accepted_by(
        environments.check,
        "countdown(numbers=4, problems=64, largest_number=12, largest_target=40, least_solutions=4)",
    )
    objectives: tuple[str, ...] = study.objectives((GRPO, IPS))
    seeds: tuple[int, ...] = study.seeds(range(5))
    steps: int = positive(100)
    prompts_per_step: int = positive(16)
    group_size: int = at_least(2, 16)
    learning_rate: float = positive(1e-3)
    hidden_size: int = positive(64)
    prior_steps: int = positive(1000)
    answers: int = positive(64)
    evaluate_every: int = positive(25)


SMALL = "countdown(numbers=3, problems=16, largest_number=9, largest_target=30, least_solutions=2)"
PRESETS = {
    "smoke": Settings(
        SMALL,
        seeds=(0,),
        steps=2,
        prompts_per_step=4,
        group_size=4,
        hidden_size=16,
        prior_steps=20,
        answers=16,
        evaluate_every=2,
    ),
    "demo": Settings(),
}
NEEDS = ("trl",)


def curves(settings: Settings) -> study.Curves:
    ours = grid(settings)
    yield from ours.curves({"trainer": OURS})
    for objective, seed in ours.runs:
        labels = {"trainer": TRL, "objective": objective, "seed": seed}
        yield study.Curve(labels, functools.partial(in_trl, ours, objective, seed))


def grid(settings: Settings) -> TrainingGrid:
    """The runs of our own trainer, whose policy, start and evaluation are those of TRL's as well."""
    task = text_tasks.text_task(settings.task)
    policy = Transformer(
        task.vocabulary_size,
        settings.hidden_size,
        intermediate_size=3 * settings.hidden_size,
        # As in Qwen2.
        biases=("q_proj", "k_proj", "v_proj"),
    )
    training = TrainSettings(
        settings.steps,
        settings.prompts_per_step,
        settings.group_size,
        learning_rate=settings.learning_rate,
        evaluate_every=settings.evaluate_every,
    )
    mesh = make_mesh("data:1")
    warm_start = WarmStart(steps=settings.prior_steps)
    evaluate = functools.partial(
        evaluate_text, task, policy, training, mesh, settings.answers, "independent"
    )
    return TrainingGrid(
        task,
        policy,
        settings.objectives,
        settings.seeds,
        training,
        mesh,
        shared_at_start(evaluate),
        identity={"warm_start": dataclasses.asdict(warm_start)},
        start=functools.cache(lambda: (prior_parameters(task, policy, warm_start), None)),
    )


def write_model(folder: Path, policy: Transformer, parameters: Parameters) -> Path:
    """A new folder with the policy as a Qwen2 of `transformers`."""
    from transformers import Qwen2Config

    Qwen2Config(
        vocab_size=policy.vocabulary_size,
        hidden_size=policy.hidden_size,
        num_hidden_layers=policy.num_layers,
        num_attention_heads=policy.num_heads,
        num_key_value_heads=policy.num_key_value_heads,
        intermediate_size=policy.intermediate_size,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        eos_token_id=STOP,
        pad_token_id=PADDING,
    ).save_pretrained(folder / "shape")
    hugging_face.save(folder / "start", policy, parameters, folder / "shape")
    return folder / "start"


def tokenizer_of(task: TextTask) -> Any:
    """The task's vocabulary, as words between blanks."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: token for token, word in enumerate(task.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=task.vocabulary[PADDING]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # It writes the blanks again.
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    special = {"eos_token": task.vocabulary[STOP], "pad_token": task.vocabulary[PADDING]}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def in_trl(ours: TrainingGrid, objective: str, seed: int) -> study.Points:
    """Trains in TRL what the grid trains here."""
    extras.require("trl")
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
    from transformers.utils import logging
    from trl import GRPOConfig

    from ipsrl.integrations.trl import IPSRLTrainer

    logging.disable_progress_bar()
    # TRL's own default.
    warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing` is deprecated", FutureWarning)
    task, policy, settings = ours.environment, ours.policy, ours.settings
    numbers = {word: token for token, word in enumerate(task.vocabulary)}
    parameters, _ = ours.start()
    found = {0: ours.evaluate(0, parameters).metrics}

    def outcome_of(prompt: str, completion: str, **columns: Any) -> int | None:
        answer = [numbers[word] for word in completion.split()]
        # The tokenizer leaves the stop token out; the longest answers have none.
        outcome = task.parse([*answer, STOP][: task.max_tokens])
        return None if outcome < 0 else outcome

    admissible = [set(np.flatnonzero(row)) for row in task.admissible]

    def right(
        prompts: list[str], completions: list[str], number: list[int], **columns: Any
    ) -> list[float]:
        outcomes = map(outcome_of, prompts, completions)
        return [
            float(outcome in admissible[prompt])
            for prompt, outcome in zip(number, outcomes, strict=True)
        ]

    class Evaluations(TrainerCallback):
        def on_step_end(self, args, state, control, model, **others):
            step = state.global_step
            if step % settings.evaluate_every == 0 or step == settings.steps:
                with tempfile.TemporaryDirectory() as written:
                    model.save_pretrained(written)
                    trained = hugging_face.load_parameters(written, policy)
                found[step] = ours.evaluate(step, trained).metrics

    with tempfile.TemporaryDirectory() as folder:
        start = write_model(Path(folder), policy, parameters)
        prompts = [
            " ".join(task.vocabulary[token] for token in task.prompt_tokens(n))
            for n in range(task.num_prompts)
        ]
        trainer = IPSRLTrainer(
            AutoModelForCausalLM.from_pretrained(start),
            right,
            args=GRPOConfig(
                output_dir=f"{folder}/run",
                seed=seed,
                max_steps=settings.steps,
                learning_rate=settings.learning_rate,
                lr_scheduler_type="constant",
                max_grad_norm=settings.max_gradient_norm,
                adam_epsilon=settings.adam_epsilon,
                per_device_train_batch_size=settings.prompts_per_step * settings.group_size,
                num_generations=settings.group_size,
                max_completion_length=task.max_tokens,
                bf16=False,
                gradient_checkpointing=False,
                use_cpu=True,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts, "number": range(len(prompts))}),
            processing_class=tokenizer_of(task),
            callbacks=[Evaluations()],
            objective=objective,
            outcome_of=outcome_of,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    steps = sorted(found)
    return study.Points.of_runs(steps, [[found[step] for step in steps]])


CLAIMS = {
    "in both trainers IPS-GRPO recovers more than GRPO": at_each(
        "trainer",
        study.above(final("recovery", objective=IPS), final("recovery", objective=GRPO)),
    ),
    "for each objective the recoveries in both trainers differ by less than 0.05": at_each(
        "objective",
        study.near(final("recovery", trainer=TRL), final("recovery", trainer=OURS), 0.05),
    ),
}
HEADLINE = study.Headline(
    subject="Collapse and its causes",
    claim=(
        "In TRL's trainer, as in ipsrl's own, inverse probability scaling keeps more solutions than GRPO."
    ),
    scope="countdown with four numbers, a tiny Qwen2",
    decided_by=tuple(CLAIMS),
)
TABLE = study.Table(
    ("recovery", "validity", "effective_outcomes", "pass_at_1"),
    "{task}, mean over seeds {seeds} [95 % interval]",
    rows=("trainer", "objective"),
    decimals=2,
)


def panel(trainer: str) -> Panel:
    recovery = Line("recovery", where={"trainer": trainer})
    return Panel([recovery], trainer, "update", "recovery", ylim=(0, 0.5))


FIGURE = Panels([panel(OURS), panel(TRL)])
VARIANTS = {"inside_trl": study.Variant("recovery on countdown, trained here and in TRL")}
