import calendar
import importlib.resources
import json
import pickle
import re
import string
import unicodedata

import periodictable
import pycountry
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import CSS4_COLORS, XKCD_COLORS
from pygments.lexers import get_all_lexers

from ipsrl.environments import catalog
from ipsrl.environments.language.one_of_many import OneOfMany
from ipsrl.environments.reading.phrases import STOP_STRINGS, read_phrase, read_sentence
from tests.environments.reading.answers import tokens_of

ALL = OneOfMany()
PROMPT = {question.name: prompt for prompt, question in enumerate(ALL.asked)}
WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


def names_of(question):
    return {spellings[0] for spellings in ALL.asked[PROMPT[question]].answers}


def verdict(question, text, task=ALL):
    outcomes = task.verify_texts([PROMPT[question]], [[text]])
    return int(outcomes.outcome_id[0, 0]), float(outcomes.rewards[0, 0])


def answer_to(question, text, task=ALL):
    """The right answer in a text, None if there is none."""
    outcome, reward = verdict(question, text, task)
    return task.hypotheses[outcome] if reward else None


def spoken(number):
    if number < 20:
        return WORDS.split()[number - 1]
    ten, one = TENS.split()[number // 10 - 2], number % 10
    return f"{ten}-{spoken(one)}" if one else ten


def test_sizes():
    sizes = ALL.admissible.sum(1)
    assert len(sizes) == 30
    assert (sizes.min(), sizes.max()) == (2, 118)
    assert len({question.question for question in ALL.asked}) == 30
    assert all(re.fullmatch(r"(One .+|The result) is", question.beginning) for question in ALL.asked)
    sets = {name: OneOfMany(questions=name).num_prompts for name in ("eight", "nine", "reachable")}
    assert sets == {"eight": 8, "nine": 9, "reachable": 21}


ZONES = (importlib.resources.files("tzdata") / "zoneinfo" / "zone.tab").read_text().splitlines()
# In two continents, or on islands whose zones are named after an ocean; and dependencies, which are no countries.
COUNTRIES = {
    "european_country": ("Europe", "AM AZ CY GE IS KZ", "AX GG GI IM JE", {"kosovo"}),
    "african_country": ("Africa", "CV KM MG MU SC", "EH ES", set()),
    "asian_country": ("Asia", "EG MV TR", "HK MO", set()),
}


@pytest.mark.parametrize("question", COUNTRIES)
def test_countries_of_a_continent(question):
    area, more, fewer, unlisted = COUNTRIES[question]
    rows = [line.split("\t") for line in ZONES if not line.startswith("#")]
    codes = {row[0] for row in rows if row[2].startswith(f"{area}/")}
    assert codes >= set(fewer.split())
    found = {answer_to(question, name) for name in unlisted}
    for code in (codes | set(more.split())) - set(fewer.split()):
        country = pycountry.countries.get(alpha_2=code)
        known = [getattr(country, kind, "") for kind in ("name", "common_name", "official_name")]
        # "Korea, Republic of" in its usual order.
        known = [" ".join(reversed(name.split(", "))) for name in known] + known
        found.add(right := next(filter(None, (answer_to(question, name) for name in known)), None))
        assert right, country
    assert found == names_of(question)


def test_countries_of_south_america():
    for name in names_of("south_american_country"):
        (country,) = [c for c in pycountry.countries if read_phrase(c.name) == name]
        zones = [line for line in ZONES if line.startswith(f"{country.alpha_2}\t")]
        assert any("America/" in line or "Pacific/" in line for line in zones)


def test_states_elements_and_what_the_standard_library_knows():
    states = {state.name for state in pycountry.subdivisions.get(country_code="US") if state.type == "State"}
    assert names_of("us_state") == {state.lower() for state in states}
    elements = [element.name for element in periodictable.elements if element.number]
    assert len(elements) == 118
    assert {answer_to("chemical_element", name) for name in elements} == names_of("chemical_element")
    assert names_of("day") == {name.lower() for name in calendar.day_name}
    assert names_of("month") == {name.lower() for name in calendar.month_name[1:]}
    assert names_of("letter") == set(string.ascii_lowercase) > names_of("vowel") == set("aeiou")
    areas = {line.split("\t")[2].split("/")[0].lower() for line in ZONES if not line.startswith("#")}
    assert {"africa", "antarctica", "asia", "australia", "europe"} == names_of("continent") & areas


@pytest.mark.parametrize(
    ("question", "signs", "name"),
    [
        ("greek_letter", "αβγδεζηθικλμνξοπρστυφχψω", "GREEK SMALL LETTER {}"),
        ("zodiac_sign", "♈♉♊♋♌♍♎♏♐♑♒♓", "{}"),
        ("chess_piece", "♔♕♖♗♘♙", "WHITE CHESS {}"),
    ],
)
def test_names_that_unicode_has(question, signs, name):
    pattern = re.compile(name.format("(.+)"))
    called = {pattern.fullmatch(unicodedata.name(sign))[1].lower().replace("lamda", "lambda") for sign in signs}
    assert {answer_to(question, word) for word in called} == names_of(question)


def test_letters_are_answers_by_themselves():
    for letter in "αΒγλςΩ":
        assert answer_to("greek_letter", letter) in names_of("greek_letter")
    assert answer_to("greek_letter", "a") is None


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("prime", [n for n in range(2, 100) if all(n % divisor for divisor in range(2, n))]),
        ("even_number", range(2, 51, 2)),
        ("number_to_ten", range(1, 11)),
        ("multiple_of_five", range(5, 100, 5)),
    ],
)
def test_numbers(question, numbers):
    assert names_of(question) == set(map(str, numbers))
    for number in range(1, 100):
        expected = str(number) if number in numbers else None
        for text in (str(number), spoken(number), f"{spoken(number).replace('-', ' ').title()}.", f"{number}, say"):
            assert answer_to(question, text) == expected, text
    for text in ("0", "-5", "3.5", "5%", "1,000", "50th", "5 or so on"):
        assert answer_to(question, text) == ("5" if text == "5 or so on" and 5 in numbers else None)


