import dataclasses
import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import two_outcomes
from ipsrl.study import catalog
from ipsrl.study.settings import as_text, kinds_of
from ipsrl.sweeps.sweep_runs import make_run, make_runs, read_file, read_grid, require_unchanged, settings_of

ROOT = catalog.root()
EXPERIMENTS = catalog.names()


def test_a_grid_is_all_combinations():
    assert read_grid("objectives=grpo,ips_grpo(floor=0.2);group_size=4,8;seeds=0:2") == [
        {"objectives": objective, "group_size": size, "seeds": seed}
        for objective in ("grpo", "ips_grpo(floor=0.2)")
        for size in ("4", "8")
        for seed in ("0", "1")
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("rewards=[2.0,1.0],[3.0,1.0]", ["2.0,1.0", "3.0,1.0"]),
        ("seeds=[0:5],7", ["0:5", "7"]),
        ("seeds=3:5,9", ["3", "4", "9"]),
        ("tasks=causal(nodes=4, perturbations=2) , maze", ["causal(nodes=4, perturbations=2)", "maze"]),
        ("rules=[],dynamic_sampling", ["", "dynamic_sampling"]),
        ("mesh=data:4", ["data:4"]),
        ("system_prompt=[a;b=[c]]", ["a;b=[c]"]),
        ('system_prompt="Be brief, please"', ["Be brief, please"]),
        ("system_prompt= 'a;b=(c' , \"it's 0:3\",", ["a;b=(c", "it's 0:3", ""]),
        ("system_prompt=Don't,do", ["Don't", "do"]),
        ("system_prompt=Don’t,say 'no' \"twice\"", ["Don’t", "say 'no' \"twice\""]),
        ('system_prompt=[say "hi, there"],[“hi, there”]', ['say "hi, there"', "“hi, there”"]),
        ('system_prompt="say “hi, there”"', ["say “hi, there”"]),
        ("system_prompt=['a']", ["'a'"]),
        ('seeds="0:3"', ["0:3"]),
        ('data=questions(path="a,b"),x', ['questions(path="a,b")', "x"]),
    ],
)
def test_values_stand_between_commas_outside_brackets(text, values):
    name = text.partition("=")[0]
    assert [flags[name] for flags in read_grid(text)] == values


names = st.sampled_from(["seeds", "steps", "rewards", "_mesh"])
written = st.text(alphabet="abc019.,:;= -_/'\"", max_size=8)


@given(st.dictionaries(names, st.lists(written, min_size=1, max_size=3), min_size=1, max_size=3))
def test_whatever_stands_in_brackets_comes_back(values):
    text = ";".join(f"{name}={','.join(f'[{value}]' for value in listed)}" for name, listed in values.items())
    grid = read_grid(text)
    size = 1
    for name, listed in values.items():
        assert {flags[name] for flags in grid} == set(listed)
        size *= len(listed)
    assert len(grid) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds=0;seeds=1", "names 'seeds' twice"),
        ("seeds=0:20000", "the range '0:20000' in the grid is too long: a sweep has at most 10,000 runs"),
        ("seeds=3:3", "the range '3:3' in the grid is empty"),
        ("objectives=grpo)", "')' closes no bracket"),
        ("objectives=(a]", "']' closes no bracket"),
        ("objectives=[a][b]", "']' closes no bracket"),
        ('system_prompt="Be brief', "'\"' is missing"),
        ("system_prompt='tis,it", '"\'" is missing'),
        ('system_prompt="a" b', "in the grid: write a text in quotes alone, or in brackets"),
        ('system_prompt="a""b"', "in the grid: write a text in quotes alone, or in brackets"),
    ],
)
def test_what_is_no_grid_is_refused(text, message):
    with pytest.raises(ValueError, match="grid") as error:
        read_grid(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "text", ['say "hi, there"', "say 'hi; there'", "x, say “it's, ok”, y", "a «b, c» d", "„b“", "‘b’", "「b」", "＂b＂"]
)
def test_quotes_within_a_value_are_refused(text):
    with pytest.raises(ValueError, match="in the grid, for its quotes: write the whole value in square brackets"):
        read_grid(f"system_prompt=a {text}")
    assert read_grid(f"system_prompt=[{text}]") == [{"system_prompt": text}]


def test_the_same_run_has_one_identity_however_it_is_written():
    run = make_run("two_outcomes", "smoke", seeds="0:2", learning_rate="0.010")
    same = [
        make_run("two_outcomes", "smoke", learning_rate=0.01, seeds="0:2"),
        make_run("two_outcomes", "smoke", learning_rate="1e-2", seeds="0:2", steps="400"),
        make_run("two_outcomes", "demo", learning_rate=0.01, seeds="0:2", steps=400, record_every=20),
    ]
    assert all(other == run for other in same)
    assert run.arguments == ["experiments.two_outcomes", "--preset=smoke", "--seeds=0:2", "--learning_rate=0.01"]
    assert run.identity.startswith("two_outcomes-seeds=0-2-learning_rate=0.01-steps=400-record_every=20-")


