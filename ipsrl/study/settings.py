"""Typed settings of a study, and their text on a command line: `seeds=(0, 1, 2)` is written `--seeds=0:3`.

A setting is a number, a text, true or false, or a tuple of these, as its annotation says:

    seeds: tuple[int, ...]                 0,1,2 or 0:3
    learning_rates: tuple[float, ...]      0.1,0.3
    objectives: tuple[str, ...]            grpo, ips_grpo(floor=0.2)
    rewards: tuple[tuple[float, ...], ...] 1,1,0.5;1,0.6,0.3
"""

import dataclasses
import functools
import math
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from absl import flags

from ipsrl.checking import specifications
from ipsrl.checking.fields import Checked, Range, accepted_by, at_least, in_range, positive
from ipsrl.checking.specifications import LARGEST, SMALLEST, is_in_range
from ipsrl.objectives import catalog
from ipsrl.records.json_files import require_file


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type of settings.

    Attributes:
      described: the texts that it accepts, for messages.
      read: text -> value; raises ValueError.
      write: value -> text.
    """

    described: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


MOST_SEEDS = 100_000
MOST_RECORDS = 1_000_000


def _read_number(text: str) -> float:
    number = float(text)
    if not is_in_range(number):
        raise ValueError
    return number


def _parts(text: str) -> list[str]:
    return text.split(",") if text.strip() else []


def _read_names(text: str) -> tuple[str, ...]:
    return specifications.split(text) if text.strip() else ()


def _read_range(text: str) -> tuple[int, ...]:
    if match := re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", text):
        first, end = map(int, match.groups())
        if not 0 < end - first <= MOST_SEEDS:
            raise ValueError
        return tuple(range(first, end))
    return tuple(int(number) for number in _parts(text))


def _write_range(numbers: tuple[int, ...]) -> str:
    in_a_row = len(numbers) > 1 and numbers == tuple(range(numbers[0], numbers[0] + len(numbers)))
    return f"{numbers[0]}:{numbers[-1] + 1}" if in_a_row else ",".join(map(str, numbers))


def _read_numbers(text: str) -> tuple[float, ...]:
    return tuple(_read_number(number) for number in _parts(text))


def _write_numbers(numbers: tuple[float, ...]) -> str:
    return ",".join(map(repr, numbers))


A_NUMBER = f"a number, 0 or of a size from {SMALLEST:g} to {LARGEST:g}"
KINDS: dict[Any, Kind] = {
    int: Kind("a whole number", flags.IntegerParser().parse),
    float: Kind(A_NUMBER, _read_number),
    bool: Kind("true or false", flags.BooleanParser().parse),
    str: Kind("a text", str),
    tuple[int, ...]: Kind(
        f"whole numbers, as 0,1,2 or a range as 0:3 of at most {MOST_SEEDS:,}", _read_range, _write_range
    ),
    tuple[float, ...]: Kind(
        f"numbers between commas, each 0 or of a size from {SMALLEST:g} to {LARGEST:g}", _read_numbers, _write_numbers
    ),
    tuple[str, ...]: Kind("names between commas, as grpo,ips_grpo(floor=0.2)", _read_names, ",".join),
    tuple[tuple[float, ...], ...]: Kind(
        "numbers between commas, several such lists between semicolons",
        lambda text: tuple(map(_read_numbers, text.split(";"))),
        lambda vectors: ";".join(map(_write_numbers, vectors)),
    ),
}


@dataclasses.dataclass(frozen=True)
class Settings(Checked):
    """Base of the settings of every study: fields are flags, and declare their ranges by `ipsrl.checking.fields`.

    A tuple is empty only if it is by default.
    """

    FIELD_PREFIX: ClassVar[str] = "--"

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) == () != field.default:
                raise ValueError(f"--{field.name} is empty, it must have at least one item")
        super().__post_init__()

    def require_multiple(self, name: str, of: str) -> None:
        """Raises ValueError unless a setting is a multiple of another one."""
        value, part = getattr(self, name), getattr(self, of)
        if value % part:
            raise ValueError(f"--{name} is {value}, it must be a multiple of --{of}, {part}")

    def resolved(self) -> Self:
        """The settings, with values filled in that presets leave open because they depend on other flags."""
        return self


OfStudy = TypeVar("OfStudy", bound=Settings)


@dataclasses.dataclass(frozen=True)
class EnsembleSettings(Settings):
    """Settings of studies that train all seeds of an objective as one program, by `ipsrl.study.ensembles`.

    `record_every` is the number of updates between records.
    """

    objectives: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    group_size: int = at_least(1, 16)
    learning_rate: float = positive(0.1)
    steps: int = positive(1000)
    record_every: int = positive(100)

    def __post_init__(self):
        super().__post_init__()
        self.require_multiple("steps", "record_every")
        if self.steps > MOST_RECORDS * self.record_every:
            raise ValueError(f"--record_every is {self.record_every}, it must leave at most {MOST_RECORDS} records")


def seeds(default: Sequence[int], least: int = 1) -> Any:
    """A field of random seeds: different whole numbers from 0 to 2^31 - 1, and at least `least` of them."""

    def are_seeds(numbers: tuple[int, ...]) -> bool:
        return len(set(numbers)) == len(numbers) >= least and all(0 <= number < 2**31 for number in numbers)

    several = "" if least <= 1 else f"at least {least} "
    allowed = Range(f"be {several}different numbers from 0 to 2^31 - 1", are_seeds, of_whole=True)
    return in_range(allowed, tuple(default))


def objectives(default: tuple[str, ...], also: tuple[str, ...] = ()) -> Any:
    """A field of specifications of objectives; `also` are words with a meaning of their own, such as `all`."""
    return accepted_by(lambda text: text in also or catalog.make(text), default)


def rising(default: tuple, least: float, most: float) -> Any:
    """A field of strictly increasing numbers from `least` to `most`."""

    def rise(numbers: tuple) -> bool:
        in_order = list(numbers) == sorted(set(numbers))
        return in_order and least <= numbers[0] and numbers[-1] <= most

    return in_range(Range(f"be increasing numbers from {least} to {most}", rise, of_whole=True), default)


def better_and_worse(default: tuple[float, float]) -> Any:
    """A field of two rewards, the larger one first."""

    def falls(rewards: tuple[float, ...]) -> bool:
        return len(rewards) == 2 and math.inf > rewards[0] > rewards[1] > 0

    return in_range(Range("be two finite positive numbers, the larger one first", falls, of_whole=True), default)


def selecting(default: Any) -> Any:
    """A field that selects curves or changes their presentation, but not the content of a curve.

    If such a setting changes, a folder keeps its curves and only the new ones are computed. `default` may be a field
    with a range instead of a value.
    """
    if not isinstance(default, dataclasses.Field):
        default = dataclasses.field(default=default)
    return dataclasses.field(default=default.default, metadata={**default.metadata, "selecting": True})


def document(suffix: str, why: str = "") -> Any:
    """A field for the path of a document that a study writes elsewhere, "" for none; `why` ends in this suffix."""

    def check(text: str) -> None:
        if text and Path(text).suffix != suffix:
            raise ValueError(f"--document={text} must end in {suffix}{why}")
        if text:
            require_file(Path(text), "--document")

    return selecting(accepted_by(check, ""))


def shared(settings: Settings, kind: type[Checked]) -> dict[str, Any]:
    """The settings for which another dataclass has fields, too."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings) if field.name in names}


