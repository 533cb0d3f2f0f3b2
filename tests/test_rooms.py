"""Where code lives and how dense it is: the library serves many studies, and a study is good to read."""

import ast
import collections
import tokenize
from pathlib import Path

import pytest

from ipsrl.study import catalog

ROOT = Path(__file__).parents[1]
EXCEPTIONS = {
    "ipsrl.environments.group_log": "reads the groups of anyone's log",
    "ipsrl.environments.molecules": "molecules are a task for anyone's policy",
    "ipsrl.dynamics.expected_training": "a row of docs/wind_tunnel.md",
    "ipsrl.dynamics.shared_prompts": "a row of docs/wind_tunnel.md",
    "ipsrl.dynamics.softmax.survival.smallest_group": "docs/wind_tunnel.md calls it",
    "ipsrl.dynamics.softmax.two_outcome_training": "three studies run it, each another half",
    "ipsrl.measures.diversity.different_pairs": "collision_diversity without its bias",
    "ipsrl.checking.specifications.with_argument": "writes what the module reads",
    "ipsrl.study.training_runs.train_grids": "what a study with VMAPPED calls",
    "ipsrl.training.loop.train_vmapped": "what train_grids calls",
}
"""Rooms, modules, classes and functions that one study alone uses, and why a user of the package would import them."""
CATALOG = "ipsrl.objectives.catalog"
OF_SEVERAL_FAMILIES = {
    ("ipsrl.objectives.estimators.ranks", "largest_of_rows"): "shares its search with the other ranks",
    ("ipsrl.objectives.estimators.token_shares", "rounded_down"): "is half of a pair",
}
"""Parts that one family of the catalog alone uses, and why they stand outside of its module all the same."""
MODULES_OF_A_FOLDER = 15
TOKENS_OF_A_LINE, TOKENS_OF_A_FILES_LINE = 10, 12
TOKENS_OF_A_STUDY = 2_850
"""The mean over studies, with what a study takes along; lower it where they are fewer."""
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def modules():
    """Name -> path, of all modules of the library, of studies and of scripts."""
    for folder in ("ipsrl", "experiments", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(modules())


def defined(statement):
    """The name that a statement defines, if it is a class, a function or a constant."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement
    return getattr(target, "name", None) or getattr(target, "id", None)


def named(module):
    """(statement, (module, name)) of all of ours that a module names: imported, read from a module, or of its own."""
    tree = ast.parse(MODULES[module].read_text())
    nodes = [(statement, node) for statement in tree.body for node in ast.walk(statement)]
    modules, names = {}, {name: (module, name) for statement in tree.body if (name := defined(statement))}
    for _, node in nodes:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            whole = f"{node.module}.{alias.name}"
            if whole in MODULES:
                modules[alias.asname or alias.name] = whole
            else:
                names[alias.asname or alias.name] = (node.module, alias.name)
    contents = tree.body if MODULES[module].name == "__init__.py" else []
    for statement, node in nodes:
        if isinstance(node, ast.Name) and node.id in names:
            yield statement, names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield statement, (modules[node.value.id], node.attr)
        elif isinstance(node, ast.ImportFrom) and node in contents:
            yield from ((statement, (node.module, alias.name)) for alias in node.names)


def users_of_definitions(library):
    """(module, name) of the definitions of some modules -> the modules that use it, also through other definitions.

    What such a module does at its top level, such as the imports of a package's page of contents, counts as a use by
    "all", and so does that of a definition which nothing of ours uses: a user of the package does.
    """
    users = collections.defaultdict(set)
    for module in MODULES:
        for statement, part in named(module):
            user = ((module, defined(statement)) if defined(statement) else "all") if module in library else module
            if part[0] in library and part != user:
                users[part].add(user)

    def modules(part, passed):
        for user in users[part] - passed:
            passed.add(user)
            if isinstance(user, str):
                yield user
            else:
                yield from modules(user, passed) if user in users else ["all"]

    return {part: set(modules(part, set())) for part in list(users)}


def lies_in(definition, place):
    return f"{definition}.".startswith(f"{place}.")


def test_what_one_study_alone_uses_lives_in_its_folder():
    """The folder of a subject counts as one study."""
    users = users_of_definitions({name for name in MODULES if name.startswith("ipsrl")})
    assert len(users) > 1000
    public = {
        (module, statement.name)
        for module, path in MODULES.items()
        for statement in ast.parse(path.read_text()).body
        if isinstance(statement, ast.ClassDef | ast.FunctionDef) and not statement.name.startswith("_")
    }
    of_one = []
    for (module, name), by in users.items():
        folders = {tuple(user.split(".")[:2]) for user in by}
        # A constant stands beside what it is about.
        if len(folders) == 1 and ROOT.joinpath(*folders.pop()).is_dir() and (module, name) in public:
            of_one.append(f"{module}.{name}")
    assert [found for found in of_one if not any(lies_in(found, place) for place in EXCEPTIONS)] == []
    assert [place for place in EXCEPTIONS if not any(lies_in(found, place) for found in of_one)] == []


def test_what_one_family_of_objectives_alone_uses_stands_in_its_module():
    shared = {name for name in MODULES if name.startswith("ipsrl.objectives.") and not name.startswith(CATALOG)}
    users = users_of_definitions(shared | {f"{CATALOG}.arguments"})
    assert len(users) > 100
    of_one = {part for part, by in users.items() if len(by) == 1 and by.pop().startswith(f"{CATALOG}.")}
    assert {(module, name) for module, name in of_one if not name.startswith("_")} == OF_SEVERAL_FAMILIES.keys()


def test_a_folder_has_one_idea():
    modules = collections.Counter(path.parent for path in (ROOT / "ipsrl").rglob("*.py") if path.name != "__init__.py")
    # A catalog lists as many families as there are.
    del modules[ROOT / "ipsrl" / "objectives" / "catalog"]
    assert {str(folder): count for folder, count in modules.items() if count > MODULES_OF_A_FOLDER} == {}


def tokens_and_lines(path):
    """Tokens of code and the lines that have any, without comments and docstrings."""
    tokens, lines, begins = 0, set(), True
    with path.open("rb") as file:
        for token in list(tokenize.tokenize(file.readline))[1:]:
            if token.type in NOT_CODE:
                begins = begins or token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            elif token.type != tokenize.STRING or not begins:
                tokens, begins = tokens + 1, False
                lines.update(range(token.start[0], token.end[0] + 1))
    return tokens, len(lines)


@pytest.fixture(scope="module")
def counted():
    return {path: tokens_and_lines(path) for path in (ROOT / "experiments").rglob("*.py")}


def test_lines_of_studies_are_for_reading(counted):
    dense = {str(path): tokens / lines for path, (tokens, lines) in counted.items() if lines}
    assert {path: each for path, each in dense.items() if each > TOKENS_OF_A_FILES_LINE} == {}
    tokens, lines = map(sum, zip(*counted.values(), strict=True))
    assert tokens / lines <= TOKENS_OF_A_LINE


def test_studies_are_small(counted):
    assert sum(tokens for tokens, _ in counted.values()) / len(catalog.names()) <= TOKENS_OF_A_STUDY
