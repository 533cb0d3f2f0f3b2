"""Every environment by name: `make("hypospace_boolean(operators=full, depth=2)")`."""

from collections.abc import Callable

from ipsrl import specifications
from ipsrl.environments.bandit import Bandit
from ipsrl.environments.environment import Environment
from ipsrl.environments.hypergrid import Hypergrid
from ipsrl.environments.hypospace_boolean import HypospaceBoolean
from ipsrl.environments.hypospace_causal import HypospaceCausal
from ipsrl.environments.hypospace_voxels import HypospaceVoxels
from ipsrl.environments.tree import Tree

CATALOG: dict[str, Callable[..., Environment]] = {
    "bandit": Bandit,
    "tree": Tree,
    "hypergrid": Hypergrid,
    "hypospace_causal": HypospaceCausal,
    "hypospace_boolean": HypospaceBoolean,
    "hypospace_voxels": HypospaceVoxels,
}


def make(text: str) -> Environment:
    """The environment that a text such as `"hypergrid(dimensions=4)"` names.

    Raises:
      ValueError: unknown name or argument (the message lists the known ones), or a value that cannot be.
    """
    return specifications.build(text, CATALOG, "environment")


def names() -> tuple[str, ...]:
    """Names of all environments."""
    return tuple(CATALOG)