def test_a_new_preset_changes_no_identity(monkeypatch):
    run = make_run("two_outcomes", "smoke", seeds="0:2")
    small = dataclasses.replace(two_outcomes.PRESETS["smoke"], seeds=(0, 1))
    monkeypatch.setitem(two_outcomes.PRESETS, "small", small)
    again = make_run("two_outcomes", "smoke", seeds="0:2")
    assert (again.preset, again.flags) == ("small", {})
    assert again.identity == run.identity
    require_unchanged([run])


@given(st.lists(st.tuples(st.integers(2, 5), st.sampled_from([0.01, 0.02, 0.03])), min_size=2, max_size=2, unique=True))
def test_other_runs_have_other_identities(settings):
    first, second = (make_run("two_outcomes", "smoke", group_size=size, learning_rate=rate) for size, rate in settings)
    assert first.identity != second.identity
    assert settings_of(first) != settings_of(second)


def test_an_identity_is_a_file_name():
    run = make_run("math_answers", "smoke", data=f"math_answers(data_dir='é/{'x' * 500}')")
    assert len(run.identity.encode()) < 200
    assert "/" not in run.identity
    assert make_run("math_answers", "smoke", data=run.flags["data"].replace("xx", "x", 1)).identity != run.identity


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_preset_of_every_experiment_can_be_swept(experiment):
    for name, settings in importlib.import_module(f"experiments.{experiment}").PRESETS.items():
        run = make_run(experiment, name)
        assert run.flags == {}
        assert settings_of(run) == settings.resolved()
        # Otherwise 1 by default and 1.0 by a flag would be two runs.
        for flag, kind in kinds_of(type(settings)).items():
            assert repr(kind.read(as_text(settings, flag))) == repr(getattr(settings, flag)), flag


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"experiment": "two_outcomes", "speed": 3}, "two_outcomes has no flag 'speed'; "),
        ({"experiment": "two_outcomes", "rewards": (2.0, 1.0)}, "it must be numbers between commas"),
        (
            {"experiment": "two_outcomes", "group_size": 0},
            "^two_outcomes --group_size=0: --group_size is 0, it must be",
        ),
        ({"preset": "smoke"}, "is not a run: write flags by name, and the experiment here or as --experiment"),
    ],
)
def test_an_impossible_run_is_refused(request_, message):
    with pytest.raises(ValueError, match=message):
        make_runs([request_])


def test_a_run_is_asked_for_once():
    same = [{"experiment": "two_outcomes", "steps": 2000}, {"experiment": "two_outcomes"}]
    with pytest.raises(ValueError, match=r"the run two_outcomes-[0-9a-f]{8} is given twice"):
        make_runs(same)
    with pytest.raises(ValueError, match="the list of runs is empty"):
        make_runs([])
    with pytest.raises(ValueError, match="the list has 10,001 runs, a sweep has at most 10,000: split it"):
        make_runs(same[:1] * 10_001)


def test_a_study_is_looked_for_once(monkeypatch):
    looked, find = [], catalog.find
    monkeypatch.setattr(catalog, "find", lambda name: looked.append(name) or find(name))
    assert len(make_runs([{"experiment": "two_outcomes", **flags} for flags in read_grid("seeds=0:20")])) == 20
    assert looked == ["two_outcomes"]


@pytest.mark.parametrize(
    "text",
    [
        "RUNS = [{'experiment': 'two_outcomes', 'seeds': f'{seed}:{seed + 2}'} for seed in range(3)]",
        "def runs():\n    return tuple({'experiment': 'two_outcomes', 'seeds': f'{n}:{n + 2}'} for n in range(3))",
    ],
)
def test_a_python_file_lists_runs(tmp_path, text):
    (tmp_path / "runs.py").write_text(text)
    runs = make_runs(read_file(tmp_path / "runs.py"))
    assert [run.flags for run in runs] == [{"seeds": "0:2"}, {"seeds": "1:3"}, {"seeds": "2:4"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RUNS = [", r"fails, line 1: SyntaxError: '\[' was never closed"),
        ("\ndef runs():\n    raise KeyError", "fails, line 3: KeyError: no message"),
        ("runs = 3", "lists no runs"),
        ("RUNS = [3]", "lists no runs"),
    ],
)
def test_a_python_file_without_runs_is_refused(tmp_path, text, message):
    (tmp_path / "runs.py").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_file(tmp_path / "runs.py")
