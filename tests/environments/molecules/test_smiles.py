import numpy as np
import pytest

from ipsrl.environments.molecules.smiles import BEGIN, END, SmilesVocabulary, split

MOLECULES = ("CC(=O)Nc1ccc(O)cc1", "C[C@@H](N)C(=O)O", "BrCCCl", "C%12CCCCC%12", "[Na+].[Cl-]", "C1CC1")


@pytest.mark.parametrize(
    ("smiles", "tokens"),
    [
        ("BrCCCl", ["Br", "C", "C", "Cl"]),
        ("C[C@@H](N)C", ["C", "[C@@H]", "(", "N", ")", "C"]),
        ("[Na+].[Cl-]", ["[Na+]", ".", "[Cl-]"]),
        ("C%12C1", ["C", "%12", "C", "1"]),
        # What is no SMILES string is split all the same: whether it is one is for RDKit to say.
        ("[C", ["[", "C"]),
        ("%1", ["%", "1"]),
        ("", []),
    ],
)
def test_tokens_are_those_of_reinvent(smiles, tokens):
    assert split(smiles) == tokens


def test_a_vocabulary_has_the_end_first_and_each_token_once():
    vocabulary = SmilesVocabulary.of(MOLECULES)
    assert vocabulary.tokens[:2] == (END, BEGIN)
    assert list(vocabulary.tokens[2:]) == sorted({token for smiles in MOLECULES for token in split(smiles)})


@pytest.mark.parametrize("smiles", [*MOLECULES, ""])
def test_decoding_is_the_inverse_of_encoding(smiles):
    vocabulary = SmilesVocabulary.of(MOLECULES)
    tokens = vocabulary.encode(smiles)
    assert tokens.dtype == np.int32
    assert tokens[-1] == 0
    assert vocabulary.decode(tokens) == smiles
    assert vocabulary.decode([*tokens, *tokens]) == smiles  # nothing after the end counts
    assert vocabulary.decode(tokens[:-1]) == smiles


def test_what_cannot_be_written_is_refused():
    vocabulary = SmilesVocabulary.of(MOLECULES)
    for smiles, token in (("CCS", "S"), ("C$C", r"\$"), ("^C", r"\^")):
        with pytest.raises(ValueError, match=f"has '{token}', which is no token of a molecule in this vocabulary"):
            vocabulary.encode(smiles)
    with pytest.raises(ValueError, match="a token twice"):
        SmilesVocabulary((END, BEGIN, "C", "C"))
    with pytest.raises(ValueError, match="they must be"):
        SmilesVocabulary(("C", "O"))
