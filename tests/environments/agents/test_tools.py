import numpy as np
import pytest

from ipsrl.environments.agents.tools import Calculator, Search, ToolUse, make_tools, reply_to
from ipsrl.environments.reading.verifier_pool import UnreadableAnswers, VerifierPool
from ipsrl.rollouts.sampled_answers import transcript
from tests.environments.language.asked_tasks import BOOLEAN, HERE, VOCABULARY, texts_of
from tests.environments.language.tokenizers_for_tests import EOS, ids, save_tokenizer
from tests.environments.reading import readers
from tests.environments.scripted_policy import written
from tests.hangs import HANGS

TEXTS = {
    "lakes.txt": "Lake Titicaca lies in the Andes.\n\nLake Baikal is the deepest lake.",
    "rivers.txt": "The Amazon carries more water than any other river.",
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"), [*texts_of(BOOLEAN), *TEXTS.values()])


def test_lines_that_are_calls_are_answered(tokenizer, texts):
    environment = ToolUse(
        BOOLEAN, tokenizer, VOCABULARY, 200, 1500, verifier=HERE, tools=(Calculator(), Search(texts)), longest_reply=40
    )
    answer = BOOLEAN.answer_text(0)
    parts = (
        "Let me see\ncalculate(2 * (3 + 4))\n",
        "14\n",
        "search(deepest lake)\n",
        "Lake Baikal is the deepest lake.\n",
        answer,
    )
    sampled = written(environment, 0, *parts)
    tokens, own = sampled.tokens[0, 0], sampled.token_mask[0, 0]
    assert environment.tokenizer.decode(tokens[sampled.written[0, 0]]) == "".join(parts) + "<eos>"
    assert environment.answer_texts([tokens[sampled.dictated[0, 0]]]) == [parts[1] + parts[3]]
    assert not (own & sampled.dictated[0, 0]).any()
    assert not sampled.truncated.any()
    outcomes = environment.verify(sampled)
    assert outcomes.outcome_id[0, 0] == 0
    real = sampled.written[0, 0]
    speakers = [
        line.partition(":")[0]
        for line in transcript(environment, tokens[real], sampled.dictated[0, 0][real]).split("\n")
    ]
    assert speakers.count("environment") == 2


def test_an_answer_of_a_tool_is_not_the_models(tokenizer, tmp_path):
    """A text that holds the right answer is found, but the model says nothing behind it."""
    said = f"solution is {' '.join(BOOLEAN.answer_text(0).split())}"
    (tmp_path / "answers.txt").write_text(said)
    environment = ToolUse(
        BOOLEAN, tokenizer, VOCABULARY, 200, 1500, verifier=HERE, tools=(Search(str(tmp_path)),), longest_reply=40
    )
    sampled = written(environment, 0, "search(solution)\n", f"{said}\n", "Hm")
    assert said in environment.answer_texts([sampled.tokens[0, 0][sampled.dictated[0, 0]]])[0]
    assert environment.verify(sampled).outcome_id[0, 0] == -1


def heard(environment, sampled):
    """The results of the tools in the first answer, a line each."""
    return environment.answer_texts([sampled.tokens[0, 0][sampled.dictated[0, 0]]])[0].splitlines()


def test_only_so_many_calls_are_answered_and_replies_are_cut(tokenizer):
    environment = ToolUse(BOOLEAN, tokenizer, VOCABULARY, 120, 1500, verifier=HERE, calls=2, longest_reply=4)
    product = ids(environment.tokenizer, "1000000")
    assert len(product) > 3
    cut = environment.tokenizer.decode(product[:3])
    # A line that is cut is a line: the model's next call stands on one of its own.
    calls = "calculate(1000 * 1000)\n", f"{cut}\n", "calculate(2)\n", "2\n", "calculate(3)\n"
    sampled = written(environment, 0, *calls)
    assert heard(environment, sampled) == [cut, "2"]
    assert sampled.final_state["left"][0, 0] == 0


def test_only_the_models_own_lines_are_calls(tokenizer):
    """A tool that says what looks like a call, one that says nothing, and one that says a token that ends an answer."""
    said = {"call": "calculate(6 * 7)", "quiet": "", "marks": "a<eos>b"}
    tools = tuple(readers.SayingTool(name, words) for name, words in said.items())
    environment = ToolUse(BOOLEAN, tokenizer, VOCABULARY, 120, 1500, verifier=HERE, tools=(*tools, Calculator()))
    sampled = written(
        environment, 0, "call()\n", "calculate(6 * 7)\n", "\n", "", "quiet()\n", "\n", "marks()\n", "a<eos>b\n"
    )
    assert heard(environment, sampled) == ["calculate(6 * 7)", "", "a<eos>b"]
    assert EOS not in sampled.tokens[0, 0][sampled.dictated[0, 0]]


def test_a_tool_that_raises_or_hangs_is_told_to_the_model(tokenizer):
    tools = (readers.FailingTool("raise"), readers.FailingTool("hang"))

    def replies(seconds, *lines):
        pool = VerifierPool(workers=1, seconds=seconds)
        environment = ToolUse(BOOLEAN, tokenizer, VOCABULARY, 120, 1500, verifier=pool, tools=tools)
        answers = [np.array(ids(environment.tokenizer, line)) for line in lines]
        called = environment.call([0] * len(lines), answers, [np.ones(len(answer), bool) for answer in answers])
        return [reply.strip() for reply in environment.answer_texts([np.array(row) for row in called])]

    assert replies(HANGS, "raise(x)\n", "no call\n") == ["raise failed: ConnectionError", ""]
    with pytest.warns(UnreadableAnswers, match="1 of 1 texts could not be read .* it took more than 1 seconds"):
        assert replies(1.0, "no call\n", "hang(x)\n") == ["", "no answer in time"]


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("calculate(7 / 2)", "7/2"),
        ("  calculate(2 * (3 + 4))  ", "14"),
        ("calculate(0.1+0.2)", "3/10"),
        ("calculate(2^10 - 24)", "1000"),
        (r"calculate(\frac{1}{2} + 1 1/2)", "2"),
        ("calculate(-3 - 4)", "-7"),
        ("calculate(cost = 2 * 3.5)", "7"),
        ("calculate(2 * 3 =)", "6"),
        ("calculate(1 / 0)", "division by zero"),
        ("calculate(1 + 2 / (0.5 - 1/2))", "division by zero"),
        ("calculate(0^-1)", "division by zero"),
        ("calculate(9^9^9)", "this is too large, or not rational"),
        ("calculate()", "this is not an expression"),
        ("calculate(2 apples)", "this is not an expression"),
        ("calculated(2)", ""),
        ("I calculate(2)", ""),
        ("search(the Amazon)", "The Amazon carries more water than any other river."),
        ("search(zebra)", "nothing found"),
        ("search()", "nothing found"),
    ],
)
def test_replies(line, reply, texts):
    assert reply_to((Calculator(), Search(texts)), line) == reply


