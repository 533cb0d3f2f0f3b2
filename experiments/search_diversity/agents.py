"""Search agents that know one route to an answer, and what demonstrations and rewards teach them.

Training asks half of the questions on one graph; the others are held out. The policy is a `SharedRelationTable`.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from experiments.search_agents.tables import noise, prior_probs, small_agent
from experiments.search_diversity import search_routes
from experiments.search_diversity.shared_table import SharedRelationTable, replayed
from ipsrl.environments.agents.knowledge_graph import STOP
from ipsrl.policies.policy import Parameters
from ipsrl.rollouts.given_answers import given_answers
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.structures import Trajectories, masked_sum
from ipsrl.training.descent import descended

TRAINED = 8
"""Questions that training asks, the first ones of all."""
questions = functools.partial(small_agent, hops=(2, 3), problems=TRAINED)
ASKED = questions()
ALL = questions(problems=2 * TRAINED)
POLICY = SharedRelationTable.of(ALL, task=ALL)
SKILL, STOPS, ENDS = 0.5, 0.1, 0.7
"""The prior asks for the relation that the question asks for next with probability (1 - STOPS) SKILL, for any other
with equal ones, and stops with STOPS, or with ENDS where the chain is over."""
NOISE = 0.5
"""Standard deviation of each seed's own addition to the logits of each state."""


def prior(seeds: Sequence[int]) -> Parameters:
    """The prior knows no route but the chain that the question names, all in the shared part: leaves `[seed, ...]`."""
    number = 2 * ALL.relations
    words = slice(ALL.first_word, None)
    probs = prior_probs(ALL, (ALL.relations + 1,), STOPS)
    relations = probs[:, :, :-1]
    relations[..., words] = (1 - STOPS) * (1 - SKILL) / (number - 1)
    for following in range(ALL.relations):
        relations[following, ..., ALL.first_word + following] = (1 - STOPS) * SKILL
    relations[-1, ..., STOP] = ENDS
    relations[-1, ..., words] = (1 - ENDS) / number
    rows = probs.reshape(-1, ALL.vocabulary_size)
    shared = jnp.log(jnp.asarray(rows, jnp.float32))
    return {
        "own": NOISE * noise(seeds, (ALL.num_observations, ALL.vocabulary_size)),
        "shared": jnp.broadcast_to(shared, (len(seeds), *shared.shape)),
    }


def demonstrations(routes: str, answers: int, seed: int) -> Trajectories:
    """Answers to the trained questions, with the states in which a table sees their tokens; `[P, G, T]`."""
    rows = search_routes.demonstrations(ASKED, routes, answers, seed)
    stored = StoredGroups.of(ASKED, POLICY, TRAINED, rows)
    prompts = ASKED.prompts(jnp.arange(TRAINED))
    given = given_answers(prompts, stored.tokens, stored.lengths, own=stored.own)
    return replayed(ASKED, given)


def taught(
    routes: str, answers: int, seeds: Sequence[int], rate: float, records: int, every: int
) -> Parameters:
    """The prior of each seed after maximum likelihood of the demonstrations that this seed draws.

    Each step is one of gradient descent on all of them. Leaves `[seed, records + 1, ...]`, `every` steps apart.
    """
    drawn = [demonstrations(routes, answers, seed) for seed in seeds]
    shown = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)
    return _taught(prior(seeds), shown, jnp.float32(rate), records, every)


@functools.partial(jax.jit, static_argnames=("records", "every"))
def _taught(
    priors: Parameters, shown: Trajectories, rate: Array, records: int, every: int
) -> Parameters:
    def of_seed(prior, answers):
        def loss(parameters):
            scores = POLICY.score(parameters, answers, 1.0)
            total = masked_sum(scores.log_probs, answers.token_mask)
            return -total / answers.token_mask.sum()

        def gradient(parameters, _):
            return jax.grad(loss)(parameters)

        return descended(gradient, prior, records * every, every, rate)

    return jax.lax.map(lambda run: of_seed(*run), (priors, shown))
