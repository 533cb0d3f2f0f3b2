import jax
import pytest

from experiments.forking_tokens.top_tokens import exact_measures
from ipsrl.environments.forks import Forks
from ipsrl.policies.tabular import Tabular


def test_measures_before_training():
    """Four of nine plans are right if no step of eight slips; forks are a fifth of the tokens, of log 3 nats each."""
    forks = Forks()
    policy = Tabular(forks.num_observations, forks.vocabulary_size, forks.logits(0.1))
    first = policy.init(jax.random.key(0))
    measured = {name: float(value) for name, value in exact_measures(forks, policy, first, first).items()}
    of_fork, of_step = 1.0986, 0.3944  # -0.9 log 0.9 - 0.1 log 0.05
    entropy = 0.2 * of_fork + 0.8 * of_step
    assert measured == pytest.approx(
        {
            "score": 4 / 9 * 0.9**8, "effective": 4.0, "entropy": entropy, "share": 0.2 * of_fork / entropy,
            "overlap": 1.0,
        }, rel=1e-3,
    )  # fmt: skip
