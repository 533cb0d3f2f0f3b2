import pytest

from ipsrl.environments.agents.knowledge_graph import ENTITIES, RELATIONS
from ipsrl.environments.agents.search_questions import SearchQuestions, read_search
from ipsrl.environments.agents.tools import Search

TASK = SearchQuestions(entities=6, relations=2, hops=(1, 2), problems=8, worth=(0.25, 0.5, 1.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("facts") / "new"
    TASK.write_texts(folder)
    return str(folder)


def asked(prompt):
    """The name and the words of a question, from the first line of its text."""
    line = TASK.prompt_text(prompt).partition("?")[0].removeprefix("Who is the ")
    *words, name = line.split(" of ")
    return name, [word.removeprefix("the ") for word in words][::-1]


def searched(folder, prompt):
    """The lines of an answer that follows the chain, and what they find."""
    name, words = asked(prompt)
    lines = []
    for word in words:
        lines.append((f"search({word} of {name})", Search(folder)(f"{word} of {name}")))
        name = lines[-1][1].removesuffix(".").rpartition(" is ")[2]
    return lines, name


@pytest.mark.parametrize("task", [TASK, SearchQuestions(entities=26, relations=6)], ids=["small", "large"])
def test_a_search_finds_every_fact_by_every_word(task, tmp_path):
    task.write_texts(tmp_path)
    search = Search(str(tmp_path))
    for relation in range(task.relations):
        for entity, found in enumerate(task.heads[relation]):
            for words, subject, object in ((0, entity, found), (1, found, entity)):
                for word in RELATIONS[relation][words][: task.synonyms]:
                    reply = search(f"{word} of {ENTITIES[subject]}")
                    assert reply.startswith(f"{ENTITIES[subject]}: the ")
                    assert reply.endswith(f" of {ENTITIES[subject]} is {ENTITIES[object]}.")


def test_answers_that_follow_what_is_found_are_right(folder):
    for prompt in range(8):
        lines, name = searched(folder, prompt)
        text = "\n".join([*(line for line, _ in lines), f"<answer> {name} </answer>"])
        outcomes = TASK.verify_texts(
            [prompt], [[text, f"<answer> {name.lower()}. </answer>", "no", "<answer> Zoe </answer>"]]
        )
        assert outcomes.rewards.tolist() == [[[0.5, 1.0][len(lines) - 1], 0.25, 0.0, 0.0]]
        assert outcomes.outcome_id.tolist() == [[ENTITIES.index(name)] * 2 + [-1, -1]]


def test_a_behaviour_is_what_was_searched_whatever_the_words():
    task = SearchQuestions(entities=6, relations=2, hops=(1, 2), problems=8, outcome="behaviour")
    said = ["search(teacher of Ada)", "search( the Tutor of ada )", "search(teacher of Boris)", "search(Ada)", ""]
    texts = [f"{line}\n<answer> Clara </answer>" for line in said]
    ids = task.verify_texts([0], [texts]).outcome_id[0].tolist()
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == ids[4] not in ids[:3]
    assert read_search(texts[0]) == ("Clara", ("teacher of Ada",))
    assert task.behaviour(("doctor of Boris", "client of Ada", "teacher of Ada and Boris")) == ((1, 1),)


def test_only_answers_of_one_worth_can_be_listed():
    with pytest.raises(ValueError, match="cannot be listed with their worth"):
        TASK.outcome_space(0)
    assert SearchQuestions().outcome_space(0).rewards.sum() == 1
