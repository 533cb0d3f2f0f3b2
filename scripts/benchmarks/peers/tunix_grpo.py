"""Steps of Tunix's GRPOLearner: a contender, run by the Python of Tunix's own environment.

The learner runs as always, `learner.train(batches)`, with Tunix's own Qwen2 and its own sampler, and is paused where it
fetches the next batch until the next step is requested. Clipping of gradients, checkpoints and evaluation are off. Its
sampler draws the same random numbers in every step, which costs the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from tunix.models.qwen2 import model as qwen2
from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner
from tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig, Role
from tunix.rl.rollout.base_rollout import RolloutConfig

from benchmarks import workloads
from benchmarks.peers import grpo_task
from benchmarks.peers.gate import Gate
from benchmarks.workloads import Workload

CHOICES = {
    # Of the computation, and of the parameters.
    "dtype": ("float32", "bfloat16"),
    "parameters": ("float32", "bfloat16"),
    # What is recomputed for the gradient.
    "remat": ("none", "block", "decoder"),
}
NUMBERS = ("micro_batches",)

# Found as for TRL, in CPU seconds a step. S: float32 2.4, bfloat16 1.14. M: float32 13.8, bfloat16 9.8, with parameters
# in bfloat16 11.0, bfloat16 with 4 micro-batches 11.0. L, one or two steps: bfloat16 75, with 8 micro-batches 59 (and
# 3.0 GB instead of 10.8), float32 with 8 micro-batches 66.
FASTEST = {"dtype": "bfloat16", "parameters": "float32", "remat": "none", "micro_batches": 1}
BEST = {"S": FASTEST, "M": FASTEST, "L": FASTEST | {"micro_batches": 8}}


class Numbers:
    """A tokenizer for numbers separated by blanks.

    End and padding are outside the model's vocabulary: no answer can end early, and nothing is padded.
    """

    def __init__(self, size: int):
        self._size = size

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens))

    def bos_id(self) -> None:
        return None

    def eos_id(self) -> int:
        return self._size

    def pad_id(self) -> int:
        return self._size + 1


def model(workload: Workload, settings: dict[str, Any]) -> qwen2.Qwen2:
    """Qwen2 in the shape of the workload with random weights; Tunix itself starts with zeros in the MLP, for
    checkpoints.
    """
    config = qwen2.ModelConfig(
        num_layers=workload.num_layers,
        vocab_size=workload.vocabulary_size,
        embed_dim=workload.hidden_size,
        hidden_dim=workload.intermediate_size,
        num_heads=workload.num_heads,
        head_dim=workload.hidden_size // workload.num_heads,
        num_kv_heads=workload.num_key_value_heads,
        rope_theta=10_000,
        norm_eps=1e-6,
        use_tied_embedding=True,
        remat_config=qwen2.RematConfig[settings["remat"].upper()],
        dtype=jnp.dtype(settings["dtype"]),
        param_dtype=jnp.dtype(settings["parameters"]),
    )
    made = qwen2.Qwen2(config, rngs=nnx.Rngs(0))
    random = np.random.default_rng(0)
    nnx.update(
        made,
        jax.tree.map(
            lambda leaf: jnp.asarray(0.02 * random.standard_normal(leaf.shape), leaf.dtype) if leaf.ndim > 1 else leaf,
            nnx.state(made, nnx.Param),
        ),
    )
    return made


def cluster(workload: Workload, settings: dict[str, Any], policy: qwen2.Qwen2) -> RLCluster:
    """One device for everything: one generation and one update in each step."""
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    return RLCluster(
        actor=policy,
        tokenizer=Numbers(workload.vocabulary_size),
        cluster_config=ClusterConfig(
            role_to_mesh=dict.fromkeys((Role.ACTOR, Role.REFERENCE, Role.ROLLOUT), mesh),
            training_config=RLTrainingConfig(
                actor_optimizer=optax.adam(workload.learning_rate),
                mini_batch_size=workload.prompts,
                train_micro_batch_size=workload.prompts // settings["micro_batches"],
                rollout_micro_batch_size=workload.prompts,
                max_steps=grpo_task.STEPS,
                eval_every_n_steps=grpo_task.STEPS,
            ),
            rollout_config=RolloutConfig(
                max_tokens_to_generate=workload.completion_length,
                max_prompt_length=workload.prompt_length,
                kv_cache_size=workload.prompt_length + workload.completion_length,
                temperature=workloads.TEMPERATURE,
                top_p=1.0,
                top_k=None,
            ),
        ),
    )


def main() -> None:
    workload, settings = grpo_task.settings(__doc__, CHOICES, NUMBERS, BEST)
    policy, rewards, gate = model(workload, settings), grpo_task.Rewards(workload), Gate()
    parameters = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(policy, nnx.Param)))
    packages = ("google-tunix", "flax", "jax", "jaxlib")
    description = grpo_task.description("Tunix", packages, workload, parameters, settings)
    trained = cluster(workload, settings, policy)

    def even(prompts: Sequence[str], completions: Sequence[str], **_) -> list[float]:
        return rewards([[int(word) for word in completion.split()] for completion in completions])

    def batches() -> Iterator[dict[str, np.ndarray]]:
        texts = np.array(grpo_task.texts(workload))
        gate.wait()
        for step in range(grpo_task.STEPS):
            yield {"prompts": texts.take(np.arange(workload.prompts) + step * workload.prompts, mode="wrap")}
            # The learner waits for its update before it fetches a batch; this makes sure of it.
            jax.block_until_ready(nnx.state(trained.actor_trainer.model))
            gate.wait(rewards.report)

    config = GRPOConfig(num_generations=workload.group_size, num_iterations=1, beta=0.0)
    learner = GRPOLearner(trained, config, even)
    gate.open(description)
    learner.train(batches())


if __name__ == "__main__":
    main()
