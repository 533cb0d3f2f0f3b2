"""Evolution strategies: a step along random directions, weighted by the rewards that policies moved along them got."""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ipsrl.distributed import memory
from ipsrl.fields import positive
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.randomness import stream
from ipsrl.rollouts.sources.source import Request, Sampled
from ipsrl.structures import Trajectories
from ipsrl.training.settings import WHOLE_BATCH
from ipsrl.training.step import TrainState, rollouts_of
from ipsrl.training.trainer import Metrics, Trainer


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
    greedy decoding of the paper, which takes 30 members, s = 0.001, and no pairs.

    Source: arXiv 2509.24372; pairs of opposite sign are those of arXiv 1703.03864.

    Attributes:
      noise: s, the standard deviation of each parameter's noise.
    """

    noise: float = positive()

    def check(self, runs: int = 1) -> None:
        """As a trainer's, with the memory of as many policies as the population has.

        Raises:
          ValueError: also if the population is odd, the objective has parts that weigh tokens, penalise, or take a step
            of their own, groups are not sampled by the policy under jit, a part of the policy is frozen, or a batch is
            used more than once.
        """
        objective, settings = self.objective, self.settings
        if settings.group_size % 2:
            raise ValueError(
                f"group_size is {settings.group_size}, but the members of a population come in pairs of opposite "
                "noise: choose an even number"
            )
        if objective.reweighting or objective.penalties or objective.first is not None:
            raise ValueError(
                "evolution strategies read one advantage for each answer, but this objective also weighs tokens or "
                "adds penalties: take reinforce, dr_grpo, grpo or ips_grpo without a divergence or an entropy bonus"
            )
        if (
            type(self.groups_from) is not Sampled
            or self.groups_from.on_host
            or self.frozen is not None
        ):
            raise ValueError(
                "every member of a population has parameters of its own, so the groups must be sampled by a whole "
                "policy under jit: leave out batch filters, other sources, tools, host verifiers and frozen parameters"
            )
        if settings.batching != WHOLE_BATCH or settings.refresh_reference_every:
            raise ValueError(
                "a population gives one step: leave batching and refresh_reference_every at their defaults"
            )
        parameters = jax.eval_shape(self.policy.init, jax.random.key(0))
        size = 2 * runs * settings.group_size * memory.size_of(parameters)
        memory.require(
            size,
            "a population's parameters and noise",
            "choose a smaller model or population, or fewer runs",
        )
        super().check(runs)

    def step(self, state: TrainState) -> tuple[TrainState, Metrics]:
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
        weights, objective_state, metrics = self.objective.weigh(rollouts, state.objective_state)
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
        means = {name: total / jnp.maximum(count, 1.0) for name, (total, count) in metrics.items()}
        return after, means | {"reward": outcomes.rewards.mean()}

    def _answers(self, members: Parameters, request: Request) -> Trajectories:
        """`[P, N]` answers, each of a member of its own; the environment sees each as the first of its group."""
        settings = self.settings
        prompts = choose_prompts(
            self.environment, request.seed, request.step, settings.prompts_per_step
        )

        def answer(parameters: Parameters, key: Array) -> Trajectories:
            sampled = self.groups_from.answers(parameters, prompts, key, 1)
            return jax.tree.map(lambda leaf: leaf[:, 0], dataclasses.replace(sampled, prompts=None))

        keys = jax.random.split(request.sampling_key, settings.group_size)
        return dataclasses.replace(jax.vmap(answer, out_axes=1)(members, keys), prompts=prompts)


def paired_noise(key: Array, parameters: Parameters, size: int) -> Parameters:
    """Standard normal numbers, leaves `[size, ...]`: the second half are those of the first with the other sign."""
    leaves, tree = jax.tree.flatten(parameters)
    keys = jax.random.split(key, len(leaves))
    halves = [
        jax.random.normal(key, (size // 2, *leaf.shape))
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, [jnp.concatenate([half, -half]) for half in halves])
