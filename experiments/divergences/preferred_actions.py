"""Preferences between 30 actions, and what policies make of them, by pairs or by rewards: exact, and trained.

Problems are prompts of one environment, each with its own rewards, and its row of a table of logits: one program trains
all of them. A pair is drawn uniformly from all pairs of actions, the winner by the Bradley-Terry model of the rewards.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import entr, expit, log_softmax, softmax

from experiments.divergences.regularised_optima import (
    divergence_of,
    largest_total_variation,
    regularised_optimum,
)
from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.objectives.estimators.divergences import Divergence, link
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.source import Source
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.structures import PolicyScores, Rollouts
from ipsrl.study.curves import Points
from ipsrl.training.ensemble import itself, train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

ACTIONS = 30
BINS = 10
BATCHES = 4
PENALTY_RATE, PAIRS_RATE = 0.02, 0.05
"""The first learning rates of Adam: for training on rewards, and on pairs."""
REFERENCES = ("uniform", "skewed")
PATH = np.geomspace(0.01, 100.0, 81)
"""Weights of reverse KL between which its optima are interpolated."""
PAIRS = np.argwhere(~np.eye(ACTIONS, dtype=bool))
"""`[870, 2]`, all ordered pairs of different actions: the winner, and the loser."""
WINNERS, LOSERS = PAIRS.T
FLIPPED = LOSERS * (ACTIONS - 1) + WINNERS - (WINNERS > LOSERS)
"""`[870]`, the row in which the other one wins."""


@dataclasses.dataclass(frozen=True)
class Problems:
    """Actions with normal rewards, for each seed.

    Attributes:
      seeds: S.
      reference: uniform over actions, or skewed: a softmax of normal numbers of its own.
    """

    seeds: tuple[int, ...]
    reference: str = "uniform"

    @functools.cached_property
    def rewards(self) -> np.ndarray:
        """`[S, K]`."""
        return np.stack([np.random.default_rng(seed).normal(size=ACTIONS) for seed in self.seeds])

    @functools.cached_property
    def reference_logits(self) -> np.ndarray:
        """`[S, K]`."""
        if self.reference == "uniform":
            return np.zeros((len(self.seeds), ACTIONS))
        return np.stack(
            [np.random.default_rng((seed, 1)).normal(size=ACTIONS) for seed in self.seeds]
        )

    @functools.cached_property
    def reference_probs(self) -> np.ndarray:
        return softmax(self.reference_logits, axis=-1)

    @functools.cached_property
    def environment(self) -> Bandit:
        return Bandit.of_table(self.rewards)

    @functools.cached_property
    def policy(self) -> Tabular:
        """Starts at the reference."""
        return Tabular.of(self.environment, self.reference_logits)

    def optimum(self, divergence: Divergence, beta: float, pairs: int = 0) -> np.ndarray:
        """`[S, K]`, the regularised optimum of the `known` rewards."""
        return regularised_optimum(self.known(pairs), self.reference_probs, beta, divergence)

    def preferred(self) -> np.ndarray:
        """`[S, 870]`, of each ordered pair the share that it has among exact preferences."""
        return _wins(self.rewards) * 2 / len(PAIRS)

    def pairs(self, number: int) -> np.ndarray:
        """`[S, number]`, rows of `PAIRS`, the same for every reference."""
        found = []
        for seed, wins in zip(self.seeds, _wins(self.rewards), strict=True):
            random = np.random.default_rng((seed, 2))
            drawn = random.integers(len(PAIRS), size=number)
            first_wins = random.random(number) < wins[drawn]
            found.append(np.where(first_wins, drawn, FLIPPED[drawn]))
        return np.stack(found)

    def shares(self, number: int) -> np.ndarray:
        """`[S, 870]`, of each ordered pair the share that it has among these pairs."""
        counts = [np.bincount(of_seed, minlength=len(PAIRS)) for of_seed in self.pairs(number)]
        return np.stack(counts) / number

    def stored(self, number: int) -> StoredGroups:
        """These pairs of all problems, a quarter of them in each batch."""
        tokens = PAIRS[self.pairs(number)].reshape(-1, 2, 1)
        index = np.repeat(np.arange(len(self.seeds)), number)
        batch = len(tokens) // BATCHES
        return StoredGroups.preferences(self.environment, self.policy, batch, index, tokens)

    def trained(
        self,
        objective: str,
        source: Source | None,
        steps: int,
        group_size: int,
        learning_rate: float,
    ) -> np.ndarray:
        """`[S, K]`, logits after training by Adam with a rate that falls to zero, from the source or by sampling."""
        batch = len(self.seeds) if source is None else source.prompts_per_step
        settings = TrainSettings(
            steps,
            batch,
            group_size,
            optimizer="adam",
            learning_rate=learning_rate,
            cosine_decay=True,
            max_gradient_norm=None,
        )
        trainer = Trainer(
            self.environment, self.policy, objectives.make(objective), settings, source
        )
        recorded = train_ensemble(trainer, jnp.zeros(1, jnp.int32), itself, steps)
        return np.asarray(recorded["logits"], np.float64)[0, -1]

    def known(self, pairs: int) -> np.ndarray:
        """`[S, K]`, the rewards of largest likelihood given so many pairs; the true ones if there are none."""
        return fitted_rewards(self.seeds, pairs) if pairs else self.rewards

    def along_reverse_kl(self, entropies: np.ndarray, pairs: int) -> np.ndarray:
        """`[S]`, the true reward of reverse KL's optima of the `known` rewards at these entropies `[S]`.

        The optima are interpolated between weights of the divergence. Where all have less entropy, it is that of the
        optimum with most.
        """
        found = []
        for at, of_entropy, of_reward in zip(entropies, *reverse_kl_path(self, pairs), strict=True):
            # Towards a skewed reference the entropy may fall again: what is reached with less divergence is better.
            rising = slice(of_entropy.argmax() + 1)
            found.append(np.interp(at, of_entropy[rising], of_reward[rising]))
        return np.array(found)

    def measured(
        self, logits: np.ndarray, divergence: Divergence, beta: float, pairs: int = 0
    ) -> dict[str, np.ndarray]:
        """Measures policies with logits `[S, K]`; each value is `[S, 1]`.

        true reward, entropy: the expected true reward, and the entropy in nats.
        mean entropy: the mean over seeds, the same for all of them; an axis of figures.
        distance: total variation from the optimum of the `known` rewards, which with pairs is f-DPO's.
        behind the best: what the true reward lacks to that of reverse KL's optima of true rewards at equal entropy,
          which for a uniform reference is the largest that any policy has.
        behind reverse KL: the same, of the optima of the known rewards.
        error of preferences: expected calibration error of sigmoid(beta (f'(u_i) - f'(u_j))), of all ordered pairs.
        over the bound: |c(pi) - c(ref)| less twice the total variation that the divergence allows, c = sum |pi - q|
          with q = softmax r, how often an action is the best of all (Plackett-Luce); by the triangle inequality at most
          0. In bins, c is the calibration error in ten bins of three actions, from the least to the most likely one.
        """
        log_probs = log_softmax(logits, axis=-1)
        probs = np.exp(log_probs)
        truth = softmax(self.rewards, axis=-1)
        reward = (probs * self.rewards).sum(axis=-1)
        spread = entropy(probs)
        log_ratio = log_probs - log_softmax(self.reference_logits, axis=-1)
        with jax.enable_x64(True):
            implied = beta * np.asarray(link(divergence, jnp.asarray(log_ratio)))
        allowed = 2 * largest_total_variation(
            divergence_of(probs, self.reference_probs, divergence), divergence
        )

        def excess(error):
            return np.abs(error(probs, truth) - error(self.reference_probs, truth)) - allowed

        values = {
            "true reward": reward,
            "entropy": spread,
            "mean entropy": spread.mean(keepdims=True),
            "distance": total_error(probs, self.optimum(divergence, beta, pairs)) / 2,
            "behind the best": self.along_reverse_kl(spread, 0) - reward,
            "behind reverse KL": self.along_reverse_kl(spread, pairs) - reward,
            "error of preferences": calibration_error(_wins(implied), _wins(self.rewards)),
            "over the bound": excess(total_error),
            "over the bound, in bins": excess(error_in_bins),
        }
        return {name: of_seeds[:, None] for name, of_seeds in values.items()}


@functools.lru_cache(maxsize=4)
def fitted_rewards(seeds: tuple[int, ...], pairs: int) -> np.ndarray:
    """`[S, K]`, the rewards of largest likelihood given so many pairs of each problem, with mean 0.

    An action that won all its pairs, or lost them all, gets a reward as far as the search goes.
    """
    found = minimisers(
        "dpo(beta=1.0)", np.zeros((len(seeds), ACTIONS)), Problems(seeds).shares(pairs)
    )
    return found - found.mean(axis=-1, keepdims=True)


@functools.lru_cache(maxsize=8)
def reverse_kl_path(problems: Problems, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Entropy and true reward of reverse KL's optima of the known rewards, each `[S, 81]`, along `PATH`."""
    optima = np.stack([problems.optimum("reverse_kl", beta, pairs) for beta in PATH], axis=1)
    return entropy(optima), (optima * problems.rewards[:, None]).sum(axis=-1)


