"""Every environment by name: `make("hypospace_boolean(operators=full, depth=2)")`."""

from collections.abc import Callable

from ipsrl import specifications
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.countdown import Countdown
from ipsrl.environments.environment import Environment
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.environments.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.hypospace_causal import HypospaceCausal
from ipsrl.environments.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.math_answers import MathAnswers
from ipsrl.environments.questions import Questions
from ipsrl.environments.tree import Tree

CATALOG: dict[str, Callable[..., Environment | Questions]] = {
    "bandit": Bandit,
    "tree": Tree,
    "hypergrid": Hypergrid,
    "hypospace_causal": HypospaceCausal,
    "hypospace_boolean": HypospaceBoolean,
    "hypospace_voxels": HypospaceVoxels,
    "countdown": Countdown,
    "math_answers": MathAnswers,
}


def make(text: str) -> Environment | Questions:
    """The environment that a text such as `"hypergrid(dimensions=4)"` names.

    `math_answers` are questions alone: with a tokenizer, a `LanguageTask` makes an environment of them.

    Raises:
      ValueError: unknown name or argument (the message says what is near or known), or a value that cannot be.
    """
    return specifications.build(text, CATALOG, "environment")


def names() -> tuple[str, ...]:
    """Names of all environments."""
    return tuple(CATALOG)
