"""Scores and gradient of a transformer with and without a prompt shared by a group of answers."""

import argparse
import dataclasses
import functools
import statistics
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import measuring
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.structures import Prompts


def add_command(commands: argparse._SubParsersAction) -> None:
    measuring.add_command(
        commands, "shared_prompt", run, "time groups that share their prompt beside those that do not", runs=7
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    timings = time_shared_prompts(((32, 128), (128, 128), (256, 64)), prompts=2, group=8, runs=arguments.runs)
    print("prompt  answer  shared s  repeated s  ratio  ratio of operations")
    for t in timings:
        print(f"{t.prompt:6}  {t.answer:6}  {t.shared:8.3f}  {t.repeated:10.3f}  {t.ratio:5.2f}  {t.operations:19.2f}")
    return {"shared_prompts": timings}


@dataclasses.dataclass(frozen=True)
class PromptTiming:
    """Gradients of all scores of a batch with short or long prompts; seconds of one run.

    Attributes:
      prompt, answer: tokens of each.
      shared, repeated: medians.
      ratio: repeated to shared, median over neighbouring runs.
      operations: the same ratio, of the operations counted by the compiler.
    """

    prompt: int
    answer: int
    shared: float
    repeated: float
    ratio: float
    operations: float


def time_shared_prompts(lengths: Sequence[tuple[int, int]], prompts: int, group: int, runs: int) -> list[PromptTiming]:
    """Times each `(prompt, answer)` length of `prompts` groups of `group` answers."""
    policy = Transformer(512, hidden_size=320, num_heads=8, num_key_value_heads=8)
    parameters, found = policy.init(jax.random.key(0)), []

    @jax.jit
    def gradient(parameters, trajectories):
        return jax.grad(lambda parameters: policy.score(parameters, trajectories, 1.0).log_probs.sum())(parameters)

    for prompt, answer in lengths:
        tokens = jax.random.randint(jax.random.key(1), (prompts, prompt), 0, policy.vocabulary_size)
        answers = jax.random.randint(jax.random.key(2), (prompts, group, answer), 0, policy.vocabulary_size)
        programs, operations = [], []
        for copies in (1, group):
            shape = (prompts * copies, group // copies)
            repeated = Prompts(
                jnp.arange(shape[0]), jnp.repeat(tokens, copies, axis=0), jnp.ones((shape[0], prompt), bool)
            )
            batch = given_answers(repeated, answers.reshape(*shape, answer), jnp.full(shape, answer))
            program = gradient.lower(parameters, batch).compile()
            operations.append(program.cost_analysis()["flops"])
            programs.append(functools.partial(program, parameters, batch))
        pairs = measuring.pairs(*programs, runs)
        shared, repeated = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(slow / fast for fast, slow in pairs)
        found.append(PromptTiming(prompt, answer, shared, repeated, ratio, operations[1] / operations[0]))
    return found
