"""Small models in Tunix. Import it only where Tunix is installed."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from tunix.models.qwen2 import model as qwen2
from tunix.rl import common
from tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig, Role
from tunix.rl.rollout.base_rollout import BaseRollout, RolloutConfig, RolloutOutput

WORDS, LENGTH = 12, 6
END, PAD = WORDS, WORDS + 1
ONE = (0,), (0,)
BATCHES = [["1 2", "3", "4 5 6", "7"], ["8", "9 1", "3", "2"], ["5", "5 5", "6 7", "1"]]


class Words:
    """A tokenizer of numbers separated by blanks, which ignores other words."""

    def encode(self, text):
        return [int(word) for word in text.split() if word.isdigit()]

    def decode(self, tokens):
        return " ".join(map(str, tokens))

    def bos_id(self):
        return None

    def eos_id(self):
        return END

    def pad_id(self):
        return PAD


class Table(nnx.Module):
    """A policy whose next token depends on the last one only."""

    def __init__(self, seed=0):
        drawn = np.random.default_rng(seed).standard_normal((WORDS + 2, WORDS + 2))
        self.table = nnx.Param(jnp.asarray(drawn, jnp.float32))

    def __call__(self, tokens, positions, cache, attention_mask):
        return self.table[...][tokens], cache


class Answers(BaseRollout):
    """Gives answers of random words and lengths, the same to the same prompts, in the place of a sampler."""

    shortest = 1

    def __init__(self, rollout_actor, tokenizer, mesh, rollout_config):
        self._model = rollout_actor

    def generate(self, prompts, rollout_config, **_):
        random = np.random.default_rng(zlib.crc32(" | ".join(prompts).encode()))
        lengths = random.integers(self.shortest, LENGTH, len(prompts), endpoint=True)
        tokens = [random.integers(0, WORDS, length).astype(np.int32) for length in lengths]
        padded = [[PAD] * (4 - len(prompt)) + prompt for prompt in map(Words().encode, prompts)]
        return RolloutOutput([Words().decode(row) for row in tokens], [], tokens, np.array(padded, np.int32), None)

    def get_per_token_logps(self, prompt_tokens, completion_tokens):
        return common.compute_per_token_logps(*nnx.split(self._model), prompt_tokens, completion_tokens, PAD, END)

    def update_params(self, params, filter_types=None):
        pass

    def pad_id(self):
        return PAD

    def eos_id(self):
        return END

    def model(self):
        return self._model


def qwen():
    """Tunix's own Qwen2 with random weights."""
    config = qwen2.ModelConfig(
        num_layers=1,
        vocab_size=WORDS + 2,
        embed_dim=16,
        hidden_dim=32,
        num_heads=2,
        head_dim=8,
        num_kv_heads=2,
        rope_theta=10_000,
        norm_eps=1e-6,
        use_tied_embedding=True,
    )
    made, random = qwen2.Qwen2(config, rngs=nnx.Rngs(0)), np.random.default_rng(0)
    drawn = jax.tree.map(
        lambda leaf: jnp.asarray(0.3 * random.standard_normal(leaf.shape), jnp.float32), nnx.state(made, nnx.Param)
    )
    nnx.update(made, drawn)
    return made


def mesh(*devices):
    """A mesh of the devices with these numbers."""
    devices = np.array([jax.devices()[number] for number in devices])
    return jax.sharding.Mesh(devices[:, None], ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def cluster(
    model=None, engine=Answers, reference=True, learning_rate=1.0, devices=((0,), (0,)), rollout=None, **training
):
    """A cluster that trains on some devices and samples on others; further arguments are those of RLTrainingConfig."""
    trained_on, sampled_on = (mesh(*numbers) for numbers in devices)
    sampling = {"max_tokens_to_generate": LENGTH, "max_prompt_length": 4, "kv_cache_size": 16, "temperature": 1.0}
    training = {"max_steps": len(BATCHES), "eval_every_n_steps": 100} | training
    return RLCluster(
        actor=model or Table(),
        reference=Table(1) if reference else None,
        tokenizer=Words(),
        cluster_config=ClusterConfig(
            role_to_mesh={Role.ACTOR: trained_on, Role.REFERENCE: trained_on, Role.ROLLOUT: sampled_on},
            rollout_engine=engine,
            training_config=RLTrainingConfig(actor_optimizer=optax.sgd(learning_rate), **training),
            rollout_config=RolloutConfig(**sampling | (rollout or {})),
        ),
    )


def parameters(cluster):
    """All parameters of the policy."""
    leaves = jax.tree.leaves(nnx.state(cluster.actor_trainer.model, nnx.Param))
    return np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])


def data():
    """Batches of prompts, with a column beside them."""
    for prompts in BATCHES:
        yield {"prompts": np.array(prompts), "word": np.array(list("abcd"))}
