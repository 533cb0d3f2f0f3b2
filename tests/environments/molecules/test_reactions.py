"""Molecules built by reactions, against the same molecules written by hand, site by site, without any reaction."""

import collections
import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.molecules.reactions import ACIDS, Reactions
from ipsrl.policies.state_table import outcome_probs
from ipsrl.policies.tabular import Tabular

# The nitrogens that react have the bonds %90, %91, .., to which an acid or nothing is attached.
SITES = {
    "C1CNCCN1": "C1CN%90CCN1%91",
    "C1CNCCNC1": "C1CN%90CCN%91C1",
    "C1NCC12CNC2": "C1N%90CC12CN%91C2",
    "C1NCC2C1CNC2": "C1N%90CC2C1CN%91C2",
    "C1CNCC12CCNC2": "C1CN%90CC12CCN%91C2",
    "CNCCNC": "CN%90CCN%91C",
    "CC1CNCCN1": "CC1CN%90CCN1%91",
    "NCC1CCNCC1": "N%90CC1CCN%91CC1",
    "C1CNCCNCCN1": "C1CN%90CCN%91CCN1%92",
}


@pytest.fixture(scope="module")
def chemistry():
    pytest.importorskip("rdkit", reason='pip install -e ".[molecules]"')
    from rdkit import Chem

    return Chem


@pytest.fixture(scope="module")
def routes(chemistry):
    """Product -> its routes, each a tuple of canonical SMILES from the core on: of all orders of sites and acids."""

    def molecule(core, acyls):
        parts = [SITES[core]]
        for site in range(SITES[core].count("%")):
            parts.append(acyls[site].replace("*", f"%{90 + site}") if site in acyls else f"[H]%{90 + site}")
        return chemistry.CanonSmiles(".".join(parts))

    acyls = [acid.replace("OC", "C*", 1) for acid in ACIDS]
    found = collections.defaultdict(set)
    for core, written in SITES.items():
        number = written.count("%")
        for order in itertools.permutations(range(number)):
            for chosen in itertools.product(acyls, repeat=number):
                placed = list(zip(order, chosen, strict=True))
                route = tuple(molecule(core, dict(placed[:done])) for done in range(number + 1))
                found[route[-1]].add(route)
    return found


def test_products_and_routes_are_those_of_all_orders(routes):
    reactions = Reactions()
    assert len(routes) == reactions.num_outcomes == 112
    assert sum(map(len, routes.values())) == reactions.route_counts().sum() == 224
    counts = dict(zip(reactions.outcome_names(), reactions.route_counts().tolist(), strict=True))
    assert counts == {product: len(of_product) for product, of_product in routes.items()}
    assert collections.Counter(counts.values()) == {1: 28, 2: 68, 3: 12, 6: 4}
    assert reactions.max_tokens == 4


def test_molecules_on_the_way_are_those_of_all_routes(routes):
    graph = Reactions().graph
    assert set(graph.smiles) == {
        "",
        *(step for of_product in routes.values() for route in of_product for step in route),
    }
    moves = {pair for of_product in routes.values() for route in of_product for pair in itertools.pairwise(route)}
    into = collections.Counter(after for _, after in moves)
    parents = dict(zip(graph.smiles, graph.num_parents.tolist(), strict=True))
    assert parents == {smiles: into.get(smiles, 1 if smiles in graph.smiles[1:10] else 0) for smiles in graph.smiles}


def test_uniform_actions_give_each_route_its_share(routes):
    next_ones = collections.defaultdict(set)
    for route in itertools.chain(*routes.values()):
        for before, after in itertools.pairwise(("", *route)):
            next_ones[before].add(after)
    expected = {
        product: sum(math.prod(1 / len(next_ones[step]) for step in ("", *route[:-1])) for route in of_product)
        for product, of_product in routes.items()
    }
    reactions = Reactions()
    policy = Tabular(reactions.num_observations, reactions.vocabulary_size)
    parameters = {"logits": jnp.zeros((reactions.num_observations, reactions.vocabulary_size))}
    probs = np.asarray(outcome_probs(reactions, policy, parameters))
    np.testing.assert_allclose(probs, [expected[name] for name in reactions.outcome_names()], rtol=1e-5)


def test_rewards_are_the_target_of_the_qed(chemistry):
    from rdkit.Chem import QED

    reactions = Reactions()
    molecules = [chemistry.MolFromSmiles(name) for name in reactions.outcome_names()]
    weights = np.exp([4 * QED.qed(molecule) for molecule in molecules])
    target = reactions.outcome_space(0).target
    np.testing.assert_allclose(target.sum(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(target, weights / weights.sum(), rtol=1e-5)
    np.testing.assert_allclose(reactions.reward_table()[0], weights / np.exp(4), rtol=1e-5)
    alike = Reactions(sharpness=0.0).reward_table()
    np.testing.assert_array_equal(alike, np.ones_like(alike))


def test_moves_tell_where_they_come_from(chemistry):
    """A learned backward policy counts pairs of the state after a move and the move."""
    steps = Reactions().graph.steps
    states, actions = np.nonzero(steps >= 0)
    assert len(set(zip(steps[states, actions].tolist(), actions.tolist(), strict=True))) == len(states)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cores": ("C1CNCC",)}, "'C1CNCC' is no SMILES of a molecule"),
        ({"cores": ("C1CNCCN1", "N1CCNCC1")}, "C1CNCCN1 is given twice among the cores, or made from another core"),
        ({"cores": ("C1CNCCN1", "O=C(C1CC1)N1CCNCC1")}, "is given twice among the cores, or made from another core"),
        ({"cores": ("CCO",)}, "the core CCO takes none of the acids"),
        ({"acids": ("OC(=O)CN",)}, r"the acid OC\(=O\)CN is an amine as well"),
    ],
    ids=str,
)
def test_what_cannot_react_is_refused_without_a_word_of_rdkit(chemistry, capfd, fields, message):
    with pytest.raises(ValueError, match=message):
        _ = Reactions(**fields).graph
    assert capfd.readouterr() == ("", "")
