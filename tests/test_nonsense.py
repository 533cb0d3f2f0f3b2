"""Declared types and ranges: no field takes a number beyond its range, the name of nothing, or another type."""

import dataclasses
import math
import re
from typing import get_args

import pytest

from ipsrl.distributed.start_up import Cluster
from ipsrl.environments.agents.tools import Calculator, Search
from ipsrl.environments.catalog import CATALOG
from ipsrl.environments.demonstrations import EarlySwitches, ModeMistakes, PlanMistakes
from ipsrl.environments.language.reasoning_gym import ReasoningGym
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.policies.adapters import LoRA
from ipsrl.policies.rotary import LinearScaling, Rotary
from ipsrl.policies.state_space import StateSpace
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.policies.transformer_config import SlidingWindow
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.sources.best_answers import BestAnswers
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.diversity_filter import DiversityFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.rollouts.sources.replay import ReplayedAnswers
from ipsrl.rollouts.sources.replayed_modes import ReplayedModes
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching
from ipsrl.training.supervised.warm_start import WarmStart

LOW, HIGH = -1e9, 1e9
NONSENSE = {int: (-2, 2.5), float: (math.nan, "x", LOW, HIGH), bool: (2,), str: (3,)}
UNLIMITED = {
    LOW: {"at_most", "zipf_exponent", "lowest", "highest"},
    HIGH: {
        *("Decoding.temperature", "DifficultyFilter.learning_rate", "adam_epsilon", "alpha", "at_most"),
        *("attention_soft_cap", "base_reward", "distillation", "edge_reward", "factor", "gap", "highest"),
        *("TrainSettings.learning_rate", "WarmStart.learning_rate", "logit_soft_cap", "lowest", "margin"),
        *("max_gradient_norm", "peak_reward", "query_pre_attention_scalar", "ranking", "rms_norm_epsilon"),
        *("seconds", "strength", "theta", "weight_decay", "window", "zipf_exponent"),
    },
}
"""Fields that so large a number fits, or whose range has a test of its own: the window of a difficulty filter."""
WITHOUT_DEFAULT = {
    ReasoningGym: {"dataset": "gcd"},
    Search: {"folder": "/"},
    LinearScaling: {"factor": 2.0},
    StateSpace: {"vocabulary_size": 8},
    Tabular: {"num_observations": 1, "vocabulary_size": 2},
    Transformer: {"vocabulary_size": 8},
    SlidingWindow: {"window": 3, "layers": (0,)},
    TokenPenalty: {"tokens": (1,)},
    TrainSettings: {"steps": 1, "prompts_per_step": 1, "group_size": 2},
}
KINDS = [
    *filter(dataclasses.is_dataclass, CATALOG.values()),
    *WITHOUT_DEFAULT,
    Calculator,
    VerifierPool,
    EarlySwitches,
    ModeMistakes,
    PlanMistakes,
    LoRA,
    Rotary,
    Decoding,
    BestAnswers,
    DifficultyFilter,
    DiversityFilter,
    DynamicSampling,
    OffPolicyAnswers,
    ReplayedAnswers,
    ReplayedModes,
    Batching,
    WarmStart,
    Cluster,
]


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
def test_no_field_takes_nonsense(kind):
    for field in filter(lambda field: field.init, dataclasses.fields(kind)):
        allowed = field.metadata.get("range")
        values = [value for part in get_args(field.type) or (field.type,) for value in NONSENSE.get(part, ())]
        values += ["none-such"] * ("one of" in getattr(allowed, "phrase", ""))
        called = re.escape(getattr(allowed, "called", "") or field.name)
        for value in values:
            if {field.name, f"{kind.__name__}.{field.name}"} & UNLIMITED.get(value, set()):
                continue
            with pytest.raises(ValueError, match=rf"\b{called} (is|must)\b"):
                kind(**WITHOUT_DEFAULT.get(kind, {}) | {field.name: value})
