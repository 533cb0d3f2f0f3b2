import dataclasses

import pytest
from absl import flags
from hypothesis import given
from hypothesis import strategies as st

from ipsrl import study
from ipsrl.checking.fields import any_of, positive
from ipsrl.checking.specifications import LARGEST, SMALLEST
from ipsrl.study import catalog
from ipsrl.study.command_line import CommandLine
from ipsrl.study.settings import KINDS, as_text, identity, read, resolve


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    objectives: tuple[str, ...] = study.selecting(("grpo",))
    seeds: tuple[int, ...] = study.seeds(range(3), least=2)
    sizes: tuple[int, ...] = study.rising((2, 4), least=2, most=9)
    rates: tuple[float, ...] = positive((0.1,))
    rewards: tuple[tuple[float, ...], ...] = ((1.0, 0.5),)
    pair: tuple[float, ...] = study.better_and_worse((2.0, 1.0))
    steps: int = positive(5)
    fast: bool = False
    name: str = ""
    letters: tuple[str, ...] = study.selecting(any_of("ab"))
    document: str = study.document(".md", ": a page")


PRESETS = {"demo": Settings()}

NUMBERS = st.just(0.0) | st.floats(SMALLEST, LARGEST) | st.floats(-LARGEST, -SMALLEST)
VALUES = {
    int: st.integers(-9, 9),
    float: NUMBERS,
    bool: st.booleans(),
    tuple[int, ...]: st.lists(st.integers(0, 99), min_size=1).map(tuple),
    tuple[float, ...]: st.lists(NUMBERS, min_size=1).map(tuple),
    tuple[str, ...]: st.lists(st.sampled_from(["grpo", "ips_grpo(floor=0.2)", "gapo(a=1, b=word)"]), min_size=1).map(
        tuple
    ),
    tuple[tuple[float, ...], ...]: st.lists(st.lists(NUMBERS, min_size=1).map(tuple), min_size=1).map(tuple),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(st.data())
def test_a_value_is_read_back_from_its_text(kind, data):
    value = data.draw(VALUES[kind])
    assert KINDS[kind].read(KINDS[kind].write(value)) == value


def test_flags_are_read_as_they_are_typed():
    given_ = {"objectives": "ips_grpo( floor = 0.2 ),grpo", "seeds": "3:6", "rewards": "1,0.5;1,1", "fast": "true"}
    settings = resolve(PRESETS, "demo", given_)
    assert settings.objectives == ("ips_grpo(floor=0.2)", "grpo")
    assert settings.seeds == (3, 4, 5)
    assert settings.rewards == ((1.0, 0.5), (1.0, 1.0))
    assert settings.fast is True
    assert as_text(settings, "seeds") == "3:6"


@pytest.mark.parametrize(
    ("former", "now", "text", "value"),
    [
        ("rules", "filters", "greedy_answers", "greedy_answers"),
        ("mirror", "tracker", "wandb", "wandb"),
        ("sample_ahead", "async_rollouts", "true", True),
    ],
)
def test_flags_are_read_by_their_former_names(former, now, text, value):
    """Commands of old, as a sweep or a run folder has them, still run."""
    found, values = catalog.find("hypospace"), flags.FlagValues()
    line = CommandLine(found.name, found.presets, found.many_hosts, found.trackers, values)
    values(["hypospace", f"--{former}={text}"])
    assert line[now] == value


def test_the_identity_of_a_run_leaves_out_what_only_selects():
    assert identity(Settings()) == {
        "seeds": "0:3",
        "sizes": "2,4",
        "rates": "0.1",
        "rewards": "1.0,0.5",
        "pair": "2.0,1.0",
        "steps": 5,
        "fast": False,
        "name": "",
    }


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("steps", "many", "--steps is 'many', it must be a whole number"),
        ("steps", "0", "--steps is 0, it must be positive"),
        ("fast", "maybe", "--fast is 'maybe', it must be true or false"),
        ("seeds", "0,x", "--seeds is '0,x', it must be whole numbers, as 0,1,2 or a range as 0:3"),
        ("seeds", "1,1", r"--seeds is \(1, 1\), it must be at least 2 different numbers from 0 to 2\^31 - 1"),
        ("sizes", "4,3", r"--sizes is \(4, 3\), it must be increasing numbers from 2 to 9"),
        ("rates", "0.1,-1", "--rates is -1.0, it must be positive"),
        ("rates", "nan", "--rates is 'nan', it must be numbers between commas, each 0 or of a size from 1e-37"),
        ("objectives", "", "--objectives is empty, it must have at least one item"),
        ("pair", "1,2", "it must be two finite positive numbers, the larger one first"),
        ("letters", "a,c", "--letters is 'c', it must be one of a, b"),
        ("document", "page.png", r"--document=page.png must end in .md: a page"),
        ("document", "nowhere/page.md", "--document=nowhere/page.md: there is no folder"),
        ("objectives", "grpo(", "--objectives is 'grpo\\(', it must be names between commas"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(flag, text, message):
    with pytest.raises(ValueError, match=message) as error:
        resolve(PRESETS, "demo", {flag: text})
    assert "\n" not in str(error.value)


def test_an_unknown_preset_is_refused():
    with pytest.raises(ValueError, match="unknown preset 'huge'; known: demo"):
        resolve(PRESETS, "huge", {})


def test_a_text_is_read_by_the_type_of_its_field():
    assert read(Settings, "name", "a, b") == "a, b"
