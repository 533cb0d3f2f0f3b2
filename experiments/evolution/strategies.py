"""Evolution strategies: a step along random directions, weighted by the rewards that policies moved along them got."""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ipsrl.checking.fields import positive
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.source import Request
from ipsrl.structures import Scalars, Trajectories
from ipsrl.training.step import TrainState, rollouts_of
from ipsrl.training.trainer import Trainer


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvolutionTrainer(Trainer):
    """A trainer whose step is that of an evolution strategy, without log-probabilities.

        theta += h / (N s) sum_n A_n eps_n,    eps_n ~ N(0, 1),    eps_(n + N/2) = -eps_n

    Member n of the population answers each prompt of the batch once, with the parameters theta + s eps_n; A_n is the
    mean over prompts of its advantages. N is `group_size` of the settings, so that a step samples and rewards as many
    answers as that of a `Trainer`. With A = r the mean step is h times the gradient of the smoothed return
    E_eps[J(theta + s eps)]. A baseline does not change a step, because noise comes in pairs of opposite sign.

    Of the objective only the reward shaping and the advantages are read, as in groups of the population's answers:
    `reinforce` is A = r, `dr_grpo` subtracts the population's mean, `grpo` divides by its std, too (the paper's choice,
    if there is one prompt). Groups with equal advantages of 0 move nothing. A temperature of the settings near 0 is the
    greedy decoding of the paper, which takes 30 members, s = 0.001, and no pairs. The population is even, its answers
    are sampled under jit, and each batch serves once.

    Source: arXiv 2509.24372; pairs of opposite sign are those of arXiv 1703.03864.

    Attributes:
      noise: s, the standard deviation of each parameter's noise.
    """

    noise: float = positive()

    def step(self, state: TrainState) -> tuple[TrainState, Scalars]:
        """The state after a step and its metrics; a pure function, to be compiled by who calls it."""
        source, size = self.groups_from, self.settings.group_size
        request = Request(state.seed, state.step)
        noise = paired_noise(request.key("noise"), state.parameters, size)
        members = jax.tree.map(lambda mean, eps: mean + self.noise * eps, state.parameters, noise)
        trajectories = self._answers(members, request)
        outcomes, source_state = source.verify(state.source, trajectories, request.key("reward"))
        rollouts = rollouts_of(
            state.parameters,
            state.reference,
            None,
            trajectories,
            outcomes,
            stream(state.seed, state.step, "objective"),
            policy=self.policy,
            objective=self.objective,
            temperature=self.settings.temperature,
        )
        weights, objective_state, _ = self.objective.weigh(rollouts, state.objective_state)
        # Without re-weighting an answer has the same advantage at all of its tokens.
        advantages = weights.advantages[..., 0].mean(axis=0)
        descent = jax.tree.map(
            lambda eps: -jnp.tensordot(advantages, eps, 1) / (size * self.noise), noise
        )
        optimizer = self.optimizer(state.learning_rate)
        updates, optimizer_state = optimizer.update(
            descent, state.optimizer_state, state.parameters
        )
        after = dataclasses.replace(
            state,
            step=state.step + 1,
            parameters=optax.apply_updates(state.parameters, updates),
            optimizer_state=optimizer_state,
            objective_state=objective_state,
            source=source_state,
        )
        return after, {"reward": outcomes.rewards.mean()}

    def _answers(self, members: Parameters, request: Request) -> Trajectories:
        """`[P, N]` answers, each of a member of its own; the environment sees each as the first of its group."""
        settings = self.settings
        prompts = choose_prompts(
            self.environment, request.seed, request.step, settings.prompts_per_step
        )

        def answer(parameters, key):
            sampled = self.groups_from.answers(parameters, prompts, key, 1)
            return jax.tree.map(lambda leaf: leaf[:, 0], dataclasses.replace(sampled, prompts=None))

        keys = jax.random.split(request.sampling_key, settings.group_size)
        return dataclasses.replace(jax.vmap(answer, out_axes=1)(members, keys), prompts=prompts)


def paired_noise(key: Array, parameters: Parameters, size: int) -> Parameters:
    """Standard normal numbers, leaves `[size, ...]`: the second half are those of the first with the other sign."""

    half = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (size // 2, *leaf.shape)), parameters)
    half = optax.tree.random_like(key, half)
    return jax.tree.map(lambda eps: jnp.concatenate([eps, -eps]), half)
