"""Malformed calls of the public API, as a user would type them, and calls that are harmless and so must work.

Each row of `REFUSED` is a call and a pattern that is found in what it says; a row of `EQUAL` is a call, and another one
that has the same value.
"""

# The calls are texts, so that a message shows them as they were typed; what they use looks unused.
# ruff: noqa: F401
import contextlib
import dataclasses
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ipsrl import extensions, objectives, rewards, specifications
from ipsrl.distributed import memory
from ipsrl.distributed.mesh import make_mesh
from ipsrl.dynamics import (
    finite_groups,
    flows,
    moving_frequency,
    passage_times,
    potentials,
    reference_penalty,
    restoring_rates,
    step_sizes,
    survival,
    time_scales,
    two_outcome_training,
)
from ipsrl.dynamics.expected_update import differentiable, estimated_update, expected_update
from ipsrl.dynamics.rest_points import Field, follow, rest_point, rest_points
from ipsrl.dynamics.rest_points import train as train_expected
from ipsrl.dynamics.trajectories import every_trajectory
from ipsrl.dynamics.verdict import verdict
from ipsrl.environments import catalog as environments
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.countdown import Countdown
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.environments.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.hypospace_causal import HypospaceCausal
from ipsrl.environments.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.language import LanguageTask
from ipsrl.environments.math_answers import MathAnswers
from ipsrl.environments.tools import make_tools
from ipsrl.environments.tree import Tree
from ipsrl.environments.verifier_pool import VerifierPool
from ipsrl.measures import answers, distances, diversity, pass_at_k, rewarded, seeds
from ipsrl.objectives.advantages.baselines import GroupMean
from ipsrl.objectives.aggregation import SequenceMean
from ipsrl.objectives.estimators.frequency import outcome_frequency
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates.ratio import ClippedRatio
from ipsrl.policies.adapters import LoRA
from ipsrl.policies.mlp import MLP
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.records import discovery, metric_log, results
from ipsrl.records.monitors import make_monitors
from ipsrl.records.report.page import write_report
from ipsrl.records.run_folder import RunFolder
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.source import Actors, Request, Sampled, wrapped
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.rollouts.synthetic import synthetic_rollouts
from ipsrl.structures import Rollouts
from ipsrl.sweeps import sweep_runs
from ipsrl.training import loop, settings, warm_start
from ipsrl.training.ensemble import train_ensemble
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.trainer import Trainer

SECONDS = 2.0
"""A refusal takes less of the processor's time than this."""
LONGEST = 600

BANDIT, BOOLEAN, GRPO = Bandit((1.0, 0.5)), HypospaceBoolean(), objectives.make("grpo")
FIELD = Field(GRPO, (1.0, 0.5), 4)
LOGITS, REWARDS = jnp.zeros(2), jnp.array([1.0, 0.5])
NAN, INF = float("nan"), float("inf")
ROLLOUTS, SCORES = synthetic_rollouts(0, prompts=2, group=4, length=3)
RUN = TrainSettings(steps=1, prompts_per_step=1, group_size=4)
ROW = {"prompt": 0, "answers": [[5, 2], [7, 2]]}
NESTED: list = []
NESTED.append(NESTED)
FILES = {
    "text.jsonl": "3\n",
    "cut.jsonl": '{"prompt": 0, "answers": [[5',
    "row.jsonl": json.dumps(ROW | {"prompt": 99999}),
    "run/config.json": "[]",
    "run/summary.json": "{}",
    "finished/config.json": '{"seed": 0}',
    "finished/metrics.jsonl": '{"step": 1, "reward": 0.5}\n',
    "finished/summary.json": '{"complete": true}',
}
"""In the folder that calls are given as `FOLDER`."""


def settings_of(**changed) -> TrainSettings:
    """Settings of which some are replaced."""
    return TrainSettings(**{"steps": 1, "prompts_per_step": 1, "group_size": 4, **changed})


def trainer(**changed) -> Trainer:
    """A run of a bandit of which some arguments are replaced."""
    return Trainer(**{"environment": BANDIT, "policy": Tabular(1, 2), "objective": GRPO, "settings": RUN, **changed})


def begun(seed=0, **given):
    """The state before the first step of such a run."""
    with jax.set_mesh(make_mesh("replica:-1")):
        return trainer().init(seed, **given)


def trained(**changed):
    """Such a run, trained."""
    given = {
        "environment": BANDIT, "policy": Tabular(1, 2), "objective": GRPO, "settings": RUN, "seed": 0, "folder": None,
        "mesh": make_mesh("replica:-1"),
    }  # fmt: skip
    return loop.train(**{**given, **changed})


def stored(rows, environment=BOOLEAN, prompts_per_step=1, **given) -> StoredGroups:
    """Stored groups of rows."""
    policy = Tabular(environment.num_observations, environment.vocabulary_size)
    return StoredGroups.of(environment, policy, prompts_per_step, rows, **given)