@functools.cache
def kinds_of(settings_class: type[Checked]) -> dict[str, Kind]:
    """Name -> kind, for the fields that are flags: those of a known type. Only presets set the others."""
    hints = typing.get_type_hints(settings_class)
    fields = dataclasses.fields(settings_class)
    return {field.name: KINDS[hints[field.name]] for field in fields if hints[field.name] in KINDS}


def read(settings_class: type[Settings], name: str, text: str) -> Any:
    """The value of a setting.

    Raises:
      ValueError: the text does not have its type.
    """
    kind = kinds_of(settings_class)[name]
    try:
        return kind.read(text)
    except ValueError as error:
        why = f" ({error})" if kind is KINDS[tuple[str, ...]] else ""
        raise ValueError(f"--{name} is {specifications.shortened(text)}, it must be {kind.described}{why}") from None


def as_text(settings: Checked, name: str) -> str:
    """The text of a setting on a command line."""
    return kinds_of(type(settings))[name].write(getattr(settings, name))


def identity(settings: Settings) -> dict[str, Any]:
    """The settings that determine the curves, for config.json: name -> number or text, without `selecting` fields."""
    written = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if not field.metadata.get("selecting"):
            written[field.name] = as_text(settings, field.name) if isinstance(value, tuple) else value
    return written


def resolve(presets: Mapping[str, OfStudy], preset: str, given: Mapping[str, str]) -> OfStudy:
    """The settings of a preset, overridden by flags given as text.

    Raises:
      ValueError: the preset is unknown, a text does not have the type of its flag, or a setting is out of range.
    """
    if preset not in presets:
        raise ValueError(f"unknown preset {preset!r}; {specifications.did_you_mean(preset, presets)}")
    settings = presets[preset]
    values = {name: read(type(settings), name, text) for name, text in given.items()}
    return dataclasses.replace(settings, **values).resolved()


def folder_name(specification: str) -> str:
    """A file name for an objective or an environment: `ips_grpo(floor=0.2)` -> `ips_grpo-floor=0.2`."""
    return re.sub(r"[^\w.=+]+", "-", specification).strip("-")
