"""The mode bandit: answers that think or do not, where the skill of a mode grows only while the mode is sampled."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.dynamics.expected_update import expected_update
from ipsrl.environments.state_graph import StateGraph
from ipsrl.fields import Checked, at_least, non_negative, positive, probability
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Actions, Cache, Parameters, score_logits
from ipsrl.policies.tabular import Tabular
from ipsrl.structures import PolicyScores, Trajectories
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer

SHORT, THINK = range(2)
OTHER_SEEDS = 10_000
"""Added to seeds, it gives those by whose runs a learning rate is chosen."""


@dataclasses.dataclass(frozen=True)
class ModeBandit(Checked, StateGraph):
    """The first action says whether the answer thinks, the last whether it is right; those between are the only legal
    ones, and make an answer long.

    A prompt is a difficulty. The outcomes are "short wrong", "short right", "think wrong" and "think right", worth 0,
    1, 0 and 1 - gamma. The policy chooses a mode by a logit that all difficulties share, and one of each difficulty:

        P(think | d) = sigmoid(shared + own_d),  P(right | d, think) = sigmoid(skill_think)
        P(right | d, short) = ceiling_d sigmoid(skill_short)

    so that a mode's skill is trained by the policy gradient alone, and only as often as the mode is sampled.

    Source: the toy in our notes on Thinkless (arXiv 2505.13379); there skill is a function of the number of samples.

    Attributes:
      ceilings: of each difficulty, the success of a short mode that has learned all it can; above 0, at most 1.
      short_tokens, think_tokens: of an answer, both the first and the last action included.
      gamma: what thinking costs a right answer.
      fixed: whether no gradient reaches the skills: the negative control.
      forced: whether half of each group has a mode that is dictated: of every four answers the second thinks, the
        fourth is short, and the others choose. Only for sampled runs.
    """

    ceilings: tuple[float, ...] = (1.0, 0.8, 0.4, 0.1)
    short_tokens: int = at_least(2, 2)
    think_tokens: int = at_least(2, 20)
    gamma: float = probability(0.5)
    fixed: bool = False
    forced: bool = False
    vocabulary_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ceilings or not all(0 < ceiling <= 1 for ceiling in self.ceilings):
            raise ValueError(f"ceilings is {self.ceilings}, it must have one number or more, above 0 and at most 1")

    @property
    def num_prompts(self) -> int:
        return len(self.ceilings)

    @property
    def states_of_prompt(self) -> int:
        """The choice of a mode, and behind it a state for each later token of each mode."""
        return self.short_tokens + self.think_tokens - 1

    @property
    def num_observations(self) -> int:
        return self.num_prompts * self.states_of_prompt

    @property
    def num_outcomes(self) -> int:
        return 4

    @property
    def max_tokens(self) -> int:
        return max(self.short_tokens, self.think_tokens)

    @property
    def policy(self) -> "ModePolicy":
        """The policy that fits."""
        return ModePolicy(self.num_observations, self.vocabulary_size, world=self)

    def first_state(self, prompt_index: Array) -> Array:
        return prompt_index * self.states_of_prompt

    def mode_of(self, state: Array) -> tuple[Array, Array]:
        """Whether a state belongs to a thinking answer, and whether its action is the last one."""
        place = state % self.states_of_prompt
        last = (place == self.short_tokens - 1) | (place == self.states_of_prompt - 1)
        return jnp.where(place >= self.short_tokens, THINK, SHORT), last

    @property
    def _beyond(self) -> int:
        """A forced answer begins in its first state plus this, or plus twice this if it thinks."""
        return self.num_observations + self.num_outcomes

    def reset(self, key: Array, prompt_index: Array, member: Array) -> Array:
        state = super().reset(key, prompt_index, member)
        if not self.forced:
            return state
        return state + self._beyond * jnp.array([0, 1 + THINK, 0, 1 + SHORT], jnp.int32)[member % 4]

    def dictated(self, state: Array) -> Array | None:
        return state // self._beyond - 1 if self.forced else None

    def observe(self, state: Array) -> Array:
        return super().observe(state % self._beyond)

    def finished(self, state: Array) -> Array:
        return super().finished(state % self._beyond)

    def legal(self, state: Array) -> Array:
        state = state % self._beyond
        chooses = (state % self.states_of_prompt == 0) | self.mode_of(state)[1]
        return jnp.stack([jnp.ones_like(chooses), chooses], axis=-1)

    def step(self, state: Array, token: Array) -> Array:
        state = state % self._beyond
        mode, last = self.mode_of(state)
        first = state + jnp.where(token == THINK, self.short_tokens, 1)
        later = jnp.where(last, self.num_observations + 2 * mode + token, state + 1)
        return jnp.where(state % self.states_of_prompt == 0, first, later).astype(jnp.int32)

    def num_parents(self, state: Array) -> Array:
        """One, except that all prompts share their outcomes."""
        return jnp.where(state < self.num_observations, 1, self.num_prompts)

    def outcome_names(self) -> tuple[str, ...]:
        return "short wrong", "short right", "think wrong", "think right"

    def reward_table(self) -> np.ndarray:
        return np.tile(np.float32([0, 1, 0, 1 - self.gamma]), (self.num_prompts, 1))

    def prior(self, short: float = 0.12, think: float = 0.9, thinking: float = 0.5) -> Parameters:
        """Parameters of a policy with given skills, both below a ceiling of 1, and a given share of thinking."""
        logit = [jnp.log(share / (1 - share)) for share in jnp.float32([short, think, thinking])]
        return {"shared": logit[2], "own": jnp.zeros(self.num_prompts), "skill": jnp.stack(logit[:2])}

    def measures(self, parameters: Parameters) -> dict[str, Array]:
        """Exact: the share of `thinking` at each difficulty, `[num_prompts]`, and `[]` their mean `share`, the skills
        `short` and `think` below a ceiling of 1, and the mean `reward` of answers.
        """
        thinking = jax.nn.sigmoid(parameters["shared"] + parameters["own"])
        short, think = jax.nn.sigmoid(parameters["skill"])
        worth = thinking * (1 - self.gamma) * think + (1 - thinking) * jnp.asarray(self.ceilings) * short
        return {"thinking": thinking, "share": thinking.mean(), "short": short, "think": think, "reward": worth.mean()}


@dataclasses.dataclass(frozen=True)
class ModePolicy(Tabular):
    """The policy of a `ModeBandit`. Parameters: `{"shared": [], "own": [num_prompts], "skill": [2]}`.

    Attributes:
      world: the mode bandit.
    """

    world: ModeBandit = dataclasses.field(default_factory=ModeBandit)

    def init(self, key: Array) -> Parameters:
        """The prior; `key` is not used."""
        return self.world.prior()

    def step(self, parameters: Parameters, cache: Cache, observations: Array, position: Array) -> tuple[Array, Cache]:
        world, prompt = self.world, observations // self.world.states_of_prompt
        mode, _ = world.mode_of(observations)
        skill = jax.lax.stop_gradient(parameters["skill"]) if world.fixed else parameters["skill"]
        ceiling = jnp.where(mode == THINK, 1.0, jnp.asarray(world.ceilings)[prompt])
        # The odds of c sigmoid(s) are c / (1 - c + exp(-s)).
        right = jnp.log(ceiling) - jnp.logaddexp(jnp.log1p(-ceiling), -skill[mode])
        thinks = parameters["shared"] + parameters["own"][prompt]
        logit = jnp.where(observations % world.states_of_prompt == 0, thinks, right)
        return jnp.stack([jnp.zeros_like(logit), logit], axis=-1), cache

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        logits, _ = self.step(parameters, (), trajectories.observations, jnp.asarray(0))
        return score_logits(logits, Actions.of(trajectories), temperature)


@dataclasses.dataclass(frozen=True)
class Update(Checked):
    """How the parameters of a policy on a `ModeBandit` move.

    Attributes:
      objective: any objective that `expected_update` can compute.
      group_size: G, answers to each prompt.
      learning_rate: of gradient descent.
      inner: 0, or the step size of the inner adaptation of first-order MAML, see `expected`.
    """

    objective: Objective
    group_size: int = at_least(1, 8)
    learning_rate: float = positive(1.0)
    inner: float = non_negative(0.0)

    def expected(self, world: ModeBandit, parameters: Parameters, reference: Parameters) -> Parameters:
        """The exact mean of minus the gradient, over all groups, a mean over prompts; each prompt is a batch.

        u_d is the update of the parameters by the groups of difficulty d, theta those before it:

            inner = 0:  mean_d u_d(theta)
            inner > 0:  mean_d u_d(theta + inner u_d(theta))       first-order MAML (arXiv 1703.03400), a task is a
                                                                    difficulty; both steps are exact means, not samples

        The objective's state is the first one at every update.
        """
        of_prompt = functools.partial(self._of_prompt, world, reference)
        prompts = jnp.arange(world.num_prompts)

        def adapted(prompt: Array) -> Parameters:
            moved = of_prompt(parameters, prompt)
            if not self.inner:
                return moved
            after = jax.tree.map(lambda one, by: one + self.inner * by, parameters, moved)
            return of_prompt(after, prompt)

        return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(adapted)(prompts))

    def _of_prompt(self, world: ModeBandit, reference: Parameters, parameters: Parameters, prompt: Array) -> Parameters:
        states = world.first_state(prompt) + jnp.arange(world.states_of_prompt)

        def logits(parameters: Parameters) -> Array:
            return world.policy.step(parameters, (), states, jnp.asarray(0))[0]

        # All prompts have the same graph and the same rewards.
        alone = dataclasses.replace(world, ceilings=(1.0,))
        table, pulled_back = jax.vjp(logits, parameters)
        moved = expected_update(
            self.objective, table, alone.reward_table()[0], self.group_size, environment=alone,
            reference=logits(reference),
        )  # fmt: skip
        return pulled_back(moved)[0]


@functools.partial(jax.jit, static_argnames=("world", "update", "updates"))
def exact_path(
    world: ModeBandit, update: Update, prior: Parameters, updates: int, learning_rate: Array | None = None
) -> dict[str, Array]:
    """Training without noise: name -> `[updates + 1, ...]`, `ModeBandit.measures` before each update and at the end.

    The prior is the reference of a KL penalty. `learning_rate`, `[]`, takes the place of the update's.

    Raises:
      ValueError: modes are forced, or the objective cannot be computed here.
    """
    if world.forced:
        raise ValueError("forced is True: the exact path has no forced modes, take sampled_paths")
    rate = update.learning_rate if learning_rate is None else learning_rate

    def one_update(parameters: Parameters, _: None) -> tuple[Parameters, dict[str, Array]]:
        moved = update.expected(world, parameters, prior)
        after = jax.tree.map(lambda one, by: one + rate * by, parameters, moved)
        return after, world.measures(after)

    _, later = jax.lax.scan(one_update, prior, length=updates)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), world.measures(prior), later)


def sampled_paths(
    world: ModeBandit, update: Update, prior: Parameters, updates: int, seeds: Sequence[int],
    learning_rates: Sequence[float] | np.ndarray | None = None,
) -> dict[str, Array]:  # fmt: skip
    """The same of sampled runs, in one program: name -> `[seed, updates + 1, ...]`; a batch is a group of each prompt.

    A mean over tokens is then one over the tokens of all prompts, while `Update.expected` has one for each prompt.
    `learning_rates`, one for each seed, take the place of the update's.

    Raises:
      ValueError: the update has an inner adaptation, modes are forced in groups that are not of 4 n answers, or the
        objective cannot be trained here.
    """
    if world.forced and update.group_size % 4:
        raise ValueError(f"group_size is {update.group_size}: with forced modes it must be a multiple of 4")
    if update.inner:
        raise ValueError(f"inner is {update.inner}: sampled runs have no inner adaptation, take exact_path")
    training = TrainSettings(
        steps=updates, prompts_per_step=world.num_prompts, group_size=update.group_size, optimizer="sgd",
        learning_rate=update.learning_rate, max_gradient_norm=None,
    )  # fmt: skip
    of_runs = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(seeds), *jnp.shape(leaf))), prior)
    trainer = Trainer(world, world.policy, update.objective, training)
    rates = None if learning_rates is None else jnp.asarray(learning_rates, jnp.float32)
    return train_ensemble(
        trainer, jnp.asarray(seeds), world.measures, learning_rates=rates, initial_parameters=of_runs
    )  # fmt: skip


def saturated_after(found: Mapping[str, Array], margin: float = 0.01) -> np.ndarray:
    """`[...]`, the first update after which the mean share of thinking is below `margin` or above 1 - margin.

    Args:
      found: `share` `[..., updates + 1]`, of `exact_path` or `sampled_paths`.

    Returns:
      float64; NaN if it never is.
    """
    share = np.asarray(found["share"], np.float64)
    beyond = (share < margin) | (share > 1 - margin)
    return np.where(beyond.any(axis=-1), beyond.argmax(axis=-1), np.nan)


def best_paths(
    world: ModeBandit, update: Update, prior: Parameters, updates: int, learning_rates: Sequence[float],
    seeds: Sequence[int] | None = None,
) -> tuple[dict[str, np.ndarray], float]:  # fmt: skip
    """`exact_path`, as one run, or with seeds `sampled_paths`, with the learning rate that ends with the most reward.

    Of sampled runs it is the rate with the highest mean in half as many runs of other seeds, so that the runs which are
    returned have no part in the choice.

    Returns:
      name -> `[seed, updates + 1, ...]` float64, and the learning rate.
    """
    if seeds is None:
        of_rate = functools.partial(exact_path, world, update, prior, updates)
        found = jax.vmap(of_rate)(jnp.asarray(learning_rates, jnp.float32))
        kept, judging, runs = slice(None), slice(None), 1
    else:
        both = [*seeds, *((seed + OTHER_SEEDS) % 2**31 for seed in seeds[: -(-len(seeds) // 2)])]
        rates = np.repeat(learning_rates, len(both))
        found = sampled_paths(world, update, prior, updates, both * len(learning_rates), rates)
        kept, judging, runs = slice(len(seeds)), slice(len(seeds), None), len(both)
    shape = len(learning_rates), runs
    values = {name: np.asarray(each, np.float64).reshape(*shape, *each.shape[1:]) for name, each in found.items()}
    best = int(values["reward"][:, judging, -1].mean(axis=1).argmax())
    return {name: each[best, kept] for name, each in values.items()}, learning_rates[best]


def described(found: Mapping[str, np.ndarray], world: ModeBandit, answers: int, rare: float) -> dict[str, np.ndarray]:
    """What became of the modes on paths: name -> `[seed, updates + 1]`.

    `share`, `short`, `think` and `reward` are those of `ModeBandit.measures`, and `thinking_1` and so on the share of
    thinking at each difficulty. `fits` is by how much it is higher at the last difficulty than at the first; `rarer`
    the mean share of the rarer mode; `collapsed` is 1 where that is below `rare`, else 0; `until` the update of
    `saturated_after`, or the number of all updates if it is never, and `short_then` the skill `short` after it;
    `kilotokens` the expected thousands of tokens that were sampled before.

    Args:
      found: of paths, `[seed, updates + 1, ...]`.
      world: theirs.
      answers: to each prompt in an update.
      rare: a share.
    """
    thinking, share = found["thinking"], found["share"]
    rarer = np.minimum(share, 1 - share)
    until = np.nan_to_num(saturated_after(found, rare), nan=share.shape[-1] - 1).astype(int)[:, None]
    thinks = share / 2 + 1 / 4 if world.forced else share
    tokens = world.short_tokens + (world.think_tokens - world.short_tokens) * thinks
    before = (tokens.cumsum(axis=-1) - tokens) * answers * world.num_prompts
    values = {name: found[name] for name in ("share", "short", "think", "reward")}
    return values | {f"thinking_{place + 1}": thinking[..., place] for place in range(world.num_prompts)} | {
        "fits": thinking[..., -1] - thinking[..., 0],
        "rarer": rarer,
        "collapsed": (rarer < rare).astype(int),
        "until": np.broadcast_to(until, share.shape),
        "short_then": np.broadcast_to(np.take_along_axis(found["short"], until, axis=-1), share.shape),
        "kilotokens": before / 1000,
    }  # fmt: skip