def test_colours_and_languages_are_known_elsewhere():
    shades = {name.removeprefix("xkcd:") for name in XKCD_COLORS}
    known = {read_phrase(name).replace(" ", "") for name in (*shades, *CSS4_COLORS)}
    for spellings in ALL.asked[PROMPT["colour"]].answers:
        assert any(spelling.replace(" ", "") in known for spelling in spellings), spellings
    lexers = {read_phrase(name) for lexer, aliases, *_ in get_all_lexers() for name in (lexer, *aliases)}
    unknown = {s[0] for s in ALL.asked[PROMPT["programming_language"]].answers if lexers.isdisjoint(s)}
    expected = "algol apex assembly hack logo oberon pl/i processing scratch simula vimscript"
    assert sorted(unknown) == expected.split()


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("coin", "head", "heads"),
        ("body_part", "head", "head"),
        ("colour", "orange", "orange"),
        ("fruit", "an Orange.", "orange"),
        ("planet", "Mercury", "mercury"),
        ("chemical_element", "mercury", "mercury"),
        ("colour", "Grey", "gray"),
        ("fruit", "strawberries", "strawberry"),
        ("fruit", "peaches", "peach"),
        ("vowel", "a", "a"),
        ("vowel", "as", None),
        ("vowel", "y", None),
        ("us_state", "kansa", None),
        ("programming_language", "C++", "c++"),
        ("programming_language", "C#", "c#"),
        ("programming_language", "VB.NET", "vb.net"),
        ("african_country", "Côte d’Ivoire", "ivory coast"),
        ("european_country", "Bosnia and Herzegovina", "bosnia"),
        ("european_country", "Bosnia & Herzegovina", "bosnia"),
        ("european_country", "France & Spain", None),
        ("european_country", "France 🇫🇷", "france"),
        ("european_country", "Kenya", None),
        ("prime", "23", "23"),
        ("prime", "２３", "23"),
        *(("prime", text, None) for text in ("2³", "2^3", "2₃", "2⅓", "2③", "2\u20623", "2☆3", "2`3", "1¹", "²3")),
        ("fruit", "carrot", None),
    ],
)
def test_spellings_belong_to_a_question(question, text, answer):
    assert answer_to(question, text) == answer


