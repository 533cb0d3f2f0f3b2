"""Words beside an answer: those that leave it as it is. docs/answers.md states the rule."""

import itertools
import re
from collections.abc import Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


# In this case only: 2 M is two millions.
UNIT_SIGNS = _words("""
    a g h l m s L J N V W cm dm ft gal hr hrs in kg km kW kWh lb lbs mg mi min mins ml mL mm oz pcs pt qt sec secs sq yd
    yr yrs mph kph USD EUR GBP CAD AUD INR
""")
UNITS = _words("""
    dollar cent penny pence euro pound dime nickel rupee yen yuan peso buck percent percentage degree celsius fahrenheit
    inch foot feet yard mile meter metre centimeter centimetre millimeter millimetre kilometer kilometre acre hectare
    square cubic gram kilogram milligram ounce ton tonne liter litre milliliter millilitre gallon pint quart cup
    teaspoon tablespoon second minute hour day week weekday weekend month year night morning afternoon evening trip
    watt kilowatt joule volt unit item piece slice serving person people man men woman women child children kid boy girl
    student teacher worker employee customer player member guest friend team group class classes family house room
    apple egg cookie potatoes tomatoes ball toy marble book page card game gift ticket bag box boxes bottle glass
    glasses dish dishes lunches matches tree flower car bus buses dog cat fish sheep deer chicken mice teeth
    bread candy cheese chocolate coffee flour food fruit homework juice milk money paper profit rice sleep sugar tea
    water wood work red blue green black white big small large new
    an the of in per each every all total more left remaining old altogether overall apiece together them these
""")
# What follows says where, when or for what.
PREPOSITIONS = _words("in at on for during with from among throughout")
# Words that end as plurals do, but name no unit, or another number.
NO_PLURALS = _words("""
    always does perhaps sometimes times towards upwards downwards onwards besides
    ones twos threes fours fives sixes sevens eights nines tens twenties thirties forties fifties
    dozens scores hundreds thousands millions billions trillions grands mils mills lakhs crores
    halves thirds quarters fourths fifths sixths sevenths eighths ninths tenths twelfths hundredths thousandths
    millionths billionths roots powers squares cubes doubles triples negatives
""")
# Each makes another number of what it stands at, or leaves open which one it is.
CHANGING = _words("""
    not no never cannot unknown neither nor without wrong incorrect false if unless except maybe perhaps possibly than
    about almost nearly hardly approximately roughly around between under below above until fewer less
    none nothing nobody doubt doubts doubtful impossible unlikely probably wrongly mistake fail fails failed might
    suppose imagine guess
    plus minus negative opposite inverse reciprocal sqrt log ln lg exp sin cos tan abs mod
    dozens hundreds thousands millions billions trillions
""")
# A dozen may cost 5, but "dozen: 5" and "in dozen: 5" are 60.
SCALE_WORDS = ("dozen", "hundred", "thousand", "million", "billion", "trillion")
CHANGING_PAIRS = _phrases("""
    square root, cube root, up to, close to, at most, at least, at best, at worst, rule out, rules out, ruled out,
    out of, by itself, some would, some say, many would, most would, one would, one might, first glance
""") + tuple(f"in {scale}" for scale in SCALE_WORDS)
NUMBER_WORDS = _words("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion
    dozen half halves quarter quarters third thirds
""")
# Beginnings of words about a wrong way to an answer.
MISTAKES = _phrases("forget, forgot, overlook, careless, naive, tempting, mistak, erroneous, misread, miscount")
# A box is what its sentence gives, unless one of these is in the clause before it, ...
CHANGING_BEFORE_BOX = CHANGING | _words(
    "twice thrice double triple divided multiplied anything doubtful near unlike excluding often"
)
# ... or one directly before it: "3 km and 5", "all but 5", "half of 5"; a total of 5 is 5.
LINKING_TO_BOX = NUMBER_WORDS | _words("""
    and or but of over times versus power point comma past following preceding by after before from to into against
    per with since because until till while whether though although when if out off dot remove removes deduct deducts
    square squares cube cubes add adds adding subtract subtracts subtracting multiply multiplies divide divides exceed
    exceeds surpass surpasses contradict contradicts exclude excludes reject rejects discard discards precede precedes
    follow follows
""")
# ... but these pairs give one.
GIVING_PAIRS = _phrases("""
    equal to, equals to, comes to, come to, came to, amounts to, amount to, adds to, sums to, totals to, up to, down to,
    out to, rounds to, rounded to, simplifies to, simplified to, reduces to, leads to, evaluates to, converges to,
    equivalent to, congruent to, us to, given by, up with, left with, amounted to, turns out
""")
# Of all words only these may stand alone before a box: "Square" and "Take" are operations.
ALONE = _words("""
    so thus hence therefore then ergo is are was were yes ok okay finally altogether overall total sum result answer
    solution namely exactly just clearly indeed simply now in there it we he she they i
    get gets have has find finds make makes give gives obtain obtains need needs pay pays cost costs earn earns
""")
TOTALS = _words("total sum value number amount cost price profit score area volume average distance length")
# What is counted may hold words that change a number: "the number of students who do not swim is".
COUNTED = TOTALS - {"value"} | _words("probability chance percentage fraction ratio angle perimeter maximum minimum")
COPULAS = _words("is are was were be equals")
# Other words that change a number are harmless in a subject: "the area under the curve is", "without tax she pays".
HARMLESS_IN_SUBJECTS = _words(
    "between under below above around without opposite inverse reciprocal negative fewer less than"
)
VERBS = COPULAS | _words("""
    number has have had makes make cost costs need needs take takes get gets earn earns pay pays give gives find finds
    obtain obtains
""")
# "The students who do not swim number": behind one of these.
AUXILIARIES = _words("do does did is are was were has have had can could")
# In the sentence behind a box, where "under the tree" and "if all come" are harmless ...
CHANGING_BEHIND_BOX = (CHANGING - _words("around between under below above until than if without except")) | _words("""
    or too squared cubed factorial short remainder pi grand mill mil mils bn tn mn lakh crore dozen hundred thousand
    million billion trillion tens halves thirds quarters fourths fifths sixths sevenths eighths ninths tenths twelfths
    hundredths thousandths millionths billionths add added subtract subtracted multiply multiplied divide divided
    doubled tripled quadrupled halved trap decoy distractor raised increased decreased reduced
""")
# ... but not directly behind it.
LINKING_BEHIND_BOX = NUMBER_WORDS | _words(
    "to below under above over through till until than around times point comma dot away fold"
)
# "5 in ten", "5 every two days".
RATES = _words("in per every each out")
# "5 is what we need", but not "5 is what most people write".
OWN_WORDS = _words("we was is the remains")
ADDING_BEHIND_BOX = NUMBER_WORDS | _words("a an more up over counting change remainder")
# What else stands before a variable may change it, as in "the negative of x".
BEFORE_VARIABLES = _words("so thus hence therefore then that the value of we have get find and where")
INTRODUCING = _words("""
    so thus hence therefore then is are was were had has have make makes made cost costs need needs take takes get gets
    earn earns pay pays sold give gives find finds obtain obtains simply just exactly indeed clearly
""")
INTRODUCING_PAIRS = ("comes to", "conclude that", "find that", "gives us", "in total", "see that")
# Behind the sentence of a box; each only says that the answer is one.
ENDINGS = _phrases("""
    is the answer, is the final answer, is correct, is right, is one solution, is a solution, is the solution,
    is needed, are needed, works, and we are done
""")

_PLURAL = re.compile(r"[a-z]{2,}[a-hj-rtv-z]s")
_POWER = re.compile(r"(?:\^\{?[23]\}?|[²³]|\.)\Z")
_WORD = re.compile(r"[a-z]{2,}(?:'[a-z]+|-[a-z]{2,})*'?|[ai]")
_VARIABLE = re.compile(r"[a-z](?:_?\d)?")
# "Gives us" before "gives".
_INTRODUCERS = "|".join([pair.replace(" ", " +") for pair in INTRODUCING_PAIRS] + sorted(INTRODUCING))
_INTRODUCTION = re.compile(rf"(?:(?:{_WORD.pattern}),? +)*(?:{_INTRODUCERS})\b(?:,? +|(?=[^\w' ,]))", re.IGNORECASE)
_ENDING = re.compile(rf" (?:{'|'.join(ENDINGS)})(?=\.?\Z|\. .*\Z)", re.IGNORECASE)


def is_unit(words: Sequence[str]) -> bool:
    """Whether words only say what is counted, as "cm^2", "apples" and "dollars per day" do."""
    words = [_POWER.sub("", word) for word in words]
    # "Two square" is a power.
    return words[-1:] not in (["square"], ["cubic"]) and all(map(_is_unit_word, words))


def is_quantity(words: Sequence[str]) -> bool:
    """Whether words say what is counted, and where or when it is: "apples in the basket", "altogether in May"."""
    end = next((i for i, word in enumerate(words) if word.lower() in PREPOSITIONS), len(words))
    behind = [word.lower().rstrip(".,") for word in words[end:]]
    return is_unit(words) or (
        is_unit(words[:end]) and all(map(_WORD.fullmatch, behind)) and harmless_behind_box(behind)
    )


def is_name(text: str) -> bool:
    """Whether words can say what a value is of, as "x", "the value of x_1" and "her total cost" do."""
    *before, last = re.split(",? +", text.strip().lower())
    words = [*before, last]
    changed = _changes(words) and not _counts(words)
    if not all(map(_WORD.fullmatch, before)) or changed or (not before and last in SCALE_WORDS):
        return False
    return BEFORE_VARIABLES.issuperset(before) if _VARIABLE.fullmatch(last) else _WORD.fullmatch(last) is not None


def without_introduction(text: str) -> str:
    """The text without the words before an answer that end with a verb or a word such as "so"."""
    words = _INTRODUCTION.match(text)
    if words is None:
        return text
    said = re.split("[, ]+", words[0].lower())
    return text if said[0] == "had" or _changes(said) else text[words.end() :]


def without_ending(text: str) -> str:
    """The text without words such as "is the answer" at the end of its last line, or before a full stop on it."""
    return _ENDING.sub("", text, count=1)


def harmless_before_box(words: Sequence[str]) -> bool:
    """Whether the words of a sentence or clause, in small letters, leave the number behind them as it is."""
    if words[-1:] == ["of"] and words[-2:-1] and words[-2] in TOTALS:
        words = words[:-2]
    if not words or (len(words) == 1 and words[0] not in ALONE and not words[0].endswith("'s")):
        return not words
    pair = " ".join(words[-2:])
    if words[-1].endswith("fold") or pair == "to the" or (words[-1] in LINKING_TO_BOX and pair not in GIVING_PAIRS):
        return False
    if words[-1] in COPULAS and _counts(words[:-1]):
        return True
    verb = max((place for place, word in enumerate(words) if word in VERBS), default=0)
    kept = [word for place, word in enumerate(words) if place >= verb - 1 or not _is_harmless_in_subject(words, place)]
    return not _changes(kept, CHANGING_BEFORE_BOX)


def _is_harmless_in_subject(words: Sequence[str], place: int) -> bool:
    """Whether a word that else changes a number is harmless in a subject, if two words or more follow."""
    # "The inverse of 3 is 5" says what 5 is, "the negative of x is 5" that x is -5.
    if words[place + 1 : place + 2] == ["of"] and not words[place + 2].isdecimal():
        return False
    negated = words[place] == "not" and place > 1 and words[place - 2] == "who" and words[place - 1] in AUXILIARIES
    # "The remainder when n is divided by 7 is".
    divided = words[place] == "divided" and "when" in words[:place]
    return negated or divided or words[place] in HARMLESS_IN_SUBJECTS


def harmless_behind_box(words: Sequence[str]) -> bool:
    """Whether the words behind a number in its sentence, in small letters, leave it as it is."""
    if words and words[0] in LINKING_BEHIND_BOX:
        return False
    second = words[1:2]
    if second and NUMBER_WORDS.issuperset(second) and (words[0] in RATES or _is_unit_word(words[0])):
        return False
    if words[:2] == ["is", "what"] and words[2:] and words[2] not in OWN_WORDS:
        return False
    adding = any(
        first in ("and", "times") and (second in ADDING_BEHIND_BOX or second.isdecimal())
        for first, second in itertools.pairwise(words)
    )
    return not adding and not _changes(words, CHANGING_BEHIND_BOX)


def tells_mistake(words: Sequence[str]) -> bool:
    """Whether a word is about a wrong way to an answer: "a careless solver", "if we forget one"."""
    return any(word.startswith(MISTAKES) for word in words)


def _counts(words: Sequence[str]) -> bool:
    """Whether words say what is counted, which may be what does not: "the number of students who do not swim"."""
    counted = any(first in COUNTED and second in ("of", "that") for first, second in itertools.pairwise(words))
    return counted and not _changes(words[-1:]) and " ".join(words[-2:]) not in CHANGING_PAIRS


def _is_unit_word(word: str) -> bool:
    small = word.lower()
    return word in UNIT_SIGNS or small in UNITS or (bool(_PLURAL.fullmatch(small)) and small not in NO_PLURALS)


def _changes(words: Sequence[str], changing: frozenset[str] = CHANGING) -> bool:
    if tells_mistake(words) or any(word in changing or word.endswith("n't") for word in words):
        return True
    return any(f"{first} {second}" in CHANGING_PAIRS for first, second in itertools.pairwise(words))
