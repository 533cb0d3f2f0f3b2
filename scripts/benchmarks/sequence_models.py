"""Scores, gradients and samples of a selective state-space model beside a transformer of equal size."""

import argparse
import dataclasses
import functools
import statistics
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from benchmarks import measuring
from ipsrl.environments.tasks.addition import Addition
from ipsrl.policies.policy import Policy
from ipsrl.policies.state_space import StateSpace
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.structures import Prompts

SIZES = ("small", "paper")


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(
        commands, "sequence_models", run, "time a state-space model beside a transformer of equal size", runs=7
    )
    command.add_argument("--sizes", default=",".join(SIZES), help="of small, paper; by default %(default)s")
    command.add_argument("--length", type=int, default=64, help="tokens of an answer, by default %(default)s")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    measuring.check_runs(arguments.runs)
    sizes = measuring.chosen("sizes", arguments.sizes, SIZES)
    if arguments.length < 1:
        raise ValueError(f"--length is {arguments.length}, it must be at least 1")
    found = []
    print("size    part       parameters            state space s  transformer s  ratio")
    for size in sizes:
        for timing in time_models(size, answers=64, length=arguments.length, runs=arguments.runs):
            parameters = f"{timing.parameters[0]:,} {timing.parameters[1]:,}"
            print(
                f"{size:6}  {timing.part:9}  {parameters:20}  {timing.state_space:13.3f}  {timing.transformer:13.3f}  "
                f"{timing.ratio:5.2f}"
            )
            found.append(timing)
    return {"sequence_models": found}


@dataclasses.dataclass(frozen=True)
class ModelTiming:
    """Seconds of one run.

    Attributes:
      size: one of `SIZES`.
      part: "scores" of all answers, their "gradient", or "sampling" of as many tokens, one after the other.
      parameters: of the two.
      state_space, transformer: medians.
      ratio: state space to transformer, median over neighbouring runs.
    """

    size: str
    part: str
    parameters: tuple[int, int]
    state_space: float
    transformer: float
    ratio: float


def models(size: str, vocabulary_size: int) -> tuple[Policy, Policy]:
    """A state-space model and a transformer with nearly the same number of parameters."""
    if size == "small":
        return (
            StateSpace(vocabulary_size, hidden_size=128, num_layers=4),
            Transformer(vocabulary_size, hidden_size=128, num_layers=3, num_key_value_heads=4, intermediate_size=224),
        )
    return (
        StateSpace(vocabulary_size, hidden_size=256, num_layers=12),
        Transformer(vocabulary_size, hidden_size=256, num_layers=7, num_key_value_heads=4, intermediate_size=640),
    )


def time_models(size: str, answers: int, length: int, runs: int) -> list[ModelTiming]:
    """Times `answers` answers of `length` tokens, each to a prompt of its own of one token."""
    vocabulary_size = Addition().vocabulary_size
    tokens = jax.random.randint(jax.random.key(1), (answers, 1, length), 0, vocabulary_size)
    prompts = Prompts(jnp.arange(answers), jnp.zeros((answers, 1), jnp.int32), jnp.ones((answers, 1), bool))
    batch = given_answers(prompts, tokens, jnp.full((answers, 1), length))
    programs, sizes = {"scores": [], "gradient": [], "sampling": []}, []
    for policy in models(size, vocabulary_size):
        parameters = policy.init(jax.random.key(0))
        sizes.append(sum(leaf.size for leaf in jax.tree.leaves(parameters)))

        def scores(parameters, policy=policy):
            return policy.score(parameters, batch, 1.0).log_probs.sum()

        parts = {"scores": scores, "gradient": jax.grad(scores)}
        parts["sampling"] = functools.partial(_sampled, policy, prompts=prompts, length=length)
        for name, function in parts.items():
            programs[name].append(functools.partial(jax.jit(function), parameters))
    timings = []
    for part, both in programs.items():
        pairs = measuring.pairs(*both, runs)
        medians = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(ours / other for ours, other in pairs)
        timings.append(ModelTiming(size, part, tuple(sizes), *medians, ratio))
    return timings


def _sampled(policy: Policy, parameters: Any, prompts: Prompts, length: int) -> Array:
    """`[P, length]`, the likeliest token after each, as the sampler's loop asks for it."""

    def one(carry, position):
        token, cache = carry
        logits, cache = policy.step(parameters, cache, token, position)
        token = logits.argmax(axis=-1).astype(jnp.int32)
        return (token, cache), token

    first = (prompts.tokens[:, -1:], policy.start(parameters, prompts, 1, length))
    return jax.lax.scan(one, first, jnp.arange(length))[1]
