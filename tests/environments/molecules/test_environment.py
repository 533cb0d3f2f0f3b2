import itertools

import numpy as np
import pytest

pytest.importorskip("rdkit")

from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.environment import Molecules
from ipsrl.environments.molecules.smiles import SmilesVocabulary
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.rollouts.given_answers import given_answers

VOCABULARY = SmilesVocabulary.of(["CCOc1ccncc1(=)"])
HERE = VerifierPool(workers=0)
TOLUENE, PYRIDINE, ETHANOL = "Cc1ccccc1", "c1ccncc1", "CCO"


def environment(**fields):
    usual = {"vocabulary": VOCABULARY, "max_tokens": 12, "verifier": HERE}
    return Molecules(reward=rewards.qed(), **(usual | fields))


def answers(molecules, texts):
    """A group of these strings, of which those with a "!" have no end."""
    tokens, lengths = np.zeros((1, len(texts), molecules.max_tokens), np.int32), np.zeros((1, len(texts)), np.int32)
    for number, text in enumerate(texts):
        row = molecules.vocabulary.encode(text.rstrip("!"))[: -1 if text.endswith("!") else None]
        tokens[0, number, : len(row)], lengths[0, number] = row, len(row)
    return given_answers(molecules.prompts(np.zeros(1, np.int32)), tokens, lengths)


@pytest.mark.parametrize(
    ("identity", "same"),
    [
        ("canonical", [{0, 1}, {2}, {3}]),
        ("scaffold", [{0, 1}, {2}, {3}]),
        ("scaffold_class", [{0, 1, 2}, {3}]),
    ],
)
def test_an_identity_says_which_molecules_are_the_same_outcome(identity, same):
    molecules = environment(identity=identity)
    found = molecules.verify(answers(molecules, [TOLUENE, "c1ccccc1C", PYRIDINE, ETHANOL]))
    ids = found.outcome_id[0].tolist()
    assert [{place for place, other in enumerate(ids) if other == one} for one in dict.fromkeys(ids)] == same
    assert min(ids) >= 0
    assert found.rewards[0, 0] == found.rewards[0, 1] > 0


def test_unfinished_unreadable_and_empty_strings_have_no_outcome():
    molecules = environment()
    found = molecules.verify(answers(molecules, ["CCO!", "c1cc", "C((", "", ETHANOL]))
    np.testing.assert_array_equal(found.outcome_id[0] >= 0, [False, False, False, False, True])
    np.testing.assert_array_equal(found.rewards[0] > 0, [False, False, False, False, True])


@pytest.mark.parametrize(("identity", "rewarded"), [("canonical", True), ("scaffold", True), ("scaffold_class", False)])
def test_a_molecule_that_has_no_class_has_an_outcome_elsewhere(identity, rewarded):
    molecules = environment(
        vocabulary=SmilesVocabulary.of(["C1COS23(O1)(OCCO2)OCCO3"]), identity=identity, max_tokens=40
    )
    found = molecules.verify(answers(molecules, ["C1COS23(O1)(OCCO2)OCCO3"]))
    assert (found.outcome_id[0, 0] >= 0, found.rewards[0, 0] > 0) == (rewarded, rewarded)


def test_the_probability_of_a_spelling_is_given_for_canonical_molecules():
    molecules = environment()
    assert molecules.optional_fields == {"log_backward"}
    found = molecules.verify(answers(molecules, ["CCO", "C(C)O"]))
    np.testing.assert_allclose(found.log_backward[0], [np.log(1 / 3), np.log(1 / 6)], rtol=1e-6)
    assert environment(identity="scaffold").optional_fields == frozenset()
    assert environment(identity="scaffold").verify(answers(molecules, ["CCO"])).log_backward is None


def test_all_strings_without_a_molecule_have_the_probability_of_one_outcome():
    molecules = environment(vocabulary=SmilesVocabulary.of(["C(1"]), max_tokens=4)
    words = ["".join(word) for length in range(5) for word in itertools.product("C(1", repeat=length)]
    texts = [word if len(word) < 4 else f"{word}!" for word in words]
    found = molecules.verify(answers(molecules, texts))
    share = dict(zip(texts, np.exp(found.log_backward[0]), strict=True))
    np.testing.assert_allclose([share["C("], share["CC((!"]], [5**-3 / 4, 5**-4 / 4], rtol=1e-6)
    # Of the five tokens, three are tried here, without `^`.
    unread = [text for text, outcome in zip(texts, found.outcome_id[0], strict=True) if outcome < 0]
    assert 0.05 < sum(share[text] for text in unread) < 1


def test_each_string_is_read_once(monkeypatch):
    asked = []
    original = VerifierPool.read
    monkeypatch.setattr(
        VerifierPool, "read", lambda pool, reader, texts: asked.append(list(texts)) or original(pool, reader, texts)
    )
    molecules = Molecules(VOCABULARY, rewards.synth(accessible=9.5), verifier=HERE)
    first = molecules.read(["CCO", "CCO", "CCN"[:2]])
    again = molecules.read(["CC", "CCO", ""])
    assert asked == [["CCO", "CC"], []]
    assert again == [first[2], first[0], None]
