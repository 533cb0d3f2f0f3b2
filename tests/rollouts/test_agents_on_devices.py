"""Dialogues and searches are the same numbers on eight devices as on one."""

import jax
import numpy as np
import pytest

from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts
from ipsrl.environments.agents.interview import Interview
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify
from tests.tiers import slow_after

pytestmark = pytest.mark.eight_devices

TASKS = {
    "interview": Interview(users=8, turns=8, sees="tokens"),
    "search_agent": SearchAgent(problems=8, lookups=4, failure=0.3, outcome="behaviour"),
}


@pytest.mark.parametrize("name", slow_after(1, TASKS))
def test_agents_do_the_same_on_eight_devices(name):
    task = TASKS[name]
    policy = Transformer(task.vocabulary_size, hidden_size=16, num_layers=1)
    parameters, prompts = policy.init(jax.random.key(1)), task.prompts(np.arange(8))

    def sampled(parameters, prompts):
        trajectories = sample_groups(task, policy, parameters, prompts, jax.random.key(0), 4)
        return jax.device_get((trajectories.tokens, trajectories.dictated, verify(task, trajectories)))

    alone = sampled(parameters, prompts)
    mesh = make_mesh("data:8")
    with jax.set_mesh(mesh):
        together = sampled(replicate(parameters, mesh), shard_prompts(prompts, mesh))
    assert alone[1].any()
    jax.tree.map(np.testing.assert_array_equal, together, alone)
