import dataclasses
from pathlib import Path

import pytest

import plant_faults
from plant_faults import FAULTS, failures, place_of

ROOT = Path(__file__).parents[2]


def test_every_fault_stands_once_and_names_tests_that_exist():
    """Different ones, as many as the header says, whatever has been moved or renamed since."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert f"Plants {len(FAULTS)} faults" in plant_faults.__doc__
    for fault in FAULTS:
        assert place_of(fault, ROOT).suffix == ".py"
        assert fault.text != fault.planted
        assert len(list((ROOT / "tests").rglob(fault.tests))) == 1


@pytest.mark.parametrize(("text", "where"), [("no such text", "nowhere"), ("import jax\n", r"times\)")])
def test_a_text_that_does_not_stand_once_is_refused(text, where):
    with pytest.raises(ValueError, match=f"must occur once in ipsrl/ and experiments/, but is found .*{where}"):
        place_of(dataclasses.replace(FAULTS[0], text=text), ROOT)


def test_what_fails_is_named(tmp_path):
    """Stands for the tests: pytest itself takes seconds to start."""
    (tmp_path / "pytest.py").write_text(
        "import sys\n"
        "if sys.argv[-1] == 'nothing': sys.exit(5)\n"
        "if sys.argv[-1] == 'broken': print('FAILED tests/a/test_b.py::test_c - x'), sys.exit(1)\n"
    )
    assert failures(tmp_path, ["broken"]) == ["test_b.py"]
    assert failures(tmp_path, ["sound"]) == []
    with pytest.raises(ValueError, match="no test was chosen by: pytest nothing"):
        failures(tmp_path, ["nothing"])


def test_faults_are_listed_and_unknown_ones_refused(capsys):
    assert plant_faults.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [fault.name for fault in FAULTS]
    with pytest.raises(ValueError, match="unknown fault, 'nothing': see --list"):
        plant_faults.main(["--only=nothing"])
