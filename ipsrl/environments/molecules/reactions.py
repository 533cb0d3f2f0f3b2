"""Molecules that a policy builds of buyable fragments by amide couplings, few enough to list with all their routes."""

import dataclasses
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl.checking.fields import Checked, between
from ipsrl.environments.state_graph import StateGraph

if TYPE_CHECKING:
    from ipsrl.environments.molecules.reaction_graph import ReactionGraph

ACIDS = {
    "OC(=O)C1CC1": "cyclopropanecarboxylic acid",
    "OC(=O)c1cccnc1": "nicotinic acid",
    "OC(=O)c1cccs1": "thiophene-2-carboxylic acid",
    "OC(=O)c1ccc(cc1)-c1ccccc1": "biphenyl-4-carboxylic acid",
}
CORES = {
    "C1CNCCN1": "piperazine",
    "C1CNCCNC1": "homopiperazine",
    "C1NCC12CNC2": "2,6-diazaspiro[3.3]heptane",
    "C1NCC2C1CNC2": "octahydropyrrolo[3,4-c]pyrrole",
    "C1CNCC12CCNC2": "2,7-diazaspiro[4.4]nonane",
    "CNCCNC": "N,N'-dimethylethylenediamine",
    "CC1CNCCN1": "2-methylpiperazine",
    "NCC1CCNCC1": "4-(aminomethyl)piperidine",
    "C1CNCCNCCN1": "1,4,7-triazacyclononane",
}


@dataclasses.dataclass(frozen=True)
class Reactions(Checked, StateGraph):
    """Choose a core with several amines, then couple acids to it, one after the other, until every amine is an amide.

    An action is a core, or an acid and a place: where the amines are not equivalent, a coupling has several products.
    Molecules are the same if RDKit writes the same canonical SMILES, so that routes merge by chemistry: two acids A and
    B on two equivalent amines come in two orders, A twice in one; on amines that differ there are always two routes; on
    three equivalent ones 1, 3 or 6. Places are numbered so that all moves into a molecule are different actions.

    By default there are 112 products and 224 routes; 28, 68, 12 and 4 products have 1, 2, 3 and 6 of them:

        6 cores with two equivalent amines      60 products    96 routes
        2 cores with two amines that differ     32 products    64 routes
        1 core with three equivalent amines     20 products    64 routes

    Protecting groups, by which chemists steer the order of couplings, are left out. State 0 is the empty flask; then
    come the cores, the molecules with one acid, and so on, and at the end the products.

    r(x) = exp(sharpness (QED(x) - 1)): proportional to exp(sharpness QED), and at most 1. QED is RDKit's
    drug-likeness, in 0 .. 1.

    Attributes:
      cores: SMILES of amines with several N-H; by default those of `CORES`.
      acids: SMILES of carboxylic acids; by default those of `ACIDS`.
      sharpness: of the rewards, in 0 .. 30; 0 rewards all products alike.

    Raises:
      ValueError: `sharpness` is out of its range, or there is no core or no acid. Also, when the graph is first used:
        RDKit is missing; it cannot read a SMILES; an acid is an amine; a core is given twice, is made from another one,
        or takes no acid.
    """

    cores: tuple[str, ...] = tuple(CORES)
    acids: tuple[str, ...] = tuple(ACIDS)
    sharpness: float = between(0, 30, 4.0)

    def __post_init__(self):
        super().__post_init__()
        if not self.cores or not self.acids:
            raise ValueError("cores and acids must have at least one item each")

    @property
    def graph(self) -> "ReactionGraph":
        """All molecules, routes and rewards; made once in a process, as it takes a third of a second."""
        from ipsrl.environments.molecules.reaction_graph import reaction_graph

        return reaction_graph(self.cores, self.acids)

    @property
    def num_observations(self) -> int:
        return len(self.graph.steps)

    @property
    def num_outcomes(self) -> int:
        return len(self.graph.qed)

    @property
    def vocabulary_size(self) -> int:
        return self.graph.steps.shape[1]

    @property
    def max_tokens(self) -> int:
        return self.graph.longest_route

    def legal(self, state: Array) -> Array:
        return self._steps[self._acting(state)] >= 0

    def step(self, state: Array, token: Array) -> Array:
        return jnp.maximum(self._steps[self._acting(state), token], 0)

    def num_parents(self, state: Array) -> Array:
        return jnp.asarray(self.graph.num_parents)[state]

    def outcome_names(self) -> tuple[str, ...]:
        """Canonical SMILES of the products."""
        return self.graph.smiles[self.num_observations :]

    def route_counts(self) -> np.ndarray:
        """`[K]` int64, number of routes to each product."""
        return self.graph.num_routes[self.num_observations :]

    def reward_table(self) -> np.ndarray:
        return np.exp(self.sharpness * (self.graph.qed - 1)).astype(np.float32)[None]

    @property
    def _steps(self) -> Array:
        return jnp.asarray(self.graph.steps)

    def _acting(self, state: Array) -> Array:
        """The state, or an arbitrary one where the walk has ended."""
        return jnp.minimum(state, self.num_observations - 1)
