"""All molecules that amide couplings make of some cores and acids, by RDKit, which an extra installs."""

import dataclasses
import functools
import itertools
from typing import Any

import numpy as np

from ipsrl import extras
from ipsrl.environments.molecules.parsing import parsed, silent

try:
    from rdkit import Chem
    from rdkit.Chem import QED, rdChemReactions
except ImportError:
    extras.require("rdkit")
    raise

AMIDE_COUPLING = "[C:1](=[O:2])[OH].[N;!H0;$(N-[#6]);!$(N-C=[O,N,S]):3]>>[C:1](=[O:2])[N:3]"
"""An acid and an amine that is no amide: a nitrogen takes one acid only."""


@dataclasses.dataclass(frozen=True)
class ReactionGraph:
    """Molecules and moves of `Reactions`; S states in which an action follows, K products, V actions.

    Attributes:
      smiles: S + K names of the states: "" for the empty flask, else canonical SMILES.
      steps: `[S, V]` int32, the state after each action, -1 if illegal: cores, then the places of each acid.
      num_parents: `[S + K]` int32, number of moves into each state.
      num_routes: `[S + K]` int64, number of ways from the empty flask.
      qed: `[K]` float64, drug-likeness of the products.
      longest_route: number of moves in it.
    """

    smiles: tuple[str, ...]
    steps: np.ndarray
    num_parents: np.ndarray
    num_routes: np.ndarray
    qed: np.ndarray
    longest_route: int


@functools.cache
def reaction_graph(cores: tuple[str, ...], acids: tuple[str, ...]) -> ReactionGraph:
    """Runs all reactions, level by level, once in a process; a third of a second for the defaults of `Reactions`.

    Raises:
      ValueError: as listed there.
    """
    with silent():
        levels, moves = _reacted([_written(_read(smiles)) for smiles in cores], acids)
        ended = [smiles for smiles, made in moves.items() if not any(made)]
        qed = np.array([QED.qed(_read(smiles)) for smiles in ended], np.float64)
    acting = ["", *(smiles for smiles, made in moves.items() if any(made))]
    number = {smiles: state for state, smiles in enumerate([*acting, *ended])}
    edges = _numbered(moves, number)
    places = 1 + max(place for _, _, place in edges)
    steps = np.full((len(acting), len(cores) + len(acids) * places), -1, np.int32)
    steps[0, : len(cores)] = [number[smiles] for smiles in levels[0]]
    for (state, acid, place), product in edges.items():
        steps[state, len(cores) + acid * places + place] = product
    routes = np.zeros(len(number), np.int64)
    routes[0] = 1
    # Numbers rise with the number of acids, so that all ways into a state are counted before those out of it.
    for state, reached in enumerate(steps):
        np.add.at(routes, reached[reached >= 0], routes[state])
    parents = np.bincount(steps[steps >= 0], minlength=len(number)).astype(np.int32)
    return ReactionGraph(tuple(number), steps, parents, routes, qed, longest_route=len(levels))


Moves = dict[str, list[tuple[str, ...]]]
"""A molecule -> for each acid the products."""


def _reacted(cores: list[str], acids: tuple[str, ...]) -> tuple[list[list[str]], Moves]:
    """The molecules with 0, 1, .. acids, and what each of them reacts to."""
    reaction = rdChemReactions.ReactionFromSmarts(AMIDE_COUPLING)
    reagents = [_read(smiles) for smiles in acids]
    if both := [smiles for smiles, acid in zip(acids, reagents, strict=True) if _coupled(reaction, acid, smiles)]:
        raise ValueError(f"the acid {both[0]} is an amine as well: its couplings would never end")
    levels, moves = [cores], {}
    while levels[-1]:
        if again := [smiles for smiles in levels[-1] if smiles in moves or levels[-1].count(smiles) > 1]:
            raise ValueError(f"{again[0]} is given twice among the cores, or made from another core: leave it out")
        made = {smiles: [_coupled(reaction, acid, smiles) for acid in reagents] for smiles in levels[-1]}
        moves |= made
        levels.append(list(dict.fromkeys(product for each in made.values() for some in each for product in some)))
    if idle := [smiles for smiles in cores if not any(moves[smiles])]:
        raise ValueError(f"the core {idle[0]} takes none of the acids: give an amine with an N-H, and acids")
    return levels[:-1], moves


def _numbered(moves: Moves, number: dict[str, int]) -> dict[tuple[int, int, int], int]:
    """(state, acid, place) -> the state reached; a place is the first that no other move of this acid has, be it out of
    the same state or into the same product. So a state and the last move tell where it came from."""
    edges, into = {}, set()
    for smiles, of_acids in moves.items():
        for acid, made in enumerate(of_acids):
            for product in made:
                out_of, reached = (number[smiles], acid), (number[product], acid)
                place = next(n for n in itertools.count() if (*out_of, n) not in edges and (*reached, n) not in into)
                edges[*out_of, place] = number[product]
                into.add((*reached, place))
    return edges


def _coupled(reaction: Any, acid: Any, amine: str) -> tuple[str, ...]:
    """Canonical SMILES of the different products of an acid and an amine, in the order of the amine's atoms."""
    products = [product for (product,) in reaction.RunReactants((acid, _read(amine)))]
    return tuple(dict.fromkeys(_written(product) for product in products))


def _read(smiles: str) -> Any:
    molecule = parsed(smiles)
    if molecule is None:
        raise ValueError(f"{smiles!r} is no SMILES of a molecule")
    return molecule


def _written(molecule: Any) -> str:
    """The canonical SMILES, also of a product that RDKit has not sanitised yet."""
    Chem.SanitizeMol(molecule)
    return Chem.MolToSmiles(molecule)
