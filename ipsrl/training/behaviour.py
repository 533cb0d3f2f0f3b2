"""The data of a batch on which an objective depends, such as the probabilities by which tokens were sampled."""

import dataclasses
import functools
from typing import Any

import jax

from ipsrl.objectives.objective import Objective
from ipsrl.structures import PolicyScores, Rollouts
from ipsrl.synthetic_rollouts import synthetic_rollouts, synthetic_sizes

BEHAVIOUR = frozenset({"behaviour_log_probs", "behaviour_entropy", "top_log_probs"})
"""The fields of `Rollouts` that are properties of the sampling distribution, not of the answers."""


def reads_behaviour(objective: Objective, group_size: int) -> bool:
    """Whether the loss, or the state that an objective carries on, depends on any of `BEHAVIOUR`."""
    return not BEHAVIOUR.isdisjoint(fields_read(objective, group_size))


@functools.cache
def fields_read(objective: Objective, group_size: int, loss: bool = True) -> frozenset[str]:
    """The fields of `Rollouts` on which the weights and the carried state depend, and the loss unless `loss` is False.

    Found by following the arrays through the traced program, so that parts need not declare it; nothing is computed. A
    function that is jitted or mapped inside the objective counts as a whole: it may only be taken to read too much.
    """
    kept = max(objective.top_tokens, 1)
    rollouts, scores = synthetic_rollouts(0, 2, group_size, length=3, vocabulary=kept + 6, top_tokens=kept)
    sizes = synthetic_sizes(2, vocabulary=kept + 6)
    scores = dataclasses.replace(scores, prompt_log_probs=rollouts.prompt_log_probs)
    fields = {field.name: getattr(rollouts, field.name) for field in dataclasses.fields(rollouts)}

    def learn(fields: dict[str, Any], scores: PolicyScores, state: Any, parameters: Any) -> Any:
        rollouts = Rollouts(**fields)
        weights, state, _ = objective.weigh(rollouts, state)
        if not loss:
            return state, weights
        steps = objective.weights_of_steps(weights, rollouts)
        outputs = [objective.loss(scores, rollouts, of_step, parameters) for of_step in steps]
        return state, [(output.loss_sum, output.count) for output in outputs]

    program = jax.make_jaxpr(learn)(fields, scores, objective.init(sizes), objective.init_parameters(sizes)).jaxpr
    # The leaves of a dictionary are in the order of its sorted keys.
    depends = {id(variable): {name} for name, variable in zip(sorted(fields), program.invars, strict=False)}
    for equation in program.eqns:
        found = set().union(*(depends.get(id(variable), ()) for variable in equation.invars))
        for variable in equation.outvars:
            depends[id(variable)] = found
    return frozenset().union(*(depends.get(id(variable), ()) for variable in program.outvars))