def entropy(probs: np.ndarray) -> np.ndarray:
    """The entropy of distributions `[..., K]`: `[...]` in nats."""
    return entr(probs).sum(axis=-1)


def total_error(probs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """sum |p - q| of distributions `[S, K]`, `[S]`."""
    return np.abs(probs - truth).sum(axis=-1)


def error_in_bins(probs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """sum |p - q| of sums over `BINS` bins of equally many actions, ordered by p; equal ones by their number. `[S]`."""
    order = np.argsort(probs, axis=-1, kind="stable")
    difference = np.take_along_axis(probs - truth, order, axis=-1)
    return np.abs(difference.reshape(*difference.shape[:-1], BINS, -1).sum(axis=-1)).sum(axis=-1)


def calibration_error(stated: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The calibration error, `[S]`, of stated probabilities p against true ones q, both `[S, N]`.

    It is the sum of |sum p - q| / N over `BINS` bins of equal width of p.
    """
    bins = np.minimum((stated * BINS).astype(int), BINS - 1)
    in_bin = bins[..., None] == np.arange(BINS)
    return (
        np.abs(((stated - truth)[..., None] * in_bin).sum(axis=-2)).sum(axis=-1) / stated.shape[-1]
    )


def exact_preferences(divergence: Divergence, beta: float, problems: Problems) -> Points:
    """`error`, the largest relative one of pi / ref at which f-DPO's loss of exact preferences is least."""
    fitted = minimisers(f_dpo(divergence, beta), problems.reference_logits, problems.preferred())
    ratio = softmax(fitted, axis=-1) / problems.optimum(divergence, beta)
    return Points([0], {"error": float(np.abs(ratio - 1).max())})


def at_optimum(divergence: Divergence, beta: float, problems: Problems, pairs: int = 0) -> Points:
    """The measures of the optimum of the true rewards or, with pairs, of the rewards of largest likelihood."""
    logits = logits_of(problems.optimum(divergence, beta, pairs))
    return Points([0], problems.measured(logits, divergence, beta, pairs), problems.seeds)


def by_penalty(
    divergence: Divergence, beta: float, problems: Problems, steps: int, group_size: int
) -> Points:
    """The measures of policies trained on the rewards, with the divergence in them."""
    text = f"f_divergence(divergence={divergence}, beta={beta})"
    logits = problems.trained(text, None, steps, group_size, PENALTY_RATE)
    return Points([steps], problems.measured(logits, divergence, beta), problems.seeds)


def by_pairs(
    divergence: Divergence, beta: float, problems: Problems, pairs: int, steps: int
) -> Points:
    """The measures of policies trained by f-DPO on stored pairs; for small beta, with larger steps.

    loss left: how far the loss is above its minimum, as a share of how far it was at the reference.
    """
    objective = f_dpo(divergence, beta)
    logits = problems.trained(
        objective, problems.stored(pairs), steps, 2, PAIRS_RATE / min(beta, 1.0)
    )
    optimum = logits_of(problems.optimum(divergence, beta, pairs))
    last, least, first = (
        mean_losses(objective, each, problems, pairs)
        for each in (logits, optimum, problems.reference_logits)
    )
    left = {"loss left": ((last - least) / (first - least))[:, None]}
    return Points(
        [steps], problems.measured(logits, divergence, beta, pairs) | left, problems.seeds
    )


def logits_of(probs: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities, which for a small weight of the divergence may be 0 by rounding."""
    return np.log(np.maximum(probs, 1e-300))


def mean_losses(objective: str, logits: np.ndarray, problems: Problems, pairs: int) -> np.ndarray:
    """`[S]`, an objective's mean loss over the pairs of each problem, of policies `[S, K]`."""
    with jax.enable_x64(True):
        value = _of_pairs(objective)[0]
        of_seeds = zip(logits, problems.reference_logits, problems.shares(pairs), strict=True)
        return np.array([value(of_seed[1:] - of_seed[0], *given) for of_seed, *given in of_seeds])


def f_dpo(divergence: Divergence, beta: float) -> str:
    return f"f_dpo(divergence={divergence}, beta={beta})"


def minimisers(objective: str, reference_logits: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """`[S, K]`, logits at which an objective's mean loss over ordered pairs with shares `[S, 870]` is least.

    The loss is the objective's own, of groups of two, in float64; the search, scipy's trust region with exact Hessians,
    starts at the reference.
    """
    with jax.enable_x64(True):
        value, gradient, hessian = _of_pairs(objective)
        found = []
        for start, of_pairs in zip(reference_logits, shares, strict=True):
            # A constant added to the logits changes nothing, so the first one stays.
            result = minimize(
                value,
                start[1:] - start[0],
                (start, of_pairs),
                "trust-exact",
                gradient,
                hessian,
                options={"gtol": 1e-13, "maxiter": 2000},
            )
            found.append(np.concatenate([[0.0], result.x]))
    return np.stack(found)


@functools.cache
def _of_pairs(objective: str) -> tuple[Callable, Callable, Callable]:
    """(logits but the first, reference's logits, shares) -> the mean loss, its gradient and its Hessian."""
    made = objectives.make(objective)

    def of_pair(pair, log_probs, reference):
        referred = reference[pair][None, :, None]
        rollouts = Rollouts.of_actions(
            pair[None], jnp.array([[1.0, 0.0]]), reference_log_probs=referred
        )
        output = made(PolicyScores(log_probs[pair][None, :, None], jnp.zeros((1, 2, 1))), rollouts)
        return output.loss_sum / output.count

    def loss(logits, reference, shares):
        log_probs = jax.nn.log_softmax(jnp.concatenate([jnp.zeros(1), logits]))
        losses = jax.vmap(of_pair, (0, None, None))(
            jnp.asarray(PAIRS), log_probs, jax.nn.log_softmax(reference)
        )
        return shares @ losses

    return jax.jit(loss), jax.jit(jax.grad(loss)), jax.jit(jax.hessian(loss))


def _wins(rewards: np.ndarray) -> np.ndarray:
    """`[S, 870]`, the probability that the first of each ordered pair wins."""
    return expit(rewards[..., WINNERS] - rewards[..., LOSERS])
