"""Where code lives and how dense it is: the library serves many studies, and a study is good to read."""

import ast
import collections
import tokenize
from pathlib import Path

import pytest

from ipsrl.study import catalog

ROOT = Path(__file__).parents[1]
EXCEPTIONS = {
    "ipsrl.dynamics.expected_training": "whole trainings without noise: anyone's objective has one",
    "ipsrl.environments.group_log": "reads the groups of anyone's log",
    "ipsrl.environments.molecules.chemistry": "molecules are a task for anyone's policy",
    "ipsrl.environments.molecules.environment": "molecules are a task for anyone's policy",
    "ipsrl.environments.molecules.rewards": "molecules are a task for anyone's policy",
}
"""Modules that one study alone uses, and why a user of the package would import them: at most five."""
CATALOG = "ipsrl.objectives.catalog"
OF_SEVERAL_FAMILIES = {
    ("ipsrl.objectives.estimators.ranks", "largest_of_rows"): "shares its search with the other ranks",
    ("ipsrl.objectives.estimators.token_shares", "rounded_down"): "is half of a pair",
}
"""Parts that one family of the catalog alone uses, and why they stand outside of its module all the same."""
MODULES_OF_A_FOLDER = 15
TOKENS_OF_A_LINE, TOKENS_OF_A_FILES_LINE = 10, 12
TOKENS_OF_A_STUDY = 2_660
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


def imported(path):
    """The modules of ours that a module imports, also inside of functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                yield name


def unit(name):
    """The study or the folder of a subject that a module belongs to; the module itself elsewhere."""
    return ".".join(name.split(".")[:2]) if name.startswith("experiments.") else name


def used_by_one_study():
    """Module of the library -> the study, or folder of a subject, that alone uses it, by itself or through others."""
    users = collections.defaultdict(set)
    for name, path in MODULES.items():
        # What a package's own page of contents imports is not used there, but the catalog of objectives has rows.
        if path.name != "__init__.py" or name.startswith("experiments.") or name == CATALOG:
            for other in imported(path):
                users[other].add(name)

    owners = {}
    while True:
        found = {}
        for name, path in MODULES.items():
            if name.startswith("ipsrl.") and path.name != "__init__.py" and users[name]:
                of_users = {owners.get(user, user) for user in users[name]}
                of_users = {
                    ".".join(user.split(".")[:2]) if user.startswith("experiments.") else user for user in of_users
                }
                if len(of_users) == 1 and (owner := of_users.pop()).startswith("experiments."):
                    found[name] = owner
        if found == owners:
            return owners
        owners = found


def test_what_one_study_alone_uses_lives_in_its_folder():
    assert used_by_one_study().keys() == EXCEPTIONS.keys()
    assert len(EXCEPTIONS) <= 5


def defined(statement):
    """The name that a statement defines, if it is a class, a function or a constant."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement
    return getattr(target, "name", None) or getattr(target, "id", None)


def users_of_shared_parts():
    """(module, name) of what families of objectives may share -> the modules that use it, also through others of these.

    That is all of `ipsrl.objectives` but the catalog's families. What such a module does at its top level counts as a
    use by "all".
    """
    shared = {name for name in MODULES if name.startswith("ipsrl.objectives.") and not name.startswith(CATALOG)}
    shared.add(f"{CATALOG}.arguments")
    users = collections.defaultdict(set)
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        own = {name for statement in tree.body if module in shared and (name := defined(statement))}
        known = {name: (module, name) for name in own}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in shared:
                known |= {alias.name: (node.module, alias.name) for alias in node.names}
        for statement in tree.body:
            name = defined(statement)
            user = (module, name) if name in own else "all" if module in shared else module
            named = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            for part in (named & known.keys()) - {name}:
                users[known[part]].add(user)

    def modules(part, passed):
        for user in users[part] - passed:
            passed.add(user)
            yield from modules(user, passed) if isinstance(user, tuple) else [user]

    return {part: set(modules(part, set())) for part in list(users)}


def test_what_one_family_of_objectives_alone_uses_stands_in_its_module():
    users = users_of_shared_parts()
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
