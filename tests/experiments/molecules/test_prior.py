import jax
import numpy as np
import pytest

pytest.importorskip("rdkit")

from experiments.molecules.prior import AMIDES, Pretraining, encoded, mesh_of_groups
from ipsrl.environments.molecules.smiles import SmilesVocabulary

TINY = Pretraining(
    AMIDES, molecules=112, batch=16, learning_rate=3e-2, max_tokens=90, hidden_size=16, num_layers=1, state_size=4
)


def test_strings_that_do_not_fit_are_left_out():
    vocabulary = SmilesVocabulary.of(["CO"])
    rows = encoded(["CO", "CN", "CCCC", "OCC"], vocabulary, 4)
    assert [vocabulary.decode(row) for row in rows] == ["CO", "OCC"]
    assert list(map(len, rows)) == [3, 4]


def test_each_molecule_is_read_once_in_a_random_spelling():
    texts = [TINY.vocabulary.decode(row) for row in TINY.answers()]
    read = TINY.environment.read(texts)
    assert sorted(molecule.canonical for molecule in read) == sorted(TINY.known("train"))
    # Few random spellings are the canonical one.
    assert sum(text == molecule.canonical for text, molecule in zip(texts, read, strict=True)) < 20


def test_learning_makes_known_molecules_likelier():
    trainer = TINY.teacher()
    with jax.set_mesh(mesh_of_groups()):
        state = trainer.init(0)
        losses = []
        for _ in range(trainer.settings.steps):
            state, metrics = trainer.step(state)
            losses.append(float(metrics["loss"]))
    assert trainer.settings.steps == 7
    assert losses[-1] < 0.7 * losses[0]


def test_the_report_counts_valid_unique_and_new_molecules(monkeypatch):
    first, second = TINY.known("train")[:2]
    texts = [first, first, second, "CCO", "C((", ""]
    monkeypatch.setattr(Pretraining, "sampled", lambda *arguments: (texts, np.zeros(len(texts))))
    monkeypatch.setitem(vars(TINY), "parameters", {})
    found = TINY.report(len(texts))
    assert (found["valid"], found["unique"], found["novel"]) == pytest.approx((4 / 6, 3 / 4, 1 / 3))
    assert all(found[f"distance_{name}"] > 0 for name in ("logP", "SA", "QED", "weight"))


def test_samples_know_their_probabilities():
    parameters = TINY.policy.init(jax.random.key(0))
    other = jax.tree.map(lambda leaf: leaf + 0.01, parameters)
    with jax.set_mesh(mesh_of_groups()):
        texts, none = TINY.sampled(parameters, 40, 0, parameters)
        same, different = TINY.sampled(parameters, 40, 0, other)
    assert len(texts) == len(none) == 40
    # The sampler steps with a carried state, the scorer scans: the two agree to 1e-5 per token.
    np.testing.assert_allclose(none, 0, atol=1e-5 * TINY.max_tokens)
    assert texts == same
    assert np.abs(different).max() > 1e-2
