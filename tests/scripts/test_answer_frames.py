import collections

import pytest

import answer_sentences
from ipsrl.environments.reading.numeric_answers import read_number
from scripts import answer_frames


@pytest.mark.parametrize(("parts", "missed_share"), [("first", 0.02), ("second", 0.02), ("sentences", 0.1)])
def test_our_reader_reads_right_frames_and_no_wrong_ones(parts, missed_share):
    tried = [*answer_frames.frames(parts)]
    failed = answer_frames.measured(read_number, tried)
    counts = collections.Counter(frame.right for frame in tried)
    missed = [frame.text for (_, right), found in failed.items() if right for frame in found]
    assert len(missed) <= missed_share * counts[True], missed
    assert [frame.text for (_, right), found in failed.items() if not right for frame in found] == []
    assert min(counts.values()) >= (answer_frames.FRAMES if parts == "sentences" else 1000)


def test_no_wrong_sentence_is_read_as_its_number_and_most_right_ones_are():
    def is_five(sentence):
        return read_number(sentence.replace("@a", "5").replace("@o", "9").replace("@l", "2")) == 5

    assert [text for text in answer_sentences.WRONG_SENTENCES if is_five(text)] == []
    missed = [text for text in answer_sentences.RIGHT_SENTENCES if not is_five(text)]
    assert len(missed) <= 0.1 * len(answer_sentences.RIGHT_SENTENCES), missed


def test_halves_share_no_part_but_what_all_have():
    first, second = ({frame.text for frame in answer_frames.frames(half)} for half in answer_frames.HALVES)
    assert not first & second
    assert {frame.text for frame in answer_frames.frames("first")} == first


def test_a_reader_that_takes_any_number_fails_at_all_wrong_frames():
    tried = [*answer_frames.frames("first")]
    numbers = {frame.text: frame.number for frame in tried}
    failed = answer_frames.measured(numbers.get, tried)
    assert all(len(found) == (0 if right else answer_frames.FRAMES) for (_, right), found in failed.items())


def test_the_table(monkeypatch, capsys):
    monkeypatch.setattr(answer_frames, "FRAMES", 2)
    answer_frames.main(["--parser=ours", "--parts=first", "--show"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "first half"
    assert lines[1].split() == ["frames", "form", "number", "read", "by", "ours"]
    assert sum(line.split()[1] == "all" for line in lines[2:18]) == 2
