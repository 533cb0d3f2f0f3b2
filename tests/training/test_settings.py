"""Rules come from text, and settings that cannot be are refused."""

import dataclasses

import pytest

from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers
from ipsrl.training.loop import TrainSettings
from ipsrl.training.settings import make_batch_filters

SETTINGS = TrainSettings(steps=7, prompts_per_step=16, group_size=4)


def test_rules_from_text():
    assert make_batch_filters("") == {}
    assert make_batch_filters("dynamic_sampling") == {"dynamic_sampling": DynamicSampling(10)}
    filters = make_batch_filters(
        "off_policy(answers=3, source=reference, at_most=0.25), difficulty_filter(lowest=0.2, width=8)"
    )
    assert filters == {
        "off_policy": OffPolicyAnswers(3, "reference", 0.25),
        "difficulty_filter": DifficultyFilter(lowest=0.2, width=8),
    }
    settings = dataclasses.replace(SETTINGS, **filters)
    assert settings.off_policy.answers == 3
    assert settings.dynamic_sampling is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("replay", "unknown batch filter 'replay'; known: difficulty_filter, dynamic_sampling, off_policy"),
        ("dynamic_sampling(turns=3)", "batch filter 'dynamic_sampling' has no argument 'turns'; known: rounds"),
        ("dynamic_sampling(rounds=0)", "rounds of dynamic sampling is 0"),
        ("off_policy(source=expert)", "source=expert is not one of policy, reference"),
        ("off_policy, off_policy(answers=2)", "the batch filter off_policy is given twice in"),
    ],
)
def test_texts_that_name_no_rules(text, message):
    with pytest.raises(ValueError, match=message):
        make_batch_filters(text)


@pytest.mark.parametrize(
    "name",
    ["steps", "prompts_per_step", "group_size", "temperature", "learning_rate", "max_gradient_norm", "evaluate_every",
     "checkpoint_every"],
)  # fmt: skip
def test_settings_are_positive(name):
    with pytest.raises(ValueError, match=f"^{name} is 0, it must be positive and finite"):
        dataclasses.replace(SETTINGS, **{name: 0})


def test_a_reference_is_refreshed_at_whole_intervals():
    assert SETTINGS.refresh_reference_every == 0
    with pytest.raises(ValueError, match=r"^refresh_reference_every is -1, it must be finite and not negative$"):
        dataclasses.replace(SETTINGS, refresh_reference_every=-1)


def test_monitors_are_read_when_settings_are_made():
    assert SETTINGS.monitors == "all"
    with pytest.raises(ValueError, match=r"^unknown monitor 'all_of_them'; known: "):
        dataclasses.replace(SETTINGS, monitors="all_of_them")
