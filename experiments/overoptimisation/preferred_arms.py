"""Bandits of which preferences cover a part: true value and implicit reward of policies that are trained on them."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import expit, log_softmax, rel_entr

from experiments.overoptimisation.adversarial_rewards import chosen, max_min
from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.policy import Parameters
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.study.curves import Points
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

ARMS = 50
COVERED = 10
RARE = 2
FEATURES = 16
PAIRS_OF_AN_ARM = 10
"""Number of pairs over that of covered arms."""

# Coverage by preferences.
PARTIAL = "partial"
FULL = "full"

# Features of arms.
TABULAR = "table"
SHARED = "shared"

RATE = 300.0
"""The step size of gradient descent on one bandit's loss. For stability it is divided by 1 + `RATE` times the weight of
imitation."""


@dataclasses.dataclass(frozen=True)
class Arms:
    """Bandits, one for each seed.

    True rewards are one half linear in the features of an arm and one half not, with variance 1 in all; the reference
    is the softmax of half of them plus as much noise. The arms that it likes best are covered, and in partial coverage
    two others, the rare ones, are in one pair each, with a covered arm. Winners are drawn by Bradley-Terry.

    Attributes:
      seeds: S.
      coverage: `partial`, where the 10 likeliest arms and the rare ones are in pairs, or `full`, where all are.
    """

    seeds: tuple[int, ...] = ()
    coverage: str = PARTIAL

    @functools.cached_property
    def environment(self) -> Bandit:
        """A prompt for each seed."""
        return Bandit.of_table(self.rewards)

    @functools.cached_property
    def features(self) -> np.ndarray:
        """`[S, K, F]`, of which each arm's have the length 1 on average."""
        return self._normal(0, ARMS, FEATURES) / FEATURES**0.5

    @functools.cached_property
    def rewards(self) -> np.ndarray:
        """`[S, K]`, the true ones."""
        linear = np.einsum("skf,sf->sk", self.features, self._normal(1, FEATURES))
        return (linear + self._normal(2, ARMS)) / 2**0.5

    @functools.cached_property
    def reference(self) -> np.ndarray:
        """`[S, K]`, log-probabilities."""
        return log_softmax((self.rewards + self._normal(3, ARMS)) / 2, axis=-1)

    @functools.cached_property
    def likeliest(self) -> np.ndarray:
        """`[S, K]`, the arms, those that the reference likes best first."""
        return np.argsort(-self.reference, axis=-1)

    @functools.cached_property
    def rare(self) -> np.ndarray:
        """`[S, 2]`, the rare arms."""
        of_seeds = zip(self.seeds, self.likeliest[:, COVERED:], strict=True)
        return np.stack(
            [_random(seed, 4).choice(others, RARE, replace=False) for seed, others in of_seeds]
        )

    @functools.cached_property
    def pairs(self) -> np.ndarray:
        """`[S, N, 2]`, the winner and the loser of each pair."""
        return np.stack([self._pairs(place) for place in range(len(self.seeds))])

    def _pairs(self, place: int) -> np.ndarray:
        rng, covered = _random(self.seeds[place], 5), self.likeliest[place]
        if self.coverage == PARTIAL:
            covered = covered[:COVERED]
        number = PAIRS_OF_AN_ARM * len(covered)
        pairs = [rng.choice(covered, 2, replace=False) for _ in range(number)]
        if self.coverage == PARTIAL:
            pairs += [np.array([arm, rng.choice(covered)]) for arm in self.rare[place]]
        first, second = np.transpose(pairs)
        margin = self.rewards[place][first] - self.rewards[place][second]
        first_wins = rng.random(len(pairs)) < expit(margin)
        return np.where(first_wins[:, None], pairs, np.stack([second, first], axis=-1))

    @functools.cached_property
    def wins(self) -> np.ndarray:
        """`[S, K, K]`, how often the arm of the row was preferred to that of the column."""
        tables = np.zeros((len(self.seeds), ARMS, ARMS))
        np.add.at(tables, (np.arange(len(tables))[:, None], *np.moveaxis(self.pairs, -1, 0)), 1)
        return tables

    def source(self, policy: "LinearArms") -> StoredGroups:
        """All pairs of all seeds in each step."""
        seeds, number = self.pairs.shape[:2]
        index = np.repeat(np.arange(seeds), number)
        pairs = self.pairs.reshape(-1, 2, 1)
        return StoredGroups.preferences(self.environment, policy, len(pairs), index, pairs)

    def measures(self, log_probs: np.ndarray, beta: float) -> dict[str, np.ndarray]:
        """Measures policies with log-probabilities `[S, U, K]`; each value is `[S, U]`.

        value: true reward, less that of the reference.
        implicit: the mean of beta log(pi / pi_ref) under the policy, less that under the distribution of winners.
        chosen: mean log-probability of the winners, less that under the reference.
        divergence: KL(pi || pi_ref).
        rare, uncovered: probability of the rare arms, and of those that are in no pair.
        others: see `with_course`.
        """
        probs, reference = np.exp(log_probs), self.reference[:, None]
        winners = chosen(self.wins)
        divergence = rel_entr(probs, np.exp(reference)).sum(axis=-1)
        unseen = (self.wins + self.wins.swapaxes(1, 2)).sum(axis=-1) == 0
        rare = np.broadcast_to(self.rare[:, None], (*probs.shape[:2], RARE))
        found = {
            "value": ((probs - np.exp(reference)) * self.rewards[:, None]).sum(axis=-1),
            "implicit": beta * (divergence - _over_winners(winners, log_probs - reference)),
            "chosen": _over_winners(winners, log_probs) - _over_winners(winners, reference),
            "divergence": divergence,
            "rare": np.take_along_axis(probs, rare, axis=-1).sum(axis=-1),
            "uncovered": (probs * unseen[:, None]).sum(axis=-1),
        }
        return with_course(found)

    def _normal(self, stream: int, *shape: int) -> np.ndarray:
        """`[S, *shape]` normal numbers."""
        return np.stack([_random(seed, stream).normal(size=shape) for seed in self.seeds])


