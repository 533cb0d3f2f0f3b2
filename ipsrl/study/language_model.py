"""A language model from a folder of Hugging Face, as the policy of a study, and its flags."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
from jax.sharding import Mesh, NamedSharding

from ipsrl.distributed import hosts
from ipsrl.distributed.placement import place, placements
from ipsrl.environments.language import LanguageTask
from ipsrl.environments.questions import Questions
from ipsrl.fields import non_negative, positive
from ipsrl.policies import hugging_face
from ipsrl.policies.adapters import LoRA, frozen_as, split
from ipsrl.policies.hugging_face_config import num_positions, read_policy
from ipsrl.policies.policy import Parameters, union
from ipsrl.policies.transformer import Transformer
from ipsrl.study.settings import Settings
from ipsrl.training.progress_line import working
from ipsrl.training.randomness import stream


@dataclasses.dataclass(frozen=True)
class LanguageModelFlags(Settings):
    """A language model is the checkpoint in the folder `model_dir`, which answers in at most `max_tokens` tokens.

    A prompt has at most `longest_prompt` tokens; of earlier answers it shows the latest that fit.
    `lora_rank` above 0 trains adapters on weights that are kept as `frozen_dtype`; `export` writes every trained model
    to its run's folder as `model`.
    """

    model_dir: str = ""
    max_tokens: int = positive(256)
    longest_prompt: int = positive(1024)
    system_prompt: str = ""
    thinking: bool = False
    dtype: str = "float32"
    remat: str = "none"
    lora_rank: int = non_negative(0)
    lora_alpha: float = 32.0
    lora_targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    frozen_dtype: str = "float32"
    export: bool = False


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """A checkpoint, and how it is computed with.

    Attributes:
      flags: say which, and how.
      policy: what the folder describes, with the type, the rematerialisation and the adapters of the run.
    """

    flags: LanguageModelFlags
    policy: Transformer

    @classmethod
    def of(cls, flags: LanguageModelFlags) -> "LanguageModel":
        """Reads the configuration, no weights.

        Raises:
          ValueError: the folder holds no checkpoint of a known architecture, a flag is not one of the known, or weights
            that are trained would be frozen.
        """
        lora = None
        if flags.lora_rank:
            lora = LoRA(flags.lora_rank, flags.lora_alpha, flags.lora_targets, flags.frozen_dtype)
        elif flags.frozen_dtype != LanguageModelFlags.frozen_dtype:
            raise ValueError(
                f"--frozen_dtype={flags.frozen_dtype} is the type of what adapters are trained on: give --lora_rank too"
            )
        policy = read_policy(flags.model_dir)
        return cls(flags, dataclasses.replace(policy, dtype=flags.dtype, remat=flags.remat, lora=lora))

    def environment(self, task: Questions) -> LanguageTask:
        """The task in the tokens and the chat template of the model.

        Raises:
          ValueError: prompts and answers may be longer together than the model knows positions, or as `LanguageTask`.
        """
        flags, positions = self.flags, num_positions(self.flags.model_dir)
        if flags.longest_prompt + flags.max_tokens > positions:
            raise ValueError(
                f"longest_prompt {flags.longest_prompt} and max_tokens {flags.max_tokens} are together more than the "
                f"{positions} positions that the model in {flags.model_dir} was made for: lower one of them"
            )
        return LanguageTask(
            task,
            flags.model_dir,
            self.policy.vocabulary_size,
            flags.max_tokens,
            flags.longest_prompt,
            system_prompt=flags.system_prompt,
            thinking=flags.thinking,
        )

    def load(self, mesh: Mesh) -> tuple[Parameters | Callable[[], Parameters], Parameters | None]:
        """Where runs start, and what they do not train, both on the mesh.

        With adapters the weights are read once for all runs, which start with the same adapters. Without them they are
        read for each run anew, by the function that is returned: so they exist no more often than they are trained.
        """
        lora = self.policy.lora
        if lora is None:
            return lambda: self._weights(mesh), None
        with jax.set_mesh(mesh):
            frozen = self._weights(mesh, "bfloat16" if lora.frozen == "bfloat16" else "float32", lora.frozen)
        # The compiler leaves out what nobody asks for: the weights that `init` would make as well.
        adapters = jax.jit(lambda key: split(self.policy.init(key))[0])(stream(0, 0, "adapters"))
        return place(adapters, placements(self.policy.placement_rules, adapters, mesh), mesh), frozen

    def export(self, folder: Path, trained: Parameters, frozen: Parameters | None) -> None:
        """Writes a folder that `transformers` loads, unless an earlier try has; adapters are merged into matrices."""
        if not hosts.tell_all(folder.exists()):
            hugging_face.save(folder, self.policy, union(trained, frozen), self.flags.model_dir)

    def _weights(self, mesh: Mesh, read_as: str = "float32", kept_as: str = "float32") -> Parameters:
        plain = dataclasses.replace(self.policy, lora=None)
        placed = placements(plain.placement_rules, jax.eval_shape(plain.init, jax.random.key(0)), mesh)
        shardings = {
            jax.tree_util.keystr(path, simple=True, separator="/"): NamedSharding(mesh, placement.spec)
            for path, placement in jax.tree.leaves_with_path(placed)
        }

        def convert(path, leaf):
            kept = {path: frozen_as(kept_as, path, leaf)}
            # What becomes of a kernel in few bits need not lie where the kernel does.
            return place(kept, placements(self.policy.placement_rules, kept, mesh), mesh)[path]

        with working(f"reading {self.flags.model_dir}"):
            return hugging_face.load_parameters(
                self.flags.model_dir, plain, lambda path, _: shardings[path], read_as, convert
            )