REFUSED = [
    # objectives
    ("objectives.make(3)", "text is 3, it must be a text"),
    ("objectives.make(None)", "text is None"),
    ("objectives.make(b'grpo')", "text is b'grpo'"),
    ("objectives.make('')", "name"),
    ("objectives.make('grpo, dapo')", "expected one objective"),
    ("objectives.make('nope')", "unknown objective 'nope'"),
    ("objectives.make('grpo(nope=1)')", "no argument 'nope'"),
    ("objectives.make('grpo(clip=nan)')", "clip"),
    ("objectives.make('grpo(kl=-1)')", "coefficient of the KL penalty is -1"),
    ("objectives.make('ips_grpo(alpha=1e999)')", "alpha"),
    ("objectives.make('ips_grpo(alpha=x)')", "alpha=x is not a number"),
    ("objectives.make('grpo(kl=' + 'k3(' * 3000 + '1' + ')' * 3001)", "cannot read"),
    ("objectives.make('grpo(a=' + '-' * 20000 + '1)')", "nested too deeply"),
    ("objectives.make('grpo(a=' + 'a.' * 9000 + 'a)')", "cannot read|nested too deeply"),
    ("objectives.make('g' * 100000)", "unknown objective"),
    ("objectives.make('grpo(kl=' + '9' * 5000 + ')')", "kl|cannot read"),
    ("objectives.make('grpo\\0')", "cannot read"),
    ("objectives.make_each('grpo')", "texts is 'grpo', it must be a list"),
    ("objectives.make_each([1])", "texts is \\[1\\]|text is 1"),
    ("objectives.make_each(['grpo', 'grpo()'])", "the same objective"),
    ("objectives.make_each(None)", "texts is None"),
    ("objectives.describe('nope')", "unknown objective"),
    ("objectives.describe(3)", "name is 3"),
    ("objectives.describe('x' * 100000)", "unknown objective"),
    (
        "Objective(advantages=3, surrogate=ClippedRatio(), aggregation=SequenceMean())",
        "advantages is 3, it must be a R",
    ),
    ("Objective(GroupMean(), GroupMean(), SequenceMean())", "surrogate is GroupMean.*it must be a Surrogate"),
    ("Objective(GroupMean(), ClippedRatio(), 'mean')", "aggregation is 'mean', it must be an Aggregation"),
    ("Objective(GroupMean(), ClippedRatio(), SequenceMean)", "aggregation is .*it must be an Aggregation"),
    ("Objective(GroupMean, ClippedRatio(), SequenceMean())", "advantages is"),
    (
        "Objective(GroupMean(), ClippedRatio(), SequenceMean(), reward_shaping=[GroupMean()])",
        "reward_shaping is .*tuple",
    ),
    ("Objective(GroupMean(), ClippedRatio(), SequenceMean(), penalties=(1,))", "penalties is \\(1,\\)"),
    ("Objective(GroupMean(), ClippedRatio(), SequenceMean(), first=True)", "first is True, it must be a function"),
    ("Objective()", "advantages"),
    ("ClippedRatio('x')", "it must be"),
    ("GRPO(SCORES, None)", "rollouts is None"),
    ("GRPO(None, ROLLOUTS)", "scores is None"),
    ("GRPO(SCORES, SCORES)", "rollouts is"),
    ("GRPO(SCORES, dataclasses.replace(ROLLOUTS, rewards=ROLLOUTS.rewards[:, :2]))", "rewards has shape"),
    ("GRPO(SCORES, dataclasses.replace(ROLLOUTS, rewards=None))", "rewards is None"),
    ("GRPO(SCORES, dataclasses.replace(ROLLOUTS, rewards=[[1.0] * 4] * 2))", "rewards is \\[\\["),
    ("GRPO(SCORES, dataclasses.replace(ROLLOUTS, tokens=3))", "tokens is 3"),
    ("GRPO(dataclasses.replace(SCORES, log_probs=SCORES.log_probs[..., :1]), ROLLOUTS)", "log_probs has shape"),
    ("objectives.make('mara')(SCORES, dataclasses.replace(ROLLOUTS, reference_log_probs=None))", "reference_log_probs"),
    ("GRPO.check(frozenset(), 1, BANDIT.sizes)", "group_size is 1"),
    ("GRPO.check(frozenset(), 'x', BANDIT.sizes)", "group_size is 'x'"),
    ("Rollouts.of(None, None)", "trajectories is None"),
    # the expected update
    ("expected_update('grpo', jnp.zeros(2), REWARDS, 4)", "objective is 'grpo', it must be an Obj"),
    ("expected_update(GRPO, 'ab', REWARDS, 4)", "logits is 'ab'"),
    ("expected_update(GRPO, None, jnp.ones(2), 4)", "logits is None"),
    ("expected_update(GRPO, [0.0, [1.0]], REWARDS, 4)", "logits is"),
    ("expected_update(GRPO, jnp.zeros(()), REWARDS, 4)", "logits has the shape"),
    (
        "expected_update(GRPO, LOGITS, jnp.ones(3), 4)",
        "logits has shape \\(2,\\), expected \\(3,\\)",
    ),
    ("expected_update(GRPO, jnp.zeros((2, 2)), REWARDS, 4)", "logits has shape"),
    ("expected_update(GRPO, jnp.zeros(0), jnp.ones(0), 4)", "logits is \\[\\]"),
    ("expected_update(GRPO, jnp.array([0, jnp.nan]), REWARDS, 4)", "logits is .*nan.*finite"),
    ("expected_update(GRPO, jnp.array([0, jnp.inf]), REWARDS, 4)", "logits is .*inf"),
    ("expected_update(GRPO, jnp.full(2, -jnp.inf), REWARDS, 4)", "logits is .*inf"),
    ("expected_update(GRPO, LOGITS, jnp.array([1, jnp.nan]), 4)", "rewards is .*nan"),
    ("expected_update(GRPO, LOGITS, [1.0, INF], 4)", "rewards is .*inf"),
    ("expected_update(GRPO, jnp.zeros(2) * 1j, jnp.ones(2), 4)", "logits has the shape .*complex"),
    ("expected_update(GRPO, LOGITS, 'ab', 4)", "rewards is 'ab'"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4.0)", "group_size is 4.0, it must be a whole"),
    ("expected_update(GRPO, LOGITS, REWARDS, True)", "group_size is True"),
    ("expected_update(GRPO, LOGITS, REWARDS, '4')", "group_size is '4'"),
    ("expected_update(GRPO, LOGITS, REWARDS, 0)", "group_size is 0"),
    ("expected_update(GRPO, LOGITS, REWARDS, -3)", "group_size is -3"),
    ("expected_update(GRPO, LOGITS, REWARDS, 1)", "group_size is 1"),
    (
        "expected_update(GRPO, LOGITS, REWARDS, 2**70)",
        "make more than 200000 different groups",
    ),
    ("expected_update(GRPO, jnp.zeros(300), jnp.ones(300), 8)", "make more than 200000 different groups"),
    (
        "expected_update(GRPO, LOGITS, REWARDS, 4, reference=jnp.zeros(3))",
        "reference has shape",
    ),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, reference='x')", "reference is 'x'"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, environment=3)", "environment is 3"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, environment=BOOLEAN)", "environment is"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, num_keys=0)", "num_keys is 0"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, off_policy=3)", "off_policy is 3"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, objective_state=3)", "objective_state is 3"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, objective_state=(1,))", "objective_state is not one"),
    ("expected_update(GRPO, LOGITS, REWARDS, 4, nope=1)", "nope"),
    ("expected_update(GRPO, jnp.zeros(2))", "rewards"),
    (
        "expected_update(GRPO, LOGITS, rewards.NoisyVerifier(0.1), 4)",
        "reward reads those of the env",
    ),
    ("estimated_update(GRPO, LOGITS, REWARDS, 4, 3)", "PRNG key"),
    ("estimated_update(GRPO, LOGITS, REWARDS, 4, jax.random.key(0), pairs=1)", "pairs is 1"),
    (
        "estimated_update(GRPO, LOGITS, REWARDS, 4, jax.random.key(0), pairs=2.5)",
        "pairs is 2.5",
    ),
    ("differentiable(3)", "field is 3, it must be a function"),
    ("every_trajectory(BANDIT, jnp.zeros((2, 2)))", "logits"),
    # fields and flows
    ("Field('grpo', (1.0, 0.5), 8)", "objective is 'grpo'"),
    ("Field(GRPO, [1.0, 0.5], 8)", "rewards is \\[1.0, 0.5\\], it must be a tuple"),
    ("Field(GRPO, jnp.ones(2), 8)", "rewards is .*it must be a tuple"),
    ("Field(GRPO, (), 8)", "rewards is \\(\\), but a field needs"),
    ("Field(GRPO, (1.0, NAN), 8)", "rewards is .*nan"),
    ("Field(GRPO, ('a', 'b'), 8)", "rewards is \\('a'"),
    ("Field(GRPO, (1.0, 0.5), 0)", "group_size is 0"),
    ("Field(GRPO, (1.0, 0.5), 8.0)", "group_size is 8.0"),
    ("Field(GRPO, (1.0, 0.5), 8, reference=(1.0,))", "reference has the shape"),
    ("Field(GRPO, (1.0, 0.5), 8, reference=(1.5, -0.5))", "reference is .*positive and add up to 1"),
    ("follow(GRPO, [[0.5, 0.5]])", "field is"),
    ("follow(FIELD, [[0.7, 0.8]])", "distributions is .*add up to 1"),
    ("follow(FIELD, [0.5, 0.5])", "distributions is \\[0.5, 0.5\\], it must be a list|has the shape"),
    ("follow(FIELD, [[1.0, 0.0]])", "distributions is .*positive"),
    ("follow(FIELD, [[0.5, 0.3, 0.2]])", "distributions has the shape \\[1, 3\\]"),
    ("follow(FIELD, [])", "distributions has the shape"),
    ("follow(FIELD, 'ab')", "distributions is 'ab'"),
    ("follow(FIELD, [[0.5, NAN]])", "distributions is"),
    ("follow(FIELD, [[0.5, 0.5]], time=-1)", "time is -1"),
    ("follow(FIELD, [[0.5, 0.5]], time=INF)", "time is inf"),
    ("train_expected(FIELD, [[0.5, 0.5]], 0.1, 7)", "steps is 7"),
    ("train_expected(FIELD, [[0.5, 0.5]], NAN, 8)", "step_size is nan"),
    ("train_expected(FIELD, [[0.5, 0.5]], -1.0, 8)", "step_size is -1.0"),
    ("rest_points(3)", "field is 3"),
    ("rest_points(FIELD, starts_each_way=0)", "starts_each_way is 0"),
    ("rest_points(Field(GRPO, (1.0,) * 40, 8))", "40 outcomes"),
    ("rest_point(FIELD, [2.0, -1.0])", "probs is"),
    ("FIELD(jnp.zeros(2))", "logits"),
    ("FIELD('x')", "logits"),
    ("verdict('grpo')", "objective is 'grpo'"),
    ("verdict(GRPO, 'x')", "group_size is 'x'"),
    ("verdict(GRPO, 1)", "group_size is 1"),
    ("verdict(GRPO, 10**6)", "group"),
    # closed forms
    ("flows.flow_velocity([0.0], [1.0, 2.0], 1.0)", "shapes"),
    ("flows.flow_velocity([0.0, 'x'], [1.0, 2.0], 1.0)", "logits is"),
    ("flows.flow_velocity([0.0, 1.0], [1.0, NAN], 1.0)", "rewards is"),
    ("flows.flow_velocity([0.0, 1.0], [1.0, 2.0], -1.0)", "alpha is -1.0"),
    ("flows.flow_velocity([0.0, 1.0], [1.0, 2.0], NAN)", "alpha is nan"),
    ("flows.integrate(3, [0.0, 0.0], [1.0])", "velocity is 3"),
    ("flows.integrate(lambda z: -z, [0.0, 0.0], [2.0, 1.0])", "times"),
    ("flows.stationary_distribution([], 1.0)", "rewards"),
    ("flows.stationary_distribution([-1.0, 1.0], 1.0)", "rewards"),
    ("flows.partial_tie_ratio([1.0], [0.5, 0.5], [1.0, 1.0])", "two outcomes must be best"),
    ("flows.partial_tie_ratio([-1.0], [0.5, 0.3, 0.2], [1.0, 1.0, 0.5])", "times"),
    ("flows.two_outcome_time(0.0, 1.0, 0.0)", "reward gap"),
    ("flows.two_outcome_time(0.0, 1e6, 1.0)", "end"),
    ("finite_groups.count_weights(4.0)", "group_size is 4.0"),
    ("finite_groups.count_weights(0)", "group_size is 0"),
    ("finite_groups.count_weights(8, alpha=-1.0)", "alpha"),
    ("finite_groups.count_weights(10**12)", "group_size"),
    ("finite_groups.count_vectors(3, -1)", "group_size is -1"),
    ("finite_groups.mean_field([0.5, 0.6], [1.0, 1.0], [1.0, 0.5], 'group mean')", "distribution"),
    ("finite_groups.mean_field([0.5, 0.5], [1.0, 1.0], [1.0, 0.5], 'nope')", "rule"),
    ("finite_groups.expected_weight(1.5, [1.0, 0.5])", "probability"),
    ("potentials.flow_potential([0.0, 1.0], [1.0], 1.0)", "shapes"),
    ("moving_frequency.lag('x', 0.5)", "drift is 'x'"),
    ("moving_frequency.effective_group_size(8, 0.0)", "rate is 0.0"),
    ("reference_penalty.distribution_of_flow([1.0, 1.0], [0.5, 0.5], 0.0, 1.0)", "beta is 0.0"),
    ("step_sizes.largest_step([1.0, 0.5], 1.0, 'nope')", "method"),
    ("step_sizes.largest_surviving_step((1.0,), [1.0, 0.5])", "rewards is"),
    ("step_sizes.critical_alpha_of_step((1.0, 0.5), 0, 0.1)", "group_size|group"),
    ("survival.critical_alpha(0.5, 8, 'group mean')", "reward_ratio is 0.5"),
    ("survival.critical_alpha(4, 16, 'nope')", "rule"),
    ("survival.critical_alpha('4', 16, 'group mean')", "reward_ratio is '4'"),
    ("survival.smallest_group(4, 'group mean', alpha=0.0)", "alpha is 0.0"),
    ("survival.smallest_group(4, 3)", "rule is 3"),
    ("survival.weaker_at_rest((1.0, 0.0), 8, 'group mean', 1.0)", "rewards"),
    ("survival.weaker_at_rest((0.5, 1.0), 8, 'group mean', 1.0)", "reward"),
    ("survival.extinction_exponents([1.0, NAN], 8, 'group mean')", "rewards is"),
    ("survival.stationary_distribution([1.0, 0.5], [0.5, 1.0], 'group mean')", "weights"),
    ("restoring_rates.exact('nope', 4, 8, 0.1)", "estimate is 'nope'"),
    ("restoring_rates.exact('counts', 3, 8, 0.1)", "num_outcomes is 3"),
    ("restoring_rates.exact('counts', 0, 8, 0.1)", "num_outcomes is 0"),
    ("restoring_rates.exact('counts', 4, 8, 0.0)", "displacement is 0"),
    ("restoring_rates.closed_form('counts', 4, 0)", "group_size"),
    ("restoring_rates.sampled('counts', 4, 8, 0.1, -1)", "batches is -1"),
    ("time_scales.tie_collapse_time(8, 0.0)", "step_size"),
    ("time_scales.tie_collapse_time(8, 0.1, threshold=0.2)", "threshold is 0.2"),
    ("time_scales.recovery_time(0.5, 0.1, (1.0, 1.0), [1.0, 0.5])", "rise"),
    ("time_scales.restoring_rate(1, [1.0, 0.5])", "num_outcomes is 1"),
    ("two_outcome_training.Cell(GRPO, (1.0, 0.5), 8.5, 0.1)", "group_size is 8.5"),
    ("two_outcome_training.Cell('grpo', (1.0, 0.5), 8, 0.1)", "objective is 'grpo'"),
    ("two_outcome_training.Cell(GRPO, (1.0, NAN), 8, 0.1)", "rewards is"),
    ("passage_times.mean_first_passage(3, -1.0, 1.0)", "cell is 3"),
    # measures
    ("diversity.effective_outcomes('ab')", "outcome_id is 'ab'"),
    ("diversity.effective_outcomes(jnp.array([0.5, 1.2]))", "outcome_id .*integers"),
    ("diversity.effective_outcomes(3)", "outcome_id"),
    ("diversity.entropy_of_distribution(None)", "probs is None"),
    ("diversity.entropy_of_distribution('x')", "probs is 'x'"),
    ("distances.total_l1([0.5, 0.5], [1.0, 0.0, 0.0])", "same number of outcomes"),
    ("distances.total_l1(0.5, 0.5)", "outcomes"),
    ("distances.forward_kl({}, [1.0])", "probs is {}"),
    ("distances.empirical_distribution([0, 1], 2.0)", "num_outcomes is 2.0"),
    ("distances.empirical_distribution([0, 1], -1)", "num_outcomes is -1"),
    ("distances.modes_found([0.5, 0.5], [True, False, True], 0.1)", "outcomes"),
    ("pass_at_k.pass_at_k(3, 2, 1)", "correct"),
    ("pass_at_k.pass_at_k(1, 4, 8)", "pass@8"),
    ("pass_at_k.pass_at_k(1, 4, 2.5)", "k is 2.5"),
    ("pass_at_k.pass_at_k('x', 4, 2)", "correct is 'x'"),
    ("pass_at_k.mean_pass_at_k([1, 2], 4, 3)", "ks is 3"),
    ("seeds.mean_over_seeds([])", "seed"),
    ("seeds.mean_over_seeds([1.0, NAN])", "values"),
    ("seeds.mean_over_seeds([1.0, 2.0], level=1.5)", "level is 1.5"),
    ("seeds.mean_over_seeds([1.0, 2.0], resamples=0)", "resamples is 0"),
    ("seeds.mean_over_seeds('ab')", "values is 'ab'"),
    ("seeds.share_of_runs([])", "run"),
    ("seeds.share_of_runs([True], level=2.0)", "level is 2.0"),
    ("seeds.shared_ranks([1.0, 2.0])", "intervals is"),
    ("answers.recovery([0, 1], [False, False])", "admissible"),
    ("answers.recovery([], [True])", "answers"),
    ("answers.recovery([0.5], [True])", "outcome_id"),
    ("answers.independent_ceiling(0, 1)", "admissible"),
    ("answers.query_count([2], multiplier=NAN)", "multiplier is nan"),
    ("answers.query_count([2], multiplier=-1.0)", "multiplier is -1.0"),
    ("answers.measure_answers([[0]], [[True]], [[True]], 'nope')", "protocol"),
    ("answers.measure_answers([0], [True], [True], 'independent')", "outcome_id"),
    ("rewarded.proportional_reward([[0.0, 0.0]])", "positive"),
    ("rewarded.proportional_reward([1.0, 2.0])", "rewards"),
    ("rewarded.measures(jnp.ones((1, 2)) / 2, [[1.0, 2.0, 3.0]])", "rewards"),
    # environments
    ("environments.make(3)", "text is 3"),
    ("environments.make('nope')", "unknown environment"),
    ("environments.make('hypergrid(dimensions=0)')", "dimensions is 0"),
    ("environments.make('hypergrid(side=100000)')", "states fit into int32"),
    ("environments.make('tree(depth=100000)')", "depth|rewards"),
    ("Bandit((1.0, 'a'))", "rewards must be"),
    ("Bandit(3)", "rewards must be"),
    ("Bandit([1.0, 2.0])", "rewards must be a tuple"),
    ("Hypergrid(dimensions=2.5)", "dimensions is 2.5"),
    ("Hypergrid(dimensions='2')", "dimensions is '2'"),
    ("Hypergrid(dimensions=10**9)", "dimensions|states"),
    ("Hypergrid(base_reward=NAN)", "base_reward is nan"),
    ("Hypergrid(side=True)", "side is True"),
    ("Tree(depth='3')", "depth is '3'"),
    ("Tree(depth=10**7)", "rewards|depth"),
    ("Countdown(numbers=7)", "numbers must be"),
    ("Countdown(numbers=3.0)", "numbers must be"),
    ("Countdown(seed=-1)", "seed must be"),
    ("Countdown(use_all='yes')", "use_all"),
    ("HypospaceBoolean(operators=3)", "operators"),
    ("HypospaceBoolean(depth=9)", "depth"),
    ("HypospaceCausal(nodes='x')", "nodes"),
    ("HypospaceVoxels(side=0)", "side"),
    ("MathAnswers(limit=0)", "limit is 0"),
    ("MathAnswers(data_dir=3)", "data_dir is 3"),
    ("MathAnswers(data_dir='/nope').num_prompts", "there is no data set"),
    ("LanguageTask(BOOLEAN, '/nope', 100)", "there is no folder"),
    ("LanguageTask(3, '/nope', 100)", "task is 3"),
    ("LanguageTask(BOOLEAN, 3, 100)", "tokenizer_dir is 3"),
    ("VerifierPool(workers=-1)", "workers of the verifier pool is -1"),
    ("VerifierPool(seconds=NAN)", "seconds of the verifier pool is nan"),
    ("make_tools('nope')", "unknown"),
    ("make_tools(3)", "text is 3"),
    ("BOOLEAN.verify_texts([99999], [['x']])", "prompt 99999 does not exist"),
    ("BOOLEAN.verify_texts([-1], [['x']])", "prompt -1 does not exist"),
    ("BOOLEAN.verify_texts([0.5], [['x']])", "prompt is .*0.5.*whole number"),
    ("BOOLEAN.verify_texts([0], ['x'])", "texts is"),
    ("BOOLEAN.verify_texts([0], [[3]])", "texts is"),
    ("BOOLEAN.verify_texts([0], [['x'], ['y']])", "as many groups"),
    ("BOOLEAN.verify_texts([0, 1], [['x'], ['y', 'z']])", "texts"),
    ("BOOLEAN.verify_texts(0, [['x']])", "prompt_index is array.0., it must be a list"),
    ("BOOLEAN.prompt_text(10**9)", "prompt 1000000000 does not exist"),
    ("BOOLEAN.prompt_text(-1)", "prompt -1 does not exist"),
    ("BOOLEAN.prompt_text('0')", "prompt is '0'|prompt '0'"),
    ("BOOLEAN.prompt_text(1.5)", "prompt"),
    ("BOOLEAN.render(-1)", "hypothesis -1 does not exist"),
    ("BOOLEAN.outcome_space(99999)", "prompt 99999"),
    ("BOOLEAN.parse_text(3)", "text is 3"),
    ("BANDIT.outcome_space(5)", "prompt must be in"),
    ("BANDIT.outcome_space('x')", "prompt"),
    ("BANDIT.terminal_distribution(jnp.zeros((3, 3)))", "log_probs_table must have shape"),
    # rewards
    ("rewards.NoisyVerifier(1.5)", "false_positive_rate must lie"),
    ("rewards.NoisyVerifier(NAN)", "false_positive_rate must lie"),
    ("begun(reward=rewards.NoisyVerifier('x'))", "false_positive_rate is 'x'"),
    ("rewards.PatternVerifier(())", "pattern of no tokens"),
    ("rewards.PatternVerifier(3)", "pattern"),
    ("begun(reward=rewards.RewardTable(jnp.ones((1, 3))))", "table of rewards must have the shape"),
    ("begun(reward=rewards.RewardTable(jnp.array([[1.0, jnp.nan]])))", "table of rewards must be finite"),
    ("begun(reward=rewards.RewardTable('x'))", "table of rewards"),
    ("begun(reward=3)", "reward is 3, it must be a Reward or None"),
    ("begun(reward=rewards.FormulaReward(3))", "formula"),
    ("begun(reward=rewards.NoisyVerifier(verifier=3))", "verifier"),
    # sources
    ("Sampled(BANDIT, Tabular(1, 2), 1, 4.0)", "group_size is 4.0"),
    ("Sampled(BANDIT, Tabular(1, 2), 0, 4)", "prompts_per_step is 0"),
    ("Sampled(BANDIT, None, 1, 4)", "policy is None, it must be a Policy"),
    ("Sampled('bandit', Tabular(1, 2), 1, 4)", "environment is 'bandit', it must be an Environment"),
    ("Sampled(Bandit, Tabular(1, 2), 1, 4)", "environment is"),
    ("Sampled(BANDIT, Tabular(1, 2), 1, 4, temperature=0.0)", "temperature is 0.0"),
    ("wrapped(3, [OffPolicyAnswers()])", "wraps a source, not 3"),
    ("wrapped(Sampled(BANDIT, Tabular(1, 2), 1, 4), [3])", "wrappers"),
    ("OffPolicyAnswers(answers=2.5)", "number of refinements is 2.5"),
    ("stored([])", "no groups are stored"),
    ("stored([3])", "row 1 must have names"),
    ("stored(3)", "rows is 3"),
    ("stored([ROW], prompts_per_step=2)", "only 1 are stored"),
    ("stored([{**ROW, 'prompt': 99999}])", "prompts are numbered"),
    ("stored([{**ROW, 'prompt': -1}])", "prompts are numbered"),
    ("stored([{**ROW, 'rewards': [1, NAN]}])", "finite numbers as rewards"),
    ("stored([{**ROW, 'answers': [[99999]]}])", "tokens are numbered"),
    ("stored([{**ROW, 'answers': 'ab'}])", "answer 1 of row 1"),
    ("stored([ROW], temperature=INF)", "temperature is inf"),
    ("stored([ROW], environment=BANDIT)", "environment is"),
    ("StoredGroups.read('/nope', BOOLEAN, Tabular(1, 2), 1)", "cannot be read"),
    ("StoredGroups.read(FOLDER, BOOLEAN, Tabular(1, 2), 1)", "cannot be read"),
    ("StoredGroups.read(FOLDER / 'text.jsonl', BOOLEAN, Tabular(1, 2), 1)", "line 1 of .* not a JSON object"),
    ("StoredGroups.read(FOLDER / 'cut.jsonl', BOOLEAN, Tabular(1, 2), 1)", "line 1 of .* not a JSON object"),
    ("StoredGroups.read(FOLDER / 'row.jsonl', BOOLEAN, Tabular(1, 2), 1)", "prompts are numbered"),
    ("StoredGroups.read(3, BOOLEAN, Tabular(1, 2), 1)", "path is 3"),
    # policies
    ("Tabular(0, 2)", "num_observations is 0"),
    ("Tabular(1, 2.0)", "vocabulary_size is 2.0"),
    ("Tabular(1, 2, (0.0, NAN))", "initial_logits"),
    ("Tabular(1, 2, initial_logits='ab')", "initial_logits"),
    ("MLP(3, 4, 2)", "features is 3"),
    ("MLP(len, 4, 2, hidden=[8])", "hidden is \\[8\\], it must be a tuple"),
    ("MLP(len, 4, 2, hidden=(0,))", "hidden"),
    ("MLP(len, 4.0, 2)", "num_features is 4.0"),
    ("Transformer(8, hidden_size=33)", "hidden_size 33"),
    ("Transformer(8, hidden_size=64.0)", "hidden_size is 64.0"),
    ("Transformer(8, dtype='float8')", "dtype is 'float8'"),
    ("Transformer('8')", "vocabulary_size is '8'"),
    ("Transformer(8, lora=3)", "lora is 3"),
    ("Transformer(8, rotary=3)", "rotary is 3"),
    ("Transformer(8, biases='q_proj')", "biases is 'q_proj'"),
    ("LoRA(rank=0)", "rank of LoRA is 0"),
    ("LoRA(alpha=NAN)", "alpha of LoRA is nan"),
    ("LoRA(targets='q_proj')", "targets"),
    # training
    ("settings_of(steps=2.5)", "steps is 2.5, it must be a whole number"),
    ("settings_of(steps=0)", "steps is 0"),
    ("settings_of(steps=True)", "steps is True"),
    ("settings_of(group_size=4.0)", "group_size is 4.0"),
    ("settings_of(group_size=2**70)", "group_size is 1180591620717411303424"),
    ("settings_of(prompts_per_step='1')", "prompts_per_step is '1'"),
    ("settings_of(learning_rate=NAN)", "learning_rate is nan"),
    ("settings_of(learning_rate='fast')", "learning_rate is 'fast'"),
    ("settings_of(temperature=INF)", "temperature is inf"),
    ("settings_of(monitors='nope')", "nope"),
    ("settings_of(monitors=None)", "monitors is None"),
    ("settings_of(batching=3)", "batching is 3"),
    ("settings_of(off_policy='x')", "off_policy is 'x'"),
    ("settings_of(cosine_decay='no')", "cosine_decay is 'no'"),
    ("TrainSettings(1, 1)", "group_size"),
    ("settings_of(nope=1)", "nope"),
    ("Batching(epochs=1.5)", "epochs is 1.5"),
    ("settings.make_batch_filters('nope')", "unknown batch filter"),
    ("settings.make_batch_filters(3)", "text is 3"),
    ("make_optimizer('adamw')", "unknown optimizer"),
    ("make_optimizer(['adam'])", "name is \\['adam'\\]"),
    ("make_optimizer('adam', learning_rate='x')", "learning_rate is 'x'"),
    ("trainer(objective='grpo')", "objective is 'grpo'"),
    ("trainer(environment='bandit')", "environment is 'bandit'"),
    ("trainer(environment=MathAnswers())", "environment is .*it must be an Environment"),
    ("trainer(policy=3)", "policy is 3"),
    ("trainer(settings={'steps': 3})", "settings is"),
    ("trainer(source=3)", "source is 3"),
    ("trainer().init(0)", "no mesh is set"),
    ("begun(-1)", "seed is -1"),
    ("begun(2**70)", "seed is 1180591620717411303424"),
    ("begun(0.5)", "seed is 0.5"),
    ("begun('0')", "seed is '0'"),
    ("begun(None)", "seed is None"),
    ("begun(initial_parameters=3)", "initial_parameters|parameters"),
    ("begun(initial_parameters={'nope': jnp.zeros(2)})", "parameters"),
    ("begun(initial_parameters={'logits': jnp.zeros((3, 3))})", "parameters"),
    ("trained()", "folder is None, it must be a RunFolder"),
    ("trained(folder=FOLDER)", "folder is"),
    ("trained(objective='grpo')", "objective is 'grpo'"),
    ("loop.check_run(BANDIT, Tabular(3, 7), GRPO, RUN, make_mesh('replica:-1'))", "policy"),
    ("loop.train_vmapped(BANDIT, Tabular(1, 2), GRPO, [], [], [])", "nothing to run"),
    ("train_ensemble(trainer(), jnp.arange(2), jnp.sum, record_every=3)", "steps is 1"),
    ("train_ensemble(trainer(), [0, 1], jnp.sum, record_every=0)", "record_every is 0"),
    ("train_ensemble(3, jnp.arange(2), jnp.sum)", "trainer is 3"),
    ("warm_start.WarmStart(admissible_share=2.0)", "admissible_share is 2.0"),
    ("warm_start.WarmStart(seed=-1)", "seed"),
    ("warm_start.WarmStart(zipf_exponent=NAN)", "zipf_exponent is nan"),
    ("warm_start.prior_parameters(BANDIT, Tabular(1, 2), warm_start.WarmStart())", "environment is"),
    ("warm_start.prior_parameters(BOOLEAN, Tabular(1, 2), None)", "settings is None"),
    # folders, results and sweeps
    ("RunFolder.open(3, {})", "path is 3"),
    ("RunFolder.open(FOLDER / 'new', None)", "config is None"),
    ("RunFolder.open(FOLDER / 'new', {1: 2})", "keys of a JSON object are strings"),
    ("RunFolder.open(FOLDER / 'new', {'a': NAN})", "nan"),
    ("RunFolder.open(FOLDER / 'new', {'a': NESTED})", "deep"),
    ("RunFolder.open(FOLDER / 'new', {'a': object()})", "JSON cannot hold"),
    ("RunFolder.open(FOLDER / 'new', {}, resume='no')", "resume is 'no'"),
    ("RunFolder.open(FOLDER / 'text.jsonl', {})", "is a file"),
    ("RunFolder.open(FOLDER, {})", "no config.json"),
    ("results.load()", "folder"),
    ("results.load(3)", "folders is 3|folder is 3"),
    ("results.load('/nope')", "there is no folder /nope"),
    ("results.load(FOLDER / 'empty')", "holds no run"),
    ("results.load(FOLDER / 'run')", "should hold an object"),
    ("results.load(None)", "folders is None"),
    ("results.load(FOLDER / 'run', skip_damaged='x')", "skip_damaged is 'x'"),
    ("discovery.find('/nope')", "there is no folder"),
    ("discovery.find(3)", "root is 3"),
    ("metric_log.read('/nope')", "/nope"),
    ("metric_log.read(FOLDER / 'text.jsonl')", "text.jsonl"),
    ("write_report('/nope')", "there is no folder"),
    ("write_report(3)", "root is 3"),
    ("write_report(FOLDER, out='thesis.txt')", "html"),
    ("write_report(FOLDER, title=3)", "title is 3"),
    ("make_monitors('all, nope')", "nope"),
    ("make_monitors(3)", "text is 3"),
    ("extensions.load(3)", "modules is 3"),
    ("extensions.load('nope_nope')", "cannot be imported"),
    ("extensions.load('../x.py')", "cannot be imported"),
    ("extensions.load('json')", "has neither OBJECTIVES"),
    ("sweep_runs.read_grid(3)", "text is 3"),
    ("sweep_runs.read_grid('steps')", "cannot read 'steps'"),
    ("sweep_runs.read_grid('steps=(1')", "missing"),
    ("sweep_runs.read_grid('seeds=0:1000000000')", "seeds|range"),
    ("sweep_runs.read_grid('a=0:1000;b=0:1000;c=0:1000')", "runs"),
    ("sweep_runs.make_run('nope')", "nope"),
    ("sweep_runs.make_run('hypospace', 'nope')", "nope"),
    ("sweep_runs.make_run('hypospace', steps='x')", "steps"),
    ("sweep_runs.make_run(3)", "experiment is 3"),
    ("sweep_runs.make_runs([])", "list of runs is empty"),
    ("sweep_runs.make_runs([{}])", "is not a run"),
    ("sweep_runs.make_runs(3)", "requests is 3"),
    # meshes, memory, specifications
    ("make_mesh(3)", "text is 3"),
    ("make_mesh('data')", "mesh 'data'"),
    ("make_mesh('data:' + '9' * 5000)", "mesh"),
    ("memory.require(10**30, 'the answers', 'take fewer')", "the answers take"),
    ("memory.require('x', 'the answers', 'take fewer')", "needed is 'x'"),
    ("specifications.split(3)", "text is 3"),
    ("specifications.split('')", "cannot read|empty"),
    ("specifications.split('()')", "empty list"),
    ("specifications.split('a+' * 20000 + 'a')", "cannot read|nested too deeply"),
    ("specifications.with_argument('a, b', 'x', 1)", "expected one"),
    ("outcome_frequency(None)", "outcome_id is None"),
    ("Actors()", "policy"),
]
UPDATE = "expected_update(GRPO, jnp.array([0.0, 1.0]), REWARDS, 4)"
EQUAL = [
    ("expected_update(GRPO, [0.0, 1.0], [1.0, 0.5], 4)", UPDATE),
    ("expected_update(GRPO, (0, 1), np.array([1.0, 0.5]), np.int64(4))", UPDATE),
    ("expected_update(GRPO, jnp.array([0.0, 1.0], 'bfloat16'), REWARDS, 4)", UPDATE),
    ("expected_update(GRPO, jnp.array([0.0, 1.0], 'float16'), jnp.array([1, 0.5], 'float16'), 4)", UPDATE),
    ("expected_update(GRPO, np.array([0.0, 1.0]), REWARDS, 4, reference=[0, 0])", UPDATE),
    ("follow(FIELD, ((0.5, 0.5),), 1).logits[-1]", "follow(FIELD, np.full((1, 2), 0.5), 1.0).logits[-1]"),
    ("Field(GRPO, (-1.0, 0), 4)([[0, 0]])", "Field(GRPO, (0.0, 1.0), 4)(np.zeros((1, 2)))"),
    ("flows.flow_velocity((0, 1), REWARDS, 1)", "flows.flow_velocity(np.array([0.0, 1.0]), np.array([1.0, 0.5]), 1.0)"),
    ("survival.critical_alpha(np.float32(4), np.int32(16), 'group mean')", "np.log(4) / np.log(15)"),
    ("diversity.effective_outcomes([0, 1, 1, -1])", "diversity.effective_outcomes(jnp.array([0, 1, 1, -1]))"),
    ("distances.total_l1([0.5, 0.5], (1, 0))", "1.0"),
    ("pass_at_k.pass_at_k([1, 2], 4, np.int64(2))", "[0.5, 5 / 6]"),
    ("seeds.mean_over_seeds([1, 2, 3]).mean", "2.0"),
    ("answers.recovery((0, 0, 1), [1, 0, 1])", "0.5"),
    ("settings_of(steps=np.int64(3), learning_rate=1).steps", "3"),
    ("BOOLEAN.verify_texts((0,), (('x',),)).outcome_id", "[[-1]]"),
    ("begun(np.int64(3)).seed", "3"),
    ("begun(reward=rewards.RewardTable([[1.0, 0.5]])).seed", "0"),
    ("results.select(results.load(FOLDER / 'finished'), 'select reward from metrics')[1]", "[[0.5]]"),
]


@dataclasses.dataclass(frozen=True)
class Ending:
    """What a call ended in: its value, or an exception, after some seconds of the processor."""

    value: Any
    error: BaseException | None
    seconds: float


def made(call: str, folder: Path) -> Ending:
    """Makes a call."""
    started, names = time.process_time(), {**globals(), "FOLDER": folder}
    try:
        value, error = eval(call, names), None
    except Exception as raised:
        value, error = None, raised
    return Ending(value, error, time.process_time() - started)


def write_files(folder: Path) -> None:
    """Writes what calls are given."""
    (folder / "empty").mkdir()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def faults(found: Ending, message: str) -> list[str]:
    """What is wrong with the answer to a malformed call; empty if it was refused as it must be."""
    said = str(found.error)
    wrong = {
        "it was accepted": found.error is None,
        f"it raised {type(found.error).__name__}": not isinstance(found.error, ValueError | TypeError | OSError),
        f"it said {said[:200]!r}": not re.search(message, said) or "\n" in said,
        f"it said {len(said)} characters": len(said) > LONGEST,
        f"it took {found.seconds:.1f} s": found.seconds > SECONDS,
    }
    return [fault for fault, holds in wrong.items() if holds]
