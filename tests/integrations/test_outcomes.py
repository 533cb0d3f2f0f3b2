from fractions import Fraction

import pytest

from ipsrl.integrations.outcomes import EmbeddingClusters, exact_text, expression, last_number, text_of, tool_calls

ASSISTANT = [{"role": "assistant", "content": "The answer is 42."}]
CALL = {"function": {"name": "search", "arguments": {"query": "x", "limit": 3}}}


def test_texts_and_messages_are_read_alike():
    assert exact_text("?", " 42 ") == exact_text("?", [{"role": "assistant", "content": "42"}]) == "42"
    assert text_of([{"role": "assistant", "content": None}]) == ""


@pytest.mark.parametrize(("text", "number"), [("so it is 1/2", Fraction(1, 2)), (ASSISTANT, 42), ("no idea", None)])
def test_the_last_number_is_exact(text, number):
    assert last_number("?", text) == number


def test_expressions_are_equal_up_to_order_and_grouping():
    assert expression("?", "(1 + 2) * 3") == expression("?", "3 * (2 + 1)") != expression("?", "1 + 2 * 3")
    assert expression("?", "none") is None


def test_tool_calls_are_told_apart_by_name_and_arguments():
    other_order = {"function": {"name": "search", "arguments": {"limit": 3, "query": "x"}}}
    found = [tool_calls("?", [{"role": "assistant", "tool_calls": [call]}]) for call in (CALL, other_order)]
    assert found[0] == found[1] is not None
    assert tool_calls("?", ASSISTANT) is None
    assert tool_calls("?", "search(x)") is None


def test_clusters_are_of_a_prompt_and_stay():
    vectors = {"a": [1, 0], "a2": [1, 0.1], "b": [0, 1], "zero": [0, 0]}
    clusters = EmbeddingClusters(vectors.__getitem__, threshold=0.9)
    assert [clusters("one", text) for text in ("a", "b", "a2", "zero")] == [0, 1, 0, None]
    assert clusters("other", "b") == 0
    assert clusters("one", "b") == 1
