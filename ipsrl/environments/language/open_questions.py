"""Open questions with their right answers, from a JSON file.

    {
      "questions": {
        "sky": {
          "question": "Name something in the sky.",
          "beginning": "One thing in the sky is",
          "answers": ["the sun", "the moon", "cloud", "airplane|aeroplane|plane"]
        }
      },
      "sets": {"short": ["sky"]}
    }
Spellings of one answer stand between `|`. They are read as answers are (`ipsrl.environments.reading.phrases`), and the
first is the name of the answer: here `sun`, `moon`, `cloud`, `airplane`. A spelling of which a part would be cut off,
such as "St. Louis" and "Trinidad and Tobago", is refused, unless what is left is a spelling of the answer too:
"Trinidad|Trinidad and Tobago", which also reads "Trinidad & Tobago". So is "rock & roll", for which a model may write
"and". `beginning` and `sets` may be left out.
"""

import collections
import dataclasses
import functools
import json
import re
from pathlib import Path
from typing import Any

from ipsrl.checking.arguments import shown
from ipsrl.checking.regular_files import read_bytes
from ipsrl.checking.specifications import did_you_mean
from ipsrl.environments.reading.phrases import read_phrase, read_whole

# Shorter words have no plural of their own: "as" is not two times "a".
SHORTEST_WITH_PLURAL = 3


@dataclasses.dataclass(frozen=True)
class OpenQuestion:
    """A question with two right answers or more.

    Attributes:
      name: in the file.
      question: the prompt.
      beginning: words with which an answer begins; "" for none.
      answers: the spellings of each answer, its name first.
    """

    name: str
    question: str
    beginning: str
    answers: tuple[tuple[str, ...], ...]

    @functools.cached_property
    def meanings(self) -> dict[str, str]:
        """Spelling -> name of the answer, with plurals in -s, -es and -ies unless they are spelled like another one."""
        meanings = {spelling: spellings[0] for spellings in self.answers for spelling in spellings}
        for spelling, answer in tuple(meanings.items()):
            if len(spelling) >= SHORTEST_WITH_PLURAL and spelling[-1].isalpha():
                for plural in (f"{spelling}s", f"{spelling}es", re.sub("y$", "ies", spelling)):
                    meanings.setdefault(plural, answer)
        return meanings

    @functools.cached_property
    def _mention(self) -> re.Pattern[str]:
        # Of two answers that begin at the same place, the longer one is meant.
        longest_first = sorted(self.meanings, key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def mentioned(self, sentence: str) -> set[str]:
        """The names of the answers that occur in a sentence as whole words, one within another not counted."""
        return {self.meanings[spelling] for spelling in self._mention.findall(sentence)}


def read_questions(path: Path, names: tuple[str, ...] = ()) -> tuple[OpenQuestion, ...]:
    """The questions of a file with these names, which may be names of sets; all of them without names.

    Raises:
      ValueError: the file cannot be read or is not of this form, a name is unknown, an answer holds no phrase or
        more than one, or a question has fewer than two answers or the same spelling twice.
    """
    content = _object(_load(path), str(path), {"questions": dict}, {"sets": dict})
    questions, sets = content["questions"], content.get("sets", {})
    if not questions:
        raise ValueError(f"{path} has no questions: add one")
    for group, members in sets.items():
        if group in questions:
            raise ValueError(f"{path} gives the name {group!r} to a question and to a set: rename one")
        if not isinstance(members, list) or not members or not all(isinstance(member, str) for member in members):
            raise ValueError(f"the set {group!r} of {path} is {shown(members)}, it must be a list of questions")
        for member in members:
            _require(member, questions, path)
    for name in names:
        _require(name, {**questions, **sets}, path)
    # All are read, so that a mistake in a file is found whatever is asked.
    read = {name: _question(name, row, path) for name, row in questions.items()}
    chosen = [member for name in names for member in sets.get(name, (name,))] or read
    return tuple(read[name] for name in dict.fromkeys(chosen))


def _load(path: Path) -> Any:
    try:
        content = read_bytes(path)
    except OSError as error:
        raise ValueError(f"the questions in {path} cannot be read: {error.strerror}") from None
    try:
        return json.loads(content.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON with questions ({error})") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    counts = collections.Counter(name for name, _ in pairs)
    for name, count in counts.items():
        if count > 1:
            raise ValueError(f"it has {name!r} twice")
    return dict(pairs)


def _object(value: Any, where: str, required: dict[str, type], optional: dict[str, type]) -> dict[str, Any]:
    """The JSON object, if it has the keys it must have, and no key that it may not have."""
    known, kinds = required | optional, {dict: "an object", list: "a list", str: "a text"}
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {shown(value)}, it must be an object with {', '.join(required)}")
    for key in value:
        if key not in known:
            raise ValueError(f"{where} has an unknown key {key!r}; {did_you_mean(key, known)}")
    for key, kind in known.items():
        if key in required and key not in value:
            raise ValueError(f"{where} has no {key!r}: add it")
        if key in value and not isinstance(value[key], kind):
            raise ValueError(f"{where} has {shown(value[key])} as {key!r}, it must be {kinds[kind]}")
    return value


def _require(name: str, known: dict[str, Any], path: Path) -> None:
    if name not in known:
        raise ValueError(f"{path} has no question {name!r}; {did_you_mean(name, known)}")


def _question(name: str, row: Any, path: Path) -> OpenQuestion:
    where = f"the question {name!r} of {path}"
    row = _object(row, where, {"question": str, "answers": list}, {"beginning": str})
    if not row["question"].strip():
        raise ValueError(f"{where} has no words: write what is asked")
    answers: list[tuple[str, ...]] = []
    owner: dict[str, str] = {}
    for answer in row["answers"]:
        if not isinstance(answer, str):
            raise ValueError(f"{where} has the answer {shown(answer)}, it must be a text")
        phrases = [read_phrase(spelling) for spelling in answer.split("|")]
        if None in phrases:
            raise ValueError(
                f"{where} has the answer {answer!r}, each of whose spellings must be a phrase of 1 to 60 signs"
            )
        wholes = [read_whole(spelling) for spelling in answer.split("|")]
        # A model may write "and" for a listed &, too.
        written_out = [
            (read_phrase(words), words) for whole in wholes if (words := whole.replace(" & ", " and ")) != whole
        ]
        for phrase, whole in [*zip(phrases, wholes, strict=True), *written_out]:
            if phrase not in wholes:
                raise ValueError(
                    f"{where} has the answer {answer!r}, of which only {phrase!r} is read where {whole!r} is meant: "
                    f"write it without the mark or word that ends a phrase, or list {phrase!r} as a spelling as well"
                )
        # Within a listed answer, & is "and".
        phrases += [read_phrase(whole.replace(" and ", " & ")) for whole in wholes if " and " in whole]
        spellings = tuple(dict.fromkeys(filter(None, phrases)))
        for spelling in spellings:
            if spelling in owner:
                raise ValueError(
                    f"{where} has {spelling!r} in two answers, {owner[spelling]!r} and {answer!r}: leave one"
                )
            owner[spelling] = answer
        answers.append(spellings)
    if len(answers) < 2:
        raise ValueError(f"{where} has fewer than 2 answers: give all that are right")
    return OpenQuestion(name, row["question"].strip(), row.get("beginning", "").strip(), tuple(answers))
