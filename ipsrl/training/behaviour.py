"""Whether an objective depends on the probabilities by which tokens were sampled."""

import dataclasses
from typing import Any

import jax
from jax import Array

from ipsrl.objectives.objective import Objective
from ipsrl.rollouts.synthetic import synthetic_rollouts, synthetic_sizes
from ipsrl.structures import PolicyScores, Rollouts

BEHAVIOUR = ("behaviour_log_probs", "behaviour_entropy", "top_log_probs")
"""The fields of `Rollouts` that are properties of the sampling distribution, not of the answers."""


def reads_behaviour(objective: Objective, group_size: int) -> bool:
    """Whether the loss, or the state that an objective carries on, depends on any of `BEHAVIOUR`.

    Found by following these arrays through the traced program, so that parts need not declare it; nothing is computed.
    A function that is jitted or mapped inside the objective counts as a whole: it may only be taken to read too much.
    """
    kept = max(objective.top_tokens, 1)
    rollouts, scores = synthetic_rollouts(0, 2, group_size, length=3, vocabulary=kept + 6, top_tokens=kept)
    sizes = synthetic_sizes(2, vocabulary=kept + 6)
    scores = dataclasses.replace(scores, prompt_log_probs=rollouts.prompt_log_probs)
    behaviour = {name: getattr(rollouts, name) for name in BEHAVIOUR}

    def learn(
        behaviour: dict[str, Array], rollouts: Rollouts, scores: PolicyScores, state: Any, parameters: Any
    ) -> Any:
        rollouts = dataclasses.replace(rollouts, **behaviour)
        weights, state, _ = objective.weigh(rollouts, state)
        steps = objective.weights_of_steps(weights, rollouts)
        outputs = [objective.loss(scores, rollouts, of_step, parameters) for of_step in steps]
        return state, [(output.loss_sum, output.count) for output in outputs]

    others = rollouts, scores, objective.init(sizes), objective.init_parameters(sizes)
    program = jax.make_jaxpr(learn)(behaviour, *others).jaxpr
    depends = {id(variable) for variable in program.invars[: len(BEHAVIOUR)]}
    for equation in program.eqns:
        if any(id(variable) in depends for variable in equation.invars):
            depends |= {id(variable) for variable in equation.outvars}
    return any(id(variable) in depends for variable in program.outvars)
