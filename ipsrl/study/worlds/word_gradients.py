"""How good the gradient of a batch of words is, and whether its answers pull apart."""

import jax
from jax import Array

from ipsrl.measures.gradient_clash import cosine, opposite_cosines
from ipsrl.objectives.advantages.distinct_pairs import shared_tokens
from ipsrl.objectives.objective import Objective
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.sources.source import Groups
from ipsrl.structures import Rollouts
from ipsrl.study.worlds.shared_words import SharedTable, Words


def gradient_measures(
    words: Words, policy: SharedTable, objective: Objective, of_sampler: Parameters, groups: Groups
) -> dict[str, Array]:
    """Of the pulls A grad log pi of a batch's answers, under the policy that sampled it.

    Returns:
      `opposite_cosines`, where close answers have more than 6 of 10 letters in common; `kept`, the share of answers
      with an advantage; `alignment`, the cosine between the sum of the pulls and the exact gradient of the accuracy.
    """

    def accuracy(parameters):
        return (words.distribution(policy, parameters) * words.reward_table()).sum(axis=-1).mean()

    rollouts = Rollouts.of(*groups, keys=jax.random.split(jax.random.key(0), len(groups[1].rewards)))
    advantages = objective.weigh(rollouts, objective.init(words.sizes))[0].advantages[..., 0]
    gradients = policy.answer_gradients(of_sampler, groups[0])
    close = shared_tokens(rollouts.tokens, rollouts.token_mask) > 0.6
    batch = (gradients * advantages[..., None]).sum(axis=(0, 1))
    ascent = jax.grad(accuracy)(of_sampler)["weights"].ravel()
    found = {"kept": (advantages != 0).mean(), "alignment": cosine(batch, ascent)}
    return found | opposite_cosines(gradients, advantages, close)
