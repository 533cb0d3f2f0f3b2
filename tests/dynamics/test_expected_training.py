import jax
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.dynamics.expected_training import expected_training
from ipsrl.dynamics.expected_update import Steps, expected_update

REWARDS, START = (1.0, 1.0, 0.0), ((0.5, 0.3, 0.2),)


@pytest.mark.slow
def test_a_coefficient_follows_the_entropy_of_earlier_batches():
    # The entropy is always below 5 nats: the first batch has no bonus, the next ones 0.05 and 0.1.
    path = expected_training(objectives.make("skywork_entropy(target=5, step=0.05)"), REWARDS, START, 3, Steps(1), 3)
    with jax.enable_x64(True):
        for batch, coefficient in enumerate((0.0, 0.05, 0.1)):
            same = objectives.make(f"grpo(entropy={coefficient})")
            update = jax.jit(lambda z, same=same: expected_update(same, z, np.array(REWARDS), 3))(path[batch, 0])
            np.testing.assert_allclose(path[batch + 1, 0] - path[batch, 0], 0.5 * update, rtol=1e-5)


def test_a_state_of_what_was_sampled_is_refused():
    with pytest.raises(ValueError, match="the objective's state depends on the sampled answers"):
        expected_training(objectives.make("ips_grpo(probability=ema)"), REWARDS, START, 3, Steps(1), 2)


def test_there_must_be_an_update():
    with pytest.raises(ValueError, match="updates is 0, it must be at least 1"):
        expected_training(objectives.make("grpo"), REWARDS, START, 3, Steps(1), 0)
