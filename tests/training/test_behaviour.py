import dataclasses

import jax
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.source import Sampled, wrapped
from ipsrl.training.behaviour import BEHAVIOUR, reads_behaviour
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from tests.objectives.groups import random_rollouts, sizes
from tests.tiers import slow_after

ACCEPTING = """
    reinforce ips_reinforce trajectory_balance vargrad detailed_balance subtrajectory_balance reinvent supervised dpo
    f_dpo ipo rpo gpg remax rover
"""
"""The rows that read no probability of the sampling distribution."""
BANDIT = Bandit(((1.0, 0.0, 0.5),) * 4)
ARMS = Tabular(BANDIT.num_observations, BANDIT.vocabulary_size)
ALTERED = {"top_k": Decoding(top_k=2), "penalty": Decoding(penalty=TokenPenalty((0,), 1.0))}


def trainer(objective, decoding, wrappers=()):
    objective = objectives.make(objective)
    source = wrapped(Sampled(BANDIT, ARMS, 4, 3, decoding, objective.top_tokens), wrappers)
    return Trainer(BANDIT, ARMS, objective, TrainSettings(2, 4, 3), source)


@pytest.mark.parametrize("decoding", ALTERED.values(), ids=ALTERED)
@pytest.mark.parametrize("objective", ["grpo", "ips_grpo(probability=exact)", "ips_reinforce(probability=exact)"])
def test_objectives_that_read_probabilities_refuse_what_rules_have_changed(objective, decoding):
    said = r"^the objective reads the policy's probabilities .* samples by Decoding\(.*such as vargrad, .*biased\)$"
    with jax.set_mesh(make_mesh("replica:-1")), pytest.raises(ValueError, match=said):
        trainer(objective, decoding, [DynamicSampling()]).check()
    with jax.set_mesh(make_mesh("replica:-1")):
        trainer(objective, Decoding()).check()


def test_objectives_that_read_only_rewards_train_on_it():
    with jax.set_mesh(make_mesh("replica:-1")):
        learner = trainer("reinforce", ALTERED["top_k"])
        _, metrics = learner.step(learner.init(0))
        assert np.isfinite(metrics["loss"])
        # The refusal recommends it.
        trainer("vargrad", ALTERED["penalty"]).check()
        # Sampler and scorer are different distributions.
        assert "sampler_scorer_difference" not in metrics
        with pytest.raises(ValueError, match="the penalty is on token 3, but tokens are 0 to 2"):
            trainer("reinforce", Decoding(penalty=TokenPenalty((3,)))).check()


@pytest.mark.parametrize(
    "name", slow_after(12, sorted(objectives.names(), key=lambda name: name not in ACCEPTING.split()))
)
def test_what_reads_behaviour_is_what_changes_with_it(name):
    objective, changes = objectives.make(name), False

    @jax.jit
    def learned(rollouts, scores):
        scores = dataclasses.replace(scores, prompt_log_probs=rollouts.prompt_log_probs)
        weights, state, _ = objective.weigh(rollouts, objective.init(sizes(3)))
        parameters = objective.init_parameters(sizes(3))
        steps = objective.weights_of_steps(weights, rollouts)
        outputs = [objective.loss(scores, rollouts, of_step, parameters) for of_step in steps]
        return state, [(output.loss_sum, output.count) for output in outputs]

    for binary in (True, False):
        (rollouts, scores), (others, _) = (random_rollouts(seed, binary=binary) for seed in (0, 1))
        changed = dataclasses.replace(rollouts, **{name: getattr(others, name) for name in BEHAVIOUR})
        before, after = (jax.tree.leaves(learned(given, scores)) for given in (rollouts, changed))
        changes |= not all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    assert changes == reads_behaviour(objective, 4) == (name not in ACCEPTING.split())
