"""Runs of a report are distinguished by as few settings as suffice."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ipsrl.records.report import differing_settings

groups = st.lists(st.dictionaries(st.sampled_from("abcd"), st.sampled_from("012")), min_size=1, max_size=6)


def test_objects_and_nested_settings_are_flattened():
    assert differing_settings.flat(
        {
            "environment": "LanguageTask(task=Boolean(operators='full', depth=2), verifier=VerifierPool(workers=0))",
            "policy": "MLP(features=<bound method Hypergrid.features of Hypergrid(side=8)>, hidden=(64, 64))",
            "training": {"steps": 5, "batching": {"epochs": 1}, "rule": None},
            "objective": "ips_grpo(floor=0.2)",
            "note": "not (python",
            "seeds": "0:3",
        }
    ) == {
        "environment": "LanguageTask",
        "environment.task": "Boolean",
        "environment.task.operators": "'full'",
        "environment.task.depth": "2",
        "environment.verifier": "VerifierPool",
        "environment.verifier.workers": "0",
        "policy": "MLP",
        "policy.features": "...",
        "policy.hidden": "(64, 64)",
        "training.steps": "5",
        "training.batching.epochs": "1",
        "training.rule": "null",
        "objective": "ips_grpo",
        "objective.floor": "0.2",
        "note": "not (python",
        "seeds": "0:3",
    }


@given(st.text())
def test_any_text_is_a_setting(text):
    assert differing_settings.flat({"name": text})["name"] is not None


@given(groups)
def test_what_differs_and_what_is_shared_are_all_there_is(groups):
    apart, shared = differing_settings.differing(groups), differing_settings.shared(groups)
    assert set(apart) | set(shared) == set(itertools.chain(*groups))
    assert not set(apart) & set(shared)
    for group in groups:
        assert all(group[name] == value for name, value in shared.items() if name in group)


@given(groups)
def test_few_settings_tell_apart_what_all_of_them_do(groups):
    def kinds(names):
        return {tuple(group.get(name) for name in names) for group in groups}

    apart, told = differing_settings.differing(groups), differing_settings.telling(groups)
    assert set(told) <= set(apart)
    assert len(kinds(told)) == len(kinds(apart))


def test_one_setting_is_enough_where_others_go_with_it():
    sizes = [{"prompts": str(64 // size), "group_size": str(size), "rate": rate} for size in (4, 8) for rate in "12"]
    assert differing_settings.differing(sizes) == ["prompts", "group_size", "rate"]
    assert differing_settings.telling(sizes) == ["prompts", "rate"]


def test_the_last_word_of_a_name_is_enough_where_it_is_the_only_one():
    names = ["training.steps", "warm_start.steps", "training.group_size"]
    assert list(differing_settings.short_names(names).values()) == ["training.steps", "warm_start.steps", "group_size"]
