"""Turns per second of environments that answer the policy, sampled and verified, with a small policy."""

import argparse
import dataclasses
import functools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import measuring
from ipsrl.environments.agents.interview import Interview
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.environments.environment import Environment
from ipsrl.policies.policy import Policy
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify


@dataclasses.dataclass(frozen=True)
class Agent:
    """An environment and a policy whose dialogues are timed.

    Attributes:
      environment, policy: see their protocols.
      turns: of all dialogues of a batch, from its tokens.
    """

    environment: Environment
    policy: Policy
    turns: Callable[[Any], int]


def interview(table: bool) -> Agent:
    """Dialogues of 40 turns."""
    task = Interview(users=63, sees="states" if table else "tokens")
    return Agent(task, _policy(task, table), lambda found: found.truncated.size * task.turns)


def search_agent(table: bool) -> Agent:
    """Searches of up to five look-ups, each of which is a turn, as is the answer."""
    task = SearchAgent(sees="state" if table else "token")
    return Agent(task, _policy(task, table), lambda found: int(found.dictated.sum()) + found.truncated.size)


def _policy(task: Environment, table: bool) -> Policy:
    if table:
        return Tabular.of(task)
    return Transformer(task.vocabulary_size, hidden_size=32, num_layers=2)


AGENTS = {
    f"{name} {policy}": functools.partial(agent, policy == "table")
    for name, agent in {"interview": interview, "search_agent": search_agent}.items()
    for policy in ("table", "transformer")
}
"""Name -> what makes it: a row for each environment and policy, a table or a small transformer."""


def add_command(commands: argparse._SubParsersAction) -> None:
    command = measuring.add_command(commands, "agents", run, "time the turns of environments that answer", runs=7)
    command.add_argument("--prompts", type=int, default=64, help="of a batch, by default %(default)s")
    command.add_argument("--group", type=int, default=16, help="answers to each, by default %(default)s")
    command.add_argument("--only", default=",".join(AGENTS), help="environments with policies, by default %(default)s")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    names = measuring.chosen("only", arguments.only, AGENTS)
    timings = time_agents(names, arguments.prompts, arguments.group, arguments.runs)
    print(f"{arguments.prompts} prompts, groups of {arguments.group}")
    print("environment               turns/s  seconds of a batch")
    for timing in timings:
        print(f"{timing.environment:24}  {timing.rate:8,.0f}  {timing.seconds}")
    return {"agents": timings}


@dataclasses.dataclass(frozen=True)
class AgentTiming:
    """One environment.

    Attributes:
      environment: its name.
      prompts, group: of a batch.
      turns: of a batch.
      rate: turns per second, median.
      seconds: of a batch, sampled and verified.
    """

    environment: str
    prompts: int
    group: int
    turns: int
    rate: float
    seconds: measuring.Spread


def time_agents(names: Sequence[str], prompts: int, group: int, runs: int) -> list[AgentTiming]:
    """Times whole batches: sampling, the words of the environment, outcomes and rewards.

    Raises:
      ValueError: there are too few runs, prompts or answers.
    """
    measuring.check_runs(runs)
    for flag, value in (("prompts", prompts), ("group", group)):
        if value < 1:
            raise ValueError(f"--{flag} is {value}, it must be at least 1")
    found = []
    for name in names:
        agent = AGENTS[name]()
        batch = functools.partial(sampled_and_verified, agent, prompts, group)
        turns = agent.turns(batch()[0])
        times = [measuring.seconds(batch) for _ in range(runs)]
        rate = turns / statistics.median(times)
        found.append(AgentTiming(name, prompts, group, turns, rate, measuring.Spread.of(times)))
    return found


def sampled_and_verified(agent: Agent, prompts: int, group: int) -> tuple[Any, Any]:
    """Trajectories and outcomes of a batch."""
    task = agent.environment
    chosen = task.prompts(np.arange(prompts) % task.num_prompts)
    parameters = agent.policy.init(jax.random.key(0))
    sampled = sample_groups(task, agent.policy, parameters, chosen, jax.random.key(0), group)
    return sampled, verify(task, sampled)
