"""Random texts for flags, specifications and grids: refused in one sentence, or accepted, never another exception."""

import dataclasses
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipsrl import objectives
from ipsrl.checking import specifications
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments import catalog as environments
from ipsrl.environments.agents.tools import make_tools
from ipsrl.records.monitors import make_monitors
from ipsrl.records.trackers import read_trackers
from ipsrl.study import catalog
from ipsrl.study.settings import as_text, kinds_of, resolve
from ipsrl.sweeps import launcher_catalog
from ipsrl.sweeps.sweep_runs import read_grid
from ipsrl.training.settings import make_batch_filters
from tests.hostile.ended import value_or_sentence
from tests.tiers import fuzzed

pytestmark = pytest.mark.slow

SIGNS = [*"()[]{},;:=.+-*/%'\"\\#@! \t\n\0_", "**"]
NUMBERS = ["0:3", "0:99999999", "1e9", "-1", "nan", "inf", "1e999", "0x", "9" * 30]
CODE = ["True", "None", "lambda: 0", "if", "__import__"]
ARGUMENTS = ["alpha", "floor", "kl", "k3", "probability", "exact", "all", "none"]
PIECES = [*SIGNS, *NUMBERS, *CODE, *ARGUMENTS, "é", "٣", "\ud800", "x" * 300, "(" * 200]
NAMES = [*objectives.names(), *environments.names(), "dynamic_sampling", "low_entropy", "local", "data", "steps"]
noise = st.lists(st.sampled_from(PIECES + NAMES) | st.text(max_size=3), max_size=12).map("".join)


@st.composite
def edited(draw, texts):
    """A right text with a few characters replaced."""
    text = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        first = draw(st.integers(0, len(text)))
        last = draw(st.integers(first, min(len(text), first + 4)))
        text = text[:first] + draw(st.sampled_from(["", *PIECES])) + text[last:]
    return text


RIGHT = """
ips_grpo(alpha=0.5, floor=0.2)
grpo(kl=k3(0.04, target=6))
ips_grpo(probability=exact(backward=learned))
dapo(clip=(0.2, 0.28))
hypergrid(dimensions=2, side=4)
tree(depth=3)
forks(forks=1, branches=2, steps=1)
long_work(work=2)
addition_modes(digits=1, forced=half)
plan_and_execute(length=4, problems=2)
graph_search(depth=3, dead_first=0.9)
search_agent(hops=(1, 2), problems=8, outcome=lookups)
search_questions(problems=4)
countdown(numbers=3, problems=2)
one_of_many(questions=(day, month), reading=mention)
bandit(rewards=(1, 0.5))
dynamic_sampling(rounds=10), off_policy(answers=2)
all, low_entropy(below=0.3)
local(workers=1)
data:1
seeds=0:3;steps=2,3
calculator
"""
right = st.sampled_from(RIGHT.strip().splitlines())
READERS = {
    "specifications": specifications.split,
    "objectives": objectives.make,
    "several objectives": lambda text: objectives.make_each(specifications.split(text)),
    "descriptions": objectives.describe,
    "environments": environments.make,
    "batch filters": make_batch_filters,
    "monitors": make_monitors,
    "trackers": read_trackers,
    "tools": make_tools,
    "launchers": launcher_catalog.make,
    "grids": read_grid,
    "meshes": make_mesh,
}


@pytest.mark.parametrize("name", READERS)
@fuzzed(30)
@given(text=edited(right) | noise)
def test_what_reads_a_text(name, text):
    value_or_sentence(READERS[name], text)


@fuzzed(100)
@given(text=edited(right) | noise)
def test_a_specification_that_is_read_has_a_normal_form(text):
    found = value_or_sentence(specifications.split, text)
    if found is not None:
        assert specifications.split(", ".join(found)) == found


@functools.cache
def texts_of_flags(name):
    """Flag of a study -> its texts in the presets."""
    presets = catalog.find(name).presets.values()
    flags = kinds_of(type(next(iter(presets))))
    return {flag: sorted({as_text(preset, flag) for preset in presets}) for flag in flags}


@pytest.mark.parametrize("name", catalog.names())
@fuzzed(8)
@given(data=st.data())
def test_flags(name, data):
    flags = texts_of_flags(name)
    chosen = data.draw(st.lists(st.sampled_from(sorted(flags)), min_size=1, max_size=3, unique=True))
    texts = {flag: data.draw(edited(st.sampled_from(flags[flag])) | noise) for flag in chosen}
    resolved = value_or_sentence(resolve, catalog.find(name).presets, "smoke", texts)
    if resolved is not None:
        assert dataclasses.replace(resolved) == resolved
        written = {flag: as_text(resolved, flag) for flag in chosen}
        assert resolve(catalog.find(name).presets, "smoke", written) == resolved
