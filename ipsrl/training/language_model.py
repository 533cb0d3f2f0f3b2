"""A language model from a Hugging Face folder: loading for training on a mesh, and export."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
from jax.sharding import Mesh

from ipsrl.distributed import hosts
from ipsrl.distributed.placement import place, placements, shardings
from ipsrl.policies import hugging_face
from ipsrl.policies.adapters import LoRA, frozen_as, split
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.policy import Parameters, union
from ipsrl.policies.transformer import Transformer
from ipsrl.records.progress_line import working
from ipsrl.rollouts.randomness import stream
from ipsrl.training.storage.stored_tree import named_leaves


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """A checkpoint and the policy that computes it.

    Attributes:
      model_dir: folder of the checkpoint.
      policy: described by the folder, with the run's dtype, rematerialisation and adapters.
    """

    model_dir: str
    policy: Transformer

    @classmethod
    def read(cls, model_dir: str, dtype: str, remat: str, lora: LoRA | None) -> "LanguageModel":
        """Reads the configuration, but no weights.

        Raises:
          ValueError: the folder holds no checkpoint of a known architecture, an argument is unknown, or there is less
            memory than the weights take.
        """
        policy = dataclasses.replace(read_policy(model_dir), dtype=dtype, remat=remat, lora=lora)
        policy.require_memory()
        return cls(model_dir, policy)

    def load(self, mesh: Mesh) -> tuple[Parameters | Callable[[], Parameters], Parameters | None]:
        """The initial trained parameters and the frozen parameters, both on the mesh.

        With adapters the weights are read once and shared by all runs, which start with the same adapters. Without
        adapters the returned function reads them anew for each run, so that no second copy stays in memory.
        """
        lora = self.policy.lora
        if lora is None:
            return lambda: self._weights(mesh), None
        with jax.set_mesh(mesh):
            frozen = self._weights(mesh, "bfloat16" if lora.frozen == "bfloat16" else "float32", lora.frozen)
        # Compiled once for all layers. The compiler drops unused outputs: `init_layer` alone makes matrices as well.
        layer = jax.jit(lambda key, number: split(self.policy.init_layer(key, number))[0])
        key = stream(0, 0, "adapters")
        adapters = {"layers": {number: layer(key, number) for number in range(self.policy.num_layers)}}
        return place(adapters, placements(self.policy.placement_rules, adapters, mesh), mesh), frozen

    def export(self, folder: Path, trained: Parameters, frozen: Parameters | None) -> None:
        """Writes a folder that `transformers` can load, if it does not exist; adapters are merged into the matrices."""
        if not hosts.broadcast(folder.exists()):
            hugging_face.save(folder, self.policy, union(trained, frozen), self.model_dir)

    def _weights(self, mesh: Mesh, read_as: str = "float32", kept_as: str = "float32") -> Parameters:
        plain = dataclasses.replace(self.policy, lora=None)
        placed = placements(plain.placement_rules, jax.eval_shape(plain.init, jax.random.key(0)), mesh)

        def convert(path, leaf):
            kept = {path: frozen_as(kept_as, path, leaf)}
            # A quantised kernel may have another placement than the kernel itself.
            return place(kept, placements(self.policy.placement_rules, kept, mesh), mesh)[path]

        with working(f"reading {self.model_dir}"):
            return hugging_face.load_parameters(
                self.model_dir, plain, named_leaves(shardings(placed, mesh)), read_as, convert
            )
