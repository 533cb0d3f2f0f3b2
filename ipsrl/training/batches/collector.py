"""Collects the batch of rollouts of one step: samples, verifies and applies the batch filters."""

import dataclasses

import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from ipsrl.distributed.mesh import shard_prompts
from ipsrl.environments.environment import Environment
from ipsrl.objectives.objective import Objective, all_equal
from ipsrl.policies.policy import Parameters, Policy
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Prompts, Trajectories, masked_sum
from ipsrl.training.batches.difficulty_filter import DifficultyState, choose_by_difficulty, learn_difficulty
from ipsrl.training.batches.dynamic_sampling import fill
from ipsrl.training.batches.groups import Groups, choose_prompts, sample_and_verify, sampling_key, verify
from ipsrl.training.batches.off_policy_answers import Refinements, with_best_answer
from ipsrl.training.randomness import stream
from ipsrl.training.settings import TrainSettings

Metrics = dict[str, Array | float]


@dataclasses.dataclass(frozen=True)
class BatchCollector:
    """Samples and verifies the groups of every step; every sample is a function of (seed, step, round).

    Attributes:
      environment, policy, objective, settings, seed, mesh, refinements: as in the training loop.
    """

    environment: Environment
    policy: Policy
    objective: Objective
    settings: TrainSettings
    seed: int
    mesh: Mesh
    refinements: Refinements | None = None

    def collect(
        self, parameters: Parameters, reference: Parameters | None, difficulty: DifficultyState | None, step: int
    ) -> tuple[Groups, DifficultyState | None, Metrics]:
        """The P groups of a step, sampled in one round or, with dynamic sampling, in several.

        Args:
          parameters: of the trained policy.
          reference: parameters of the reference policy; None if nothing needs it.
          difficulty: state of the difficulty filter; None without one.
          step: number of batches of rollouts before this one.

        Returns:
          the verified groups, the new state of the difficulty filter, and metrics; without batch filters there are no
            metrics. Counts over the whole step: `sampling_rounds`, `trajectories_sampled` (refinements and discarded
            trajectories included), `prompts_scanned`, `prompts_sampled`. Shares: `kept_groups`, the informative groups
            in the batch; `prompt_survival`, the scanned prompts that passed. Means over rounds, before any group is
            selected: `sampled_reward`, `zero_variance_groups`, `difficulty_error`; `off_policy_reward` is the mean
            reward of the refinements put into groups.
        """
        settings = self.settings
        dynamic, difficulty_filter, off_policy = (
            settings.dynamic_sampling, settings.difficulty_filter, settings.off_policy,
        )  # fmt: skip
        if dynamic is difficulty_filter is off_policy is None:
            return self.verify(self.sample(parameters, step)), None, {}

        batch, kept, counts, means = None, None, [], []
        for number in range(dynamic.rounds if dynamic else 1):
            start = sum(count["prompts_scanned"] for count in counts)
            prompts, scanned, passed = self._choose(difficulty, step, start)
            groups = self.verify(self._sample(parameters, prompts, step, number))
            rewards = groups[1].rewards
            counts.append({"prompts_scanned": scanned, "prompts_passed": passed, "trajectories_sampled": rewards.size})
            means.append({"sampled_reward": rewards.mean(), "zero_variance_groups": all_equal(rewards).mean()})
            if difficulty_filter:
                key = stream(self.seed, step, f"difficulty {number}")
                difficulty, means[-1]["difficulty_error"] = learn_difficulty(
                    difficulty_filter, self.environment, difficulty, *groups, key
                )
            if off_policy:
                source = parameters if off_policy.source == "policy" else reference
                refined = self._refinements(source, groups, step, number)
                groups = with_best_answer(
                    self.policy, parameters, *groups, *refined, settings.temperature, off_policy.at_most
                )
                counts[-1]["trajectories_sampled"] += refined[1].rewards.size
                put_in = groups[0].off_policy
                means[-1]["off_policy_reward"] = masked_sum(groups[1].rewards, put_in) / jnp.maximum(put_in.sum(), 1)
            informative = ~all_equal(groups[1].rewards)
            batch, kept = fill(batch, kept, groups, informative) if number else (groups, informative)
            if kept.all():
                break

        count = {name: sum(one[name] for one in counts) for name in counts[0]}
        metrics = {name: sum(one[name] for one in means) / len(means) for name in means[0]}
        metrics |= {
            "sampling_rounds": len(means),
            "kept_groups": kept.mean(),
            "trajectories_sampled": count["trajectories_sampled"],
            "prompts_scanned": count["prompts_scanned"],
            "prompts_sampled": len(means) * settings.prompts_per_step,
            "prompt_survival": count["prompts_passed"] / count["prompts_scanned"],
        }
        # Always the same type, so that the update is compiled once.
        return shard_prompts(batch, self.mesh), difficulty, metrics

    def sample(self, parameters: Parameters, step: int) -> Trajectories:
        """Samples the groups of a step without batch filters and without verifying; does not wait for the device."""
        prompts = choose_prompts(self.environment, self.seed, step, self.settings.prompts_per_step)
        return self._sample(parameters, prompts, step)

    def verify(self, trajectories: Trajectories) -> Groups:
        """Adds the environment's outcomes to sampled groups."""
        return trajectories, shard_prompts(verify(self.environment, trajectories), self.mesh)

    def _choose(self, difficulty: DifficultyState | None, step: int, start: int) -> tuple[Prompts, int, int]:
        """Prompts from position `start` of a step's stream, how many prompts were scanned, and how many passed."""
        size = self.settings.prompts_per_step
        if self.settings.difficulty_filter is None:
            return choose_prompts(self.environment, self.seed, step, size, start), size, size
        prompts, scanned, passed = choose_by_difficulty(
            self.settings.difficulty_filter, self.environment, difficulty, self.seed, step, start, size
        )
        return prompts, int(scanned), int(passed)

    def _sample(self, parameters: Parameters, prompts: Prompts, step: int, number: int = 0) -> Trajectories:
        """Samples the groups of one round."""
        return sample_groups(
            self.environment,
            self.policy,
            parameters,
            shard_prompts(prompts, self.mesh),
            sampling_key(self.seed, step, number),
            self.settings.group_size,
            self.settings.temperature,
            self.objective.top_tokens,
        )

    def _refinements(self, source: Parameters, groups: Groups, step: int, number: int) -> Groups:
        """Samples refinements for the prompts of a round; each group takes at most one of them."""
        key = stream(self.seed, step, f"refinements {number}")
        if self.refinements is not None:
            return shard_prompts(self.refinements(source, *groups, key), self.mesh)
        refined = sample_and_verify(
            self.environment,
            self.policy,
            source,
            groups[0].prompts,
            key,
            self.settings.off_policy.answers,
            self.settings.temperature,
            self.objective.top_tokens,
        )
        return shard_prompts(refined, self.mesh)