def test_refusals(tokenizer, tmp_path):
    with pytest.raises(ValueError, match=r"holds no texts: give a folder with \*.txt files"):
        Search(str(tmp_path))
    with pytest.raises(ValueError, match="tools must be at least one, each with a name of its own"):
        ToolUse(BOOLEAN, tokenizer, VOCABULARY, verifier=HERE, tools=(Calculator(), Calculator()))
    with pytest.raises(ValueError, match="stop strings would end an answer in the middle of a call: leave out"):
        ToolUse(BOOLEAN, tokenizer, VOCABULARY, 120, 1500, verifier=HERE, stop_strings=(".",))


def test_a_text_in_another_encoding_is_named(tmp_path):
    (tmp_path / "b.txt").write_bytes("Chalet à louer".encode("latin-1"))
    (tmp_path / "a.txt").write_text("\ufeffa town", encoding="utf-8")
    with pytest.raises(ValueError, match=r"b.txt is not UTF-8 \(0xe0 at byte 7\): convert it, as by iconv"):
        Search(str(tmp_path))
    (tmp_path / "b.txt").unlink()
    assert Search(str(tmp_path))("town") == "a town"


def test_tools_are_named_in_a_text(texts):
    assert make_tools(f"calculator, search(folder={texts!r}, characters=20)") == (Calculator(), Search(texts, 20))
    with pytest.raises(ValueError, match="unknown tool 'calculate'; known: calculator, search"):
        make_tools("calculate")
