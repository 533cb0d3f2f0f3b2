"""Groups for tests, sampled and verified as in a training step."""

import jax

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.sources.source import Actors, Request, Sampled
from ipsrl.training.trainer import Trainer


def collect(environment, policy, parameters, prompts, seed, step, group_size, temperature, top_tokens=0):
    """The groups of a step."""
    source = Sampled(environment, policy, len(prompts.index), group_size, Decoding(temperature), top_tokens)
    _, groups, _ = source(None, Actors(parameters), Request(seed, step, prompts))
    return groups


def sample_and_verify(environment, policy, parameters, prompts, key, group_size, temperature, top_tokens=0):
    """The groups that a key samples."""
    source = Sampled(environment, policy, len(prompts.index), group_size, Decoding(temperature), top_tokens)
    trajectories = source.answers(parameters, prompts, key, group_size)
    return trajectories, source.verify(None, trajectories, key)[0]


def steps_of(source, number, actors, reward=None, seed=0):
    """Groups, means of the metrics and state of the first steps of a source."""
    state, found = source.init(actors, seed, reward), []
    for step in range(number):
        state, groups, metrics = source(state, actors, Request(seed, step))
        means = {name: float(total / max(count, 1)) for name, (total, count) in metrics.items()}
        found.append((jax.device_get(groups), means, jax.device_get(state)))
    return found


def ask(environment, policy, settings, parameters, seed, step, reference=None, objective="grpo", mesh="replica:-1"):
    """The groups of a step by the source of some settings, and their metrics."""
    source = Trainer(environment, policy, objectives.make(objective), settings).groups_from
    actors = Actors(parameters, reference)
    with jax.set_mesh(make_mesh(mesh)):
        _, groups, metrics = source(source.init(actors, seed, None), actors, Request(seed, step))
    return groups, {name: total / max(count, 1) for name, (total, count) in metrics.items()}


def check_run(environment, policy, objective, settings, mesh="replica:-1"):
    """Raises what the run would, before anything is computed."""
    with jax.set_mesh(make_mesh(mesh)):
        Trainer(environment, policy, objective, settings).check()
