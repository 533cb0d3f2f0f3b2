"""Trajectory balance on gfnx's hypergrid, with the settings of its baseline `tb_hypergrid`, as a contender.

The environment, the reward and the rollout are the library's; its baselines are scripts that are not installed with it,
so the training step is written here: an MLP of 2 x 256 with a head for the learned backward policy, Adam with rate
0.001 and 0.1 for log Z, exploration that falls from 0.1 to 0 in 30,000 updates. Several updates form one compiled loop,
as in the baseline; nothing is logged.
"""

import functools
import importlib.metadata
import itertools
import sys

import gfnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from gfnx.reward.hypergrid import GeneralHypergridRewardModule

from benchmarks.contender import serve
from benchmarks.peers.hypergrid_task import R0, R1, R2, Task, steps

HIDDEN, RATE, LOG_Z_RATE, EXPLORATION, EXPLORATION_UPDATES = 256, 1e-3, 0.1, 0.1, 30_000


def main() -> None:
    task = Task.read(sys.argv[1])
    environment = gfnx.HypergridEnvironment(
        GeneralHypergridRewardModule(R0, R1, R2), dim=task.dimensions, side=task.side
    )
    environment_parameters = environment.init(jax.random.key(1))
    forward_actions, backward_actions = environment.action_space.n, environment.backward_action_space.n
    widths = (environment.observation_space.shape[0], HIDDEN, HIDDEN, forward_actions + backward_actions)
    optimizer = optax.multi_transform(
        {"network": optax.adam(RATE), "log_z": optax.adam(LOG_Z_RATE)}, {"network": "network", "log_z": "log_z"}
    )
    exploration = optax.linear_schedule(EXPLORATION, 0.0, EXPLORATION_UPDATES)

    def act(epsilon, key, observations, network):
        outputs = apply(network, observations)
        explores = jax.random.bernoulli(key, epsilon, (observations.shape[0], 1))
        forward, backward = outputs[..., :forward_actions], outputs[..., forward_actions:]
        return jnp.where(explores, 0.0, forward), {"forward_logits": forward, "backward_logits": backward}

    def loss(parameters, walks):
        outputs = apply(parameters["network"], walks.obs)
        over_time = functools.partial(jax.vmap, in_axes=(1, None), out_axes=1)
        illegal = over_time(environment.get_invalid_mask)(walks.state, environment_parameters)
        log_forward = chosen_log_probs(outputs[..., :forward_actions], illegal, walks.action)
        log_forward = jnp.where(walks.pad, 0.0, log_forward).sum(axis=1)

        before, after = (
            jax.tree.map(lambda leaf, part=part: leaf[:, part], walks.state) for part in (slice(-1), slice(1, None))
        )
        back = jax.vmap(environment.get_backward_action, in_axes=(1, 1, 1, None), out_axes=1)(
            before, walks.action[:, :-1], after, environment_parameters
        )
        illegal = over_time(environment.get_invalid_backward_mask)(after, environment_parameters)
        log_backward = chosen_log_probs(outputs[:, 1:, forward_actions:], illegal, back)
        padding = walks.pad[:, :-1]
        target = jnp.where(padding, 0.0, log_backward + walks.log_gfn_reward[:, :-1]).sum(axis=1)
        return ((parameters["log_z"] + log_forward - target) ** 2).mean()

    def update(number, carry):
        parameters, optimizer_state, key = carry
        key, rollout_key = jax.random.split(key)
        walks, _ = gfnx.utils.forward_rollout(
            rollout_key,
            task.batch,
            functools.partial(act, exploration(number)),
            parameters["network"],
            environment,
            environment_parameters,
        )
        updates, optimizer_state = optimizer.update(jax.grad(loss)(parameters, walks), optimizer_state, parameters)
        return optax.apply_updates(parameters, updates), optimizer_state, key

    @functools.partial(jax.jit, donate_argnums=1)
    def some_updates(first, carry):
        return jax.lax.fori_loop(first, first + task.updates, update, carry)

    network_key, run_key = jax.random.split(jax.random.key(task.seed))
    parameters = {"network": init(network_key, widths), "log_z": jnp.zeros(())}
    carry, done = (parameters, optimizer.init(parameters), run_key), 0
    program = some_updates.lower(0, carry).compile()
    observations = jax.nn.one_hot(task.coordinates, task.side).reshape(len(task.coordinates), -1)

    def train():
        nonlocal carry, done
        carry = jax.block_until_ready(program(done, carry))
        done += task.updates

    def logits():
        return np.asarray(apply(carry[0]["network"], observations)[:, :forward_actions])

    serve(
        {
            "version": importlib.metadata.version("gfnx"),
            "jax": jax.__version__,
            "parameters": sum(leaf.size for leaf in jax.tree.leaves(parameters)),
        },
        steps(task, train, logits),
    )


def init(key, widths):
    """Kernels and biases, uniform as in equinox, which the baseline uses."""
    layers = []
    for fan_in, fan_out in itertools.pairwise(widths):
        key, kernel_key, bias_key = jax.random.split(key, 3)
        bound = fan_in**-0.5
        kernel = jax.random.uniform(kernel_key, (fan_in, fan_out), minval=-bound, maxval=bound)
        layers.append((kernel, jax.random.uniform(bias_key, (fan_out,), minval=-bound, maxval=bound)))
    return layers


@jax.jit
def apply(layers, x):
    *hidden, (kernel, bias) = layers
    for hidden_kernel, hidden_bias in hidden:
        x = jax.nn.relu(x @ hidden_kernel + hidden_bias)
    return x @ kernel + bias


def chosen_log_probs(logits, illegal, actions):
    log_probs = jax.nn.log_softmax(gfnx.utils.mask_logits(logits, illegal))
    return jnp.take_along_axis(log_probs, actions[..., None], axis=-1)[..., 0]


if __name__ == "__main__":
    main()
