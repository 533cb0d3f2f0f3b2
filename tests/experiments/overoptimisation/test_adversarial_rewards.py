import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_expit, rel_entr

from experiments.overoptimisation.adversarial_rewards import chosen, max_min
from ipsrl.objectives import make
from ipsrl.structures import PolicyScores, Sizes
from tests.objectives.groups import rollouts_of


def game(seed: int, arms: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Preferences among six arms that each win once at least; arm 6 always loses, arm 7 is in no pair."""
    rng = np.random.default_rng(seed)
    wins = rng.integers(0, 6, (arms, arms)) + np.eye(arms, k=1, dtype=int)
    np.fill_diagonal(wins, 0)
    wins[6:] = 0
    wins[:, 7] = 0
    return wins, rng.dirichlet(np.ones(arms))


def among_winners(seed: int) -> tuple[np.ndarray, np.ndarray]:
    wins, reference = (table[:6] for table in game(seed))
    return wins[:, :6], reference / reference.sum()


def payoff(policy, rewards, wins, reference, beta, eta) -> float:
    """J of a policy and rewards `[K]`, finite."""
    gain = (policy - chosen(wins)) @ rewards - beta * rel_entr(policy, reference).sum()
    misfit = -(wins * log_expit(rewards[:, None] - rewards)).sum() / wins.sum()
    return eta * gain + misfit


@pytest.mark.parametrize(
    ("beta", "eta", "seed"), [*itertools.product((0.1, 0.5, 1.0), (0.05, 0.2, 1.0, 10.0), (0, 1)), (0.1, 0.005, 2)]
)
def test_the_policy_and_its_implicit_reward_are_a_saddle(beta, eta, seed):
    """No other policy earns more by the reward beta log(pi / pi_ref), and no other reward pays this policy less.

    So the maximum of minima is the minimum of maxima, the RPO loss.
    """
    wins, reference = among_winners(seed)
    policy = max_min(wins, reference, beta, eta)
    implicit = beta * np.log(policy / reference)
    value = payoff(policy, implicit, wins, reference, beta, eta)
    rng = np.random.default_rng(1)
    for scale in (0.01, 0.1, 1.0):
        for _ in range(20):
            other = policy * np.exp(scale * rng.normal(size=6))
            assert payoff(other / other.sum(), implicit, wins, reference, beta, eta) < value
            paid = implicit + scale * rng.normal(size=6)
            assert payoff(policy, paid, wins, reference, beta, eta) > value


def test_arms_that_never_win_are_left_out():
    policy = max_min(*game(0), 0.5, 0.2)
    assert policy[:6].min() > 0
    assert not policy[6:].any()


@pytest.mark.parametrize(("text", "weight"), [("cumulative", 1.0), ("average", 0.5)])
def test_the_policy_is_where_the_loss_of_the_catalog_is_least(text, weight):
    """There the gradient of `rpo` by the logits vanishes; an answer of one token has `average` eta = beta * eta."""
    (wins, reference), beta, eta = among_winners(0), 0.5, 0.2
    pairs = np.repeat(np.argwhere(wins), wins[wins > 0], axis=0)
    objective = make(f"rpo(form={text}, beta={beta}, eta={eta * weight})")
    rollouts = rollouts_of(
        np.zeros((len(pairs), 2, 1)),
        rewards=np.tile([1.0, 0.0], (len(pairs), 1)),
        reference_log_probs=np.log(reference)[pairs][..., None],
    )
    weights, _, _ = objective.weigh(rollouts, objective.init(Sizes(len(pairs))))

    def loss(logits):
        log_probs = jax.nn.log_softmax(logits)[pairs][..., None]
        output = objective.loss(PolicyScores(log_probs, jnp.zeros_like(log_probs)), rollouts, weights)
        return output.loss_sum / output.count

    policy = max_min(wins, reference, beta, eta)
    at = jnp.log(policy)
    assert np.abs(jax.grad(loss)(at)).max() < 1e-6
    # E_base[log pi_ref] is what the loss leaves out.
    value = payoff(policy, beta * np.log(policy / reference), wins, reference, beta, eta)
    assert float(loss(at)) == pytest.approx(value - eta * beta * chosen(wins) @ np.log(reference), abs=1e-6)


def test_two_arms_by_hand():
    """3 : 1 wins, a uniform reference: eta (base - pi) + base - sigmoid(beta log-odds of pi) = 0 at the first arm."""
    wins, reference = np.array([[0, 3], [1, 0]]), np.array([0.5, 0.5])
    assert max_min(wins, reference, 1.0, 0.5)[0] == pytest.approx(0.75, abs=1e-9)
    policy = max_min(wins, reference, 0.5, 0.5)
    margin = 0.5 * np.log(policy[0] / policy[1])
    assert 0.5 * (0.75 - policy[0]) + 0.75 - 1 / (1 + np.exp(-margin)) == pytest.approx(0.0, abs=1e-9)
    assert policy[0] > 0.75


def test_much_caution_is_imitation_and_little_is_dpo():
    """eta -> infinity: the distribution of winners. eta -> 0: rewards of maximum likelihood, by their own gradient."""
    wins, reference = game(0)
    np.testing.assert_allclose(max_min(wins, reference, 0.5, 1e6), chosen(wins), atol=1e-6)
    policy = max_min(wins, reference, 0.5, 1e-4)[:6]
    margins = 0.5 * np.log(policy / reference[:6])
    won = wins[:6, :6]
    missed = 1 / (1 + np.exp(margins[:, None] - margins))
    np.testing.assert_allclose((won * missed).sum(axis=1), (won * missed).sum(axis=0), atol=1e-3)