def test_other_phrases_have_outcomes_without_reward():
    outcomes = [verdict("day", text) for text in ("someday", "the weekend", "January", "a\ud800b", "Monday\ud800")]
    assert all(outcome >= 0 and reward == 0 for outcome, reward in outcomes)
    assert outcomes[0][0] >= ALL.num_hypotheses > outcomes[2][0]
    assert verdict("day", "Someday!") == outcomes[0]
    for text in ("", " \n ", "...", "?", "-", "x" * 61, "<think>monday"):
        assert verdict("day", text) == (-1, 0)


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("day", "I would say Monday, of course.", "monday"),
        ("day", "Mondays", "monday"),
        ("day", "Monday! And Tuesday.", "monday"),
        ("day", "Monday, yes, monday", "monday"),
        ("day", "somonday", None),
        ("day", "Monday\nTuesday", "monday"),
        ("african_country", "It is South Sudan", "south sudan"),
        ("african_country", "It is Guinea-Bissau", "guinea bissau"),
        ("us_state", "West Virginia", "west virginia"),
        ("programming_language", "I like C++ most", "c++"),
        ("day", "word " * 60 + "monday", None),
    ],
)
def test_mentions(question, text, answer):
    assert answer_to(question, text, OneOfMany(reading="mention")) == answer


SCRIPTS = {
    "questions": {
        "city": {
            "question": "?",
            "answers": ["北京", "上海", "القاهرة", "דלהי|दिल्ली", "ばら", "はら", "ปู", "ปี", "München"],
        }
    }
}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        *(
            (f"北京{behind}", "北京")
            for behind in ("。", "，当然", "、上海", "！很大", "：大", "（首都）", "；好", "…好", "？")
        ),
        ("「北京」", "北京"),
        ("**北京**。", "北京"),
        ("القاهرة، بالطبع", "القاهرة"),
        ("القاهرة؟", "القاهرة"),
        ("दिल्ली। बड़ा", "דלהי"),
        ("ばら。", "ばら"),
        ("はら", "はら"),
        ("ปี", "ปี"),
        ("ปู.", "ปู"),
        ("MUNCHEN", "munchen"),
        ("北京上海", None),
        ("不是北京", None),
        ("ぱら", None),
    ],
)
def test_other_scripts(tmp_path, text, answer):
    task = OneOfMany(source=written(tmp_path, SCRIPTS))
    outcomes = task.verify_texts([0], [[text]])
    assert (task.hypotheses[outcomes.outcome_id[0, 0]] if outcomes.rewards[0, 0] else None) == answer


def test_and_is_also_read_as_a_sign_and_a_sign_as_and(tmp_path):
    answers = ["Trinidad|Trinidad and Tobago", "Cuba", "rock|rock & roll", "R&B"]
    task = OneOfMany(source=written(tmp_path, one(answers=answers)))
    right = ["Trinidad and Tobago", "Trinidad & Tobago.", "Trinidad", "rock and roll", "Rock & Roll!", "rock", "R&B"]
    assert task.verify_texts([0], [[*right, "Trinidad & Cuba", "R and B"]]).rewards.tolist() == [[1] * 7 + [0, 0]]
    for answer in ("rock & roll", "rock ＆ roll", "rhythm & blues|R&B"):
        with pytest.raises(ValueError, match=r"is read where '.* and .*' is meant"):
            OneOfMany(source=written(tmp_path, one(answers=[answer, "jazz"])))


def test_several_mentions_have_no_outcome():
    task = OneOfMany(reading="mention")
    assert verdict("day", "Monday or Tuesday", task) == (-1, 0)
    assert verdict("day", "it is a day", task)[0] >= task.num_hypotheses
    assert "," not in task.stop_strings


@given(st.text() | st.lists(st.sampled_from([*STOP_STRINGS, *"'*-\"(>#_ é😀", "the ", "a ", "x", "7"])).map("".join))
def test_what_is_read_is_read_again_as_itself(text):
    for read in (read_phrase, read_sentence):
        phrase = read(text)
        assert phrase is None or read(phrase) == phrase


def test_every_spelling_is_read():
    for prompt, question in enumerate(ALL.asked):
        for spellings in question.answers:
            for spelling in spellings:
                assert ALL.hypotheses[ALL.parse_text(spelling, prompt)] == spellings[0]


def test_questions_have_one_symbol_and_answers_another():
    task = OneOfMany(questions=("planet", "chemical_element"))
    assert [task.vocabulary[token] for token in task.prompt_tokens(1)] == ["<bos>", "chemical_element?", "<answer>"]
    mercury = task.hypotheses.index("mercury")
    assert task.render(mercury) == [*tokens_of(task, ["mercury"]), *task.stop_tokens]
    assert task.admissible[:, mercury].all()
    assert task.admissible.sum() == 8 + 118 == task.num_hypotheses + 1
    for symbols in ([], ["mercury", "venus"], ["planet?"]):
        assert task.parse([*tokens_of(task, symbols), *task.stop_tokens]) == -1


