"""EXP4 at each layer of an inference hierarchy, with virtual queues for long-run budgets (Lyapunov control).

Layer l has weights over K experts. Expert k passes on a task if its confidence is below a threshold. A layer passes on
with the mixture's probability, but at least p_min: q_l = p_min + (1 - p_min) sum_k w_k 1[confidence < threshold_k].
Where a task arrives, weights change by

    w_k <- w_k exp(-eta (1[k answers] V e_hat_l + 1[k passes on] (Z_l + further costs + V f_hat_l)))

where e_l is the layer's own error, f_l the error to come if it passes on, given the task and the mixtures behind it (a
recursion over layers, 0 at the oracle), and both are estimated with p = q_l ... q_n, the probability that the errors of
a task that has arrived are revealed. Further costs are seen without a label: those that the task causes behind l,
divided by q_l. A budget C has a queue, Z <- max(0, Z + cost - C), the price of its costs; V trades errors against the
length of queues.

If answering and passing on have the same baseline, it shifts the losses of all experts alike and leaves no trace in
the weights. A constant one can only count at the last local layer, where passing on has no error and needs none.

VR-Ly-EXP4 of arXiv 2603.04247 is this with learned baselines: our reading of an abstract, not compared with the paper.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.inference_routing.estimators import Estimator, Seen
from experiments.inference_routing.inference_layers import LEVELS, InferenceLayers, Tasks

EXPERTS = LEVELS + 1
"""K; expert k has the threshold k, so that the first one never passes on, and the last one always."""
PASSES = np.arange(LEVELS)[:, None] < np.arange(EXPERTS)
"""`[LEVELS, K]`, whether an expert passes on a task with a confidence."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The state of a learner.

    Attributes:
      log_weights: `[n, K]`, up to a constant for each layer.
      queues: `[n]`, Z.
      seen: what baselines are learned from.
    """

    log_weights: Array
    queues: Array
    seen: Seen


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class IntervalMeans:
    """Means over each of U intervals of rounds.

    Attributes:
      error: `[U]`, exact error rate of the mixtures.
      costs: `[U, n]`, exact mean costs of a task.
      off: `[U]`, the estimate of the first layer's error less that error.
      variance: `[U]`, of that estimate over all decisions, given the task: exact.
      choice_variance: `[U]`, of the estimated difference between passing on and answering at the first layer, of which
        alone the weights depend; without costs.
      revealed: `[U]`, the probability that errors are revealed.
    """

    error: Array
    costs: Array
    off: Array
    variance: Array
    choice_variance: Array
    revealed: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class View:
    """One task at the n layers of a learner.

    Attributes:
      place: layers `[n]` and confidences `[n]`, where its baselines lie.
      probs: `[n]`, q_l, of passing it on.
      to_oracle: `[n]`, of reaching the oracle from a layer.
      losses: `[2, n]`, e_l of answering and f_l of passing on, which are known if it reaches the oracle.
      baselines: `[2, n]`, theirs.
    """

    place: tuple[Array, Array]
    probs: Array
    to_oracle: Array
    losses: Array
    baselines: Array


@dataclasses.dataclass(frozen=True)
class Learner:
    """EXP4 on layers.

    Attributes:
      layers: the world.
      p_min: smallest pass-on probability of a layer, below `layers.budget`, so that something keeps to it.
      trade_off: V.
      estimator: of errors.
      full_information: whether each update is the mean over all decisions, given the task with all its errors.
      queues: whether budgets have prices; without, all Z stay 0.
    """

    layers: InferenceLayers
    p_min: float
    trade_off: float
    estimator: Estimator
    full_information: bool = False
    queues: bool = True

    def start(self) -> State:
        """Equal weights, empty queues."""
        n = self.layers.num_local
        seen = Seen(jnp.zeros((n, LEVELS)), jnp.zeros((2, n, LEVELS)))
        return State(jnp.zeros((n, EXPERTS)), jnp.zeros(n), seen)

    def pass_on(self, log_weights: Array) -> Array:
        """`[n, LEVELS]`, the probabilities of passing on."""
        passes = jnp.asarray(PASSES, log_weights.dtype)
        chosen = jax.nn.softmax(log_weights, axis=-1) @ passes.T
        return self.p_min + (1 - self.p_min) * chosen

    def view(self, state: State, task: Tasks) -> View:
        """One task, `[n]`, as the layers see it."""
        place = jnp.arange(self.layers.num_local), task.confidence
        probs = self.pass_on(state.log_weights)[place]
        onward = to_come(task.errors, jnp.zeros_like(probs), probs)
        to_oracle = jnp.cumprod(probs[::-1])[::-1]
        baselines = self.estimator.baselines(state.seen)[:, *place]
        # That the oracle does not err is known.
        baselines = baselines.at[1, -1].set(0.0)
        return View(place, probs, to_oracle, jnp.stack([task.errors, onward]), baselines)

    def losses(self, view: View, prices: Array, passed: Array) -> tuple[Array, Array]:
        """Estimates `[n]` of the losses of answering and of passing on; 0 at layers where the task does not arrive.

        Their means over all decisions are those of full information: the losses given the task, times the probability
        that it arrives.

        Args:
          prices: `[n]`, Z.
          passed: `[n]`, 1.0 where a layer passes on, or would if the task arrived.
        """
        went = jnp.cumprod(view.probs if self.full_information else passed)
        arrived = jnp.insert(went[:-1], 0, 1.0)
        if self.full_information:
            answer, onward = view.losses
            costs = to_come(jnp.zeros_like(prices), prices, view.probs)
        else:
            estimate = self.estimator.estimate
            answer, onward = (
                estimate(*of, went[-1], view.to_oracle)
                for of in zip(view.losses, view.baselines, strict=True)
            )
            paid = prices * went
            costs = prices + (paid[::-1].cumsum()[::-1] - paid) / view.probs
        return arrived * self.trade_off * answer, arrived * (costs + self.trade_off * onward)

    def update(self, state: State, view: View, passed: Array, rate: Array | float) -> State:
        """The state after a task; `rate` is eta."""
        answer, onward = self.losses(view, state.queues, passed)
        experts = jnp.asarray(PASSES, answer.dtype)[view.place[1]]
        # What all experts of a layer have in common leaves no trace.
        log_weights = state.log_weights - rate * (onward - answer)[:, None] * experts
        log_weights -= log_weights.max(axis=-1, keepdims=True)
        went = jnp.cumprod(passed)
        owed = state.queues + went - jnp.asarray(self.layers.budgets)
        weight = self.estimator.weight_of(went[-1], view.to_oracle)
        return State(
            log_weights,
            jnp.maximum(0.0, owed) if self.queues else state.queues,
            state.seen.with_losses(view.place, weight, view.losses),
        )

    def measured(self, state: State, view: View, passed: Array) -> IntervalMeans:
        """The measures of one round, in the fields of `IntervalMeans` and without their axis of intervals."""
        error, costs = self.layers.expected(self.pass_on(state.log_weights))
        p = view.to_oracle[0]
        if self.full_information:
            return IntervalMeans(error, costs, *jnp.zeros(3, p.dtype), p)
        (loss, onward), (base, onward_base) = view.losses[:, 0], view.baselines[:, 0]
        return IntervalMeans(
            error,
            costs,
            off=self.estimator.estimate(loss, base, passed.prod(), p) - loss,
            variance=self.estimator.variance(loss, base, p),
            choice_variance=self.estimator.variance(onward - loss, onward_base - base, p),
            revealed=p,
        )

    def run(self, key: Array, rate: Array | float, rounds: int, intervals: int) -> IntervalMeans:
        """Means over `intervals` equal parts of `rounds`, as one scan; `key` decides tasks and decisions.

        Learners with the same key get the same tasks, and pass on where the same random number is below their
        probability.
        """
        of_tasks, of_decisions = jax.random.split(key)
        chance = jax.random.uniform(of_decisions, (rounds, self.layers.num_local))
        parts = jax.tree.map(
            lambda leaf: leaf.reshape(intervals, -1, *leaf.shape[1:]),
            (self.layers.tasks(of_tasks, rounds), chance),
        )

        def one(state, of_round):
            task, chance = of_round
            view = self.view(state, task)
            passed = (chance < view.probs).astype(chance.dtype)
            return self.update(state, view, passed, rate), self.measured(state, view, passed)

        def interval(state, part):
            state, rounds = jax.lax.scan(one, state, part)
            return state, jax.tree.map(lambda leaf: leaf.mean(axis=0), rounds)

        return jax.lax.scan(interval, self.start(), parts)[1]


def to_come(answers: Array, onward: Array, probs: Array) -> Array:
    """`[n]`: what passing on at each layer loses, given what an answer and a passing on lose there, `[n]` each.

    A recursion from the last layer: g_l = onward_l + h_(l+1), h_l = (1 - q_l) answers_l + q_l g_l, and 0 at the oracle.
    """
    behind, found = jnp.zeros_like(probs[0]), []
    for layer in reversed(range(len(probs))):
        found.append(onward[layer] + behind)
        behind = (1 - probs[layer]) * answers[layer] + probs[layer] * found[-1]
    return jnp.stack(found[::-1])
