"""Every environment by name: `make("hypospace_boolean(operators=full, depth=2)")`."""

from collections.abc import Callable

from ipsrl.checking import foreign_code, specifications
from ipsrl.checking.arguments import checked
from ipsrl.environments.agents.interview import Interview
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.environments.agents.search_questions import SearchQuestions
from ipsrl.environments.environment import Environment
from ipsrl.environments.graphs.bandit import Bandit, VectorBandit
from ipsrl.environments.graphs.forks import Forks
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.environments.graphs.tree import Tree
from ipsrl.environments.language.math_answers import MathAnswers
from ipsrl.environments.language.one_of_many import OneOfMany
from ipsrl.environments.language.reasoning_gym import ReasoningGym
from ipsrl.environments.questions import Questions
from ipsrl.environments.tasks.addition import Addition
from ipsrl.environments.tasks.addition_modes import AdditionModes
from ipsrl.environments.tasks.countdown import Countdown
from ipsrl.environments.tasks.factors import Factors
from ipsrl.environments.tasks.graph_coloring import GraphColoring
from ipsrl.environments.tasks.graph_search import GraphSearch
from ipsrl.environments.tasks.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.environments.tasks.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.tasks.long_work import LongWork
from ipsrl.environments.tasks.mode_bench import mode_bench
from ipsrl.environments.tasks.n_queens import NQueens
from ipsrl.environments.tasks.plan_and_execute import PlanAndExecute

CATALOG: dict[str, Callable[..., Environment | Questions]] = {
    "bandit": Bandit,
    "vector_bandit": VectorBandit,
    "tree": Tree,
    "forks": Forks,
    "hypergrid": Hypergrid,
    "hypospace_causal": HypospaceCausal,
    "hypospace_boolean": HypospaceBoolean,
    "hypospace_voxels": HypospaceVoxels,
    "countdown": Countdown,
    "addition": Addition,
    "long_work": LongWork,
    "addition_modes": AdditionModes,
    "plan_and_execute": PlanAndExecute,
    "graph_search": GraphSearch,
    "search_agent": SearchAgent,
    "search_questions": SearchQuestions,
    "interview": Interview,
    "one_of_many": OneOfMany,
    "graph_coloring": GraphColoring,
    "n_queens": NQueens,
    "factors": Factors,
    "mode_bench": mode_bench,
    "math_answers": MathAnswers,
    "reasoning_gym": ReasoningGym,
}


@checked
def make(text: str) -> Environment | Questions:
    """Builds the environment from a text such as `"hypergrid(dimensions=4)"`.

    `math_answers`, `reasoning_gym` and `search_questions` are sets of questions; a `LanguageTask` is their environment.

    Raises:
      ValueError: unknown name or argument (the message suggests known names), or an invalid value.
    """
    function, arguments = specifications.read(text, CATALOG, "environment")
    return foreign_code.call(function, arguments, Environment | Questions)


def check_if_any(text: str) -> None:
    """Checks a text by `check` unless it is empty, which names no environment."""
    if text:
        check(text)


def check(text: str) -> None:
    """Raises ValueError if the environment or an argument is unknown, or a value has the wrong type; makes nothing."""
    specifications.read(text, CATALOG, "environment")


def names() -> tuple[str, ...]:
    """Names of all environments."""
    return tuple(CATALOG)