def test_names_of_questions_and_sets():
    day_and_eight = catalog.make("one_of_many(questions=(day, eight))")
    assert [question.name for question in day_and_eight.asked][:3] == ["day", "european_country", "african_country"]
    assert day_and_eight.num_prompts == 8
    assert (
        catalog.make("one_of_many(questions=day)").hypotheses
        == catalog.make("one_of_many(questions=(day,))").hypotheses
    )
    with pytest.raises(ValueError, match=r"has no question 'dya'; did you mean day\?"):
        catalog.make("one_of_many(questions=(day, dya))")


def test_beginnings():
    assert ALL.beginning(PROMPT["coin"]) == "The result is"
    assert ALL.prompt_text(PROMPT["coin"]) == "Flip a coin and tell me the result: heads or tails."


SKY = {"question": "Name something in the sky.", "answers": ["the Sun", "Moon", "airplane|aeroplane|plane"]}


def written(tmp_path, content):
    path = tmp_path / "questions.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_questions_of_a_file(tmp_path):
    content = {
        "questions": {"sky": SKY, "yes": {"question": "Yes?", "answers": ["yes", "no"]}},
        "sets": {"all": ["sky"]},
    }
    task = OneOfMany(source=written(tmp_path, content), questions="all")
    assert task.hypotheses == ("airplane", "moon", "sun")
    assert task.verify_texts([0], [["Planes.", "sun", "stars"]]).rewards.tolist() == [[1, 1, 0]]
    assert task.beginning(0) == ""
    again = OneOfMany(source=task.source, questions="all")
    assert again == task == pickle.loads(pickle.dumps(task))
    content["questions"]["sky"] = SKY | {"answers": ["sun", "moon", "plane", "star"]}
    changed = OneOfMany(source=written(tmp_path, content), questions="all")
    assert changed != task
    assert repr(changed) != repr(task)


def one(**changes):
    return {"questions": {"sky": {key: value for key, value in (SKY | changes).items() if value is not ...}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, "is not JSON with questions"),
        ('{"questions": {"a": 1, "a": 2}}', r"is not JSON with questions \(it has 'a' twice\)"),
        ([], r"is \[\], it must be an object with questions"),
        ({"questions": {}}, "has no questions: add one"),
        ({"questions": {"sky": 3}}, "the question 'sky' of .* is 3, it must be an object with question, answers"),
        (one(answers=...), "the question 'sky' of .* has no 'answers': add it"),
        (one(answers=[]), "has fewer than 2 answers: give all that are right"),
        (one(answers=["sun", 3]), "has the answer 3, it must be a text"),
        (one(answers=["sun", ""]), "has the answer '', each of whose spellings must be a phrase"),
        (one(answers=["sun", "moon||luna"]), "has the answer 'moon||luna', each of whose"),
        (
            one(answers=["sun|star", "moon", "A Star!"]),
            "has 'star' in two answers, 'sun|star' and 'A Star!': leave one",
        ),
        (one(answers=["St. Louis", "jazz"]), "of which only 'st' is read where 'st. louis' is meant: write it without"),
        (one(answers=["salt and pepper", "jazz"]), "only 'salt' is read .* or list 'salt' as a spelling as well"),
        (one(answers=["上海，中国", "jazz"]), "only '上海' is read"),
        (one(question=" "), "has no words: write what is asked"),
        (one(question=3), "has 3 as 'question', it must be a text"),
        (one(answer=["x"]), "unknown key 'answer'; known: question, answers, beginning"),
        (one() | {"sets": {"sky": ["sky"]}}, "the name 'sky' to a question and to a set: rename one"),
        (one() | {"sets": {"most": []}}, r"the set 'most' of .* is \[\], it must be a list of questions"),
        (one() | {"sets": {"most": ["sea"]}}, "has no question 'sea'; known: sky"),
    ],
)
def test_files_that_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")) as refused:
        OneOfMany(source=written(tmp_path, content))
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_too_many_answers_are_refused(monkeypatch):
    monkeypatch.setattr("ipsrl.environments.listed_task.LARGEST_SPACE", 10)
    with pytest.raises(ValueError, match="12 answers, more than the 10 that are enumerated: ask fewer questions"):
        OneOfMany(questions="month")