def _random(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng((seed, stream))


def _over_winners(winners: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`[S, U]`, the mean of values `[S, U, K]`; those of arms that never won are -inf in the end."""
    return (winners[:, None] * np.where(winners[:, None] > 0, values, 0.0)).sum(axis=-1)


def with_course(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Adds to measures `[S, U]` of policies in training what is seen of all seeds together.

    fall, rise: of the true value and of the implicit reward, since the mean true value was highest.
    mean divergence: over seeds, for figures.
    """
    value, implicit = values["value"], values["implicit"]
    best = [value.mean(axis=0)[: place + 1].argmax() for place in range(value.shape[1])]
    divergence = np.broadcast_to(values["divergence"].mean(axis=0), value.shape)
    found = {
        "fall": value[:, best] - value,
        "rise": implicit - implicit[:, best],
        "mean divergence": divergence,
    }
    return values | found


@dataclasses.dataclass(frozen=True)
class LinearArms(Tabular):
    """log pi_ref + features . weights, with weights of its own for each bandit; first the reference.

    Attributes:
      arms: the bandits.
      kind: `table`, in which each arm has a feature of its own, or `shared`, in which arms share a few.
    """

    arms: Arms = Arms()
    kind: str = TABULAR

    def init(self, key: Array) -> Parameters:
        size = ARMS if self.kind == TABULAR else FEATURES
        return {"weights": jnp.zeros((len(self.arms.seeds), size))}

    def logits(self, parameters: Parameters, observations: Array) -> Array:
        return self.table(parameters)[observations]

    def table(self, parameters: Parameters) -> Array:
        """`[S, K]`, the logits."""
        moved = parameters["weights"]
        if self.kind == SHARED:
            features = jnp.asarray(self.arms.features, jnp.float32)
            moved = jnp.einsum("skf,sf->sk", features, moved)
        return jnp.asarray(self.arms.reference, jnp.float32) + moved


def trained(
    arms: Arms,
    kind: str,
    objective: str,
    weight: float,
    beta: float,
    steps: int,
    every: int,
) -> Points:
    """An objective on all pairs of a bandit in each step; each seed is a bandit of its own.

    Plain gradient descent: Adam would take the arms without pairs away as fast with a weight of 1e-5 as with one of 1.
    `weight` is that of imitation, of log pi of the winner.
    """
    policy = LinearArms(len(arms.seeds), ARMS, arms=arms, kind=kind)
    source = arms.source(policy)
    how = TrainSettings(
        steps,
        source.prompts_per_step,
        2,
        optimizer="sgd",
        # The loss is the mean over bandits.
        learning_rate=len(arms.seeds) * RATE / (1 + RATE * weight),
        max_gradient_norm=None,
    )
    trainer = Trainer(arms.environment, policy, objectives.make(objective), how, source)
    logits = train_ensemble(trainer, jnp.array([0]), policy.table, every)[0]
    log_probs = log_softmax(np.moveaxis(np.asarray(logits, np.float64), 0, 1), axis=-1)
    return Points(np.arange(0, steps + 1, every), arms.measures(log_probs, beta), arms.seeds)


def cautious(arms: Arms, beta: float, eta: float) -> Points:
    """The policy of `max_min` on each bandit."""
    pairs = zip(arms.wins, np.exp(arms.reference), strict=True)
    policies = np.stack([max_min(wins, reference, beta, eta) for wins, reference in pairs])
    with np.errstate(divide="ignore"):
        return Points([0], arms.measures(np.log(policies)[:, None], beta), arms.seeds)
