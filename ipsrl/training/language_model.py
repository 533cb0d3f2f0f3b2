"""A language model from a folder of Hugging Face, for training on a mesh: what its weights start from and become."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
from jax.sharding import Mesh, NamedSharding

from ipsrl.distributed import hosts
from ipsrl.distributed.placement import place, placements
from ipsrl.policies import hugging_face
from ipsrl.policies.adapters import LoRA, frozen_as, split
from ipsrl.policies.hugging_face_config import read_policy
from ipsrl.policies.policy import Parameters, union
from ipsrl.policies.transformer import Transformer
from ipsrl.records.progress_line import working
from ipsrl.training.randomness import stream


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """A checkpoint, and how it is computed with.

    Attributes:
      model_dir: its folder.
      policy: what the folder describes, with the type, the rematerialisation and the adapters of the run.
    """

    model_dir: str
    policy: Transformer

    @classmethod
    def read(cls, model_dir: str, dtype: str, remat: str, lora: LoRA | None) -> "LanguageModel":
        """Reads the configuration, no weights.

        Raises:
          ValueError: the folder holds no checkpoint of a known architecture, or an argument is not one of the known.
        """
        return cls(model_dir, dataclasses.replace(read_policy(model_dir), dtype=dtype, remat=remat, lora=lora))

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
        if not hosts.broadcast(folder.exists()):
            hugging_face.save(folder, self.policy, union(trained, frozen), self.model_dir)

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

        with working(f"reading {self.model_dir}"):
            return hugging_face.load_parameters(
                self.model_dir, plain, lambda path, _: shardings[path], read_as, convert
            )
