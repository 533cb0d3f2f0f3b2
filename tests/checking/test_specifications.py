"""Objectives and environments by text."""

import re

import pytest

from ipsrl.checking import specifications
from ipsrl.environments import catalog as environment_catalog
from ipsrl.objectives import describe, make, names


@pytest.mark.parametrize("name", names())
def test_every_objective_has_defaults_a_description_and_a_hash(name):
    assert make(name) == make(f" {name} ( ) ")
    assert hash(make(name)) == hash(make(name))
    assert describe(name).startswith(f"{name}(")
    assert "arXiv" in describe(name) or "(ours)" in describe(name), f"the docstring of {name!r} names no source"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gprpo", "unknown objective 'gprpo'; did you mean grpo or "),
        ("maximum", "unknown objective 'maximum'; known: a2po, aer, "),
        ("grpo(epsilon=0.1)", "no argument 'epsilon'; known: clip, dual_clip"),
        ("ips_grpo(probability=counted)", "is not one of counts(...), offset(...), ema(...), exact(...)"),
        ("ips_grpo(alpha=high)", "alpha=high is not a number or one of effective(...)"),
        ("progrpo(reference=answer)", "reference=answer is not one of correct, other_prompt, prompt(...)"),
        ("grpo(0.2)", "cannot read"),
        ("grpo(clip=__import__('os'))", "unknown clip '__import__'; this argument has no arguments of its own"),
        ("grpo(**more)", "cannot read 'grpo(**more)'"),
        ("grpo(clip=0.1, clip=0.3)", "gives an argument twice"),
        ("grpo(kl=k3(0.1, target=1, target=2))", "cannot read 'k3(0.1, target=1, target=2)'"),
        ("grpo(clip=({[]: 1}, 0.2))", "not a number, word"),
    ],
)
def test_bad_text_is_refused_in_one_sentence(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        make(text)
    assert "\n" not in str(error.value)
    assert str(error.value).count("one of ") <= 1


def test_lists_are_split_at_the_outer_commas_only():
    text = "grpo, ips_grpo(alpha=0.5, floor=0.2),bandit(rewards=(1.0, 0.5))"
    split = specifications.split(text)
    assert split == ("grpo", "ips_grpo(alpha=0.5, floor=0.2)", "bandit(rewards=(1.0, 0.5))")
    assert specifications.split(",".join(split)) == split


def test_an_argument_can_be_added_or_replaced():
    assert specifications.with_argument("ips_grpo", "floor", 0.2) == "ips_grpo(floor=0.2)"
    assert specifications.with_argument("ips_grpo(floor=0.1,alpha=2)", "floor", 0.2) == "ips_grpo(floor=0.2, alpha=2)"


@pytest.mark.slow
def test_every_environment_can_be_made_by_name():
    for name in environment_catalog.names():
        if name == "reasoning_gym":  # which needs a data set, and its package
            continue
        environment = environment_catalog.make(name)
        if name != "math_answers":  # whose questions are read from disk
            assert environment.num_prompts >= 1
    with pytest.raises(ValueError, match="unknown environment 'maze'; known: addition, addition_modes, bandit"):
        environment_catalog.make("maze")
