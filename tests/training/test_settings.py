import dataclasses

import pytest

from ipsrl import objectives
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.tree import Tree
from ipsrl.policies.mlp import MLP
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sources.best_answers import BestAnswers
from ipsrl.rollouts.sources.critics import FirstMistake, Own, RightOrWrong, Shuffled, TrueAnswer
from ipsrl.rollouts.sources.difficulty_filter import DifficultyFilter
from ipsrl.rollouts.sources.diversity_filter import DiversityFilter
from ipsrl.rollouts.sources.dynamic_sampling import DynamicSampling
from ipsrl.rollouts.sources.greedy_answers import GreedyAnswers
from ipsrl.rollouts.sources.one_step_ahead import OneStepAhead
from ipsrl.rollouts.sources.refinements import OffPolicyAnswers, SecondAttempt
from ipsrl.training.settings import BATCH_FILTERS, TrainSettings, make_batch_filters, nested
from tests.sampled_groups import check_run

SETTINGS = TrainSettings(steps=7, prompts_per_step=16, group_size=4)
TREE = Tree()


class OnHost(Bandit):
    verifies_on_host = True


def test_filters_from_text():
    assert make_batch_filters("") == ()
    assert make_batch_filters("dynamic_sampling") == (DynamicSampling(10),)
    filters = make_batch_filters(
        "difficulty_filter(lowest=0.2, width=8), off_policy(answers=3, actor=reference, at_most=0.25)"
    )
    assert filters == (OffPolicyAnswers(3, "reference", 0.25), DifficultyFilter(lowest=0.2, width=8))
    # The memory, and what must be outermost, is outside, in whatever order they are named.
    filters = make_batch_filters("diversity_filter(bucket=5), best_answers(size=20, drawn=3)")
    assert filters == (BestAnswers(20, 3), DiversityFilter(5, 16384))
    assert make_batch_filters("dynamic_sampling, greedy_answers") == (GreedyAnswers(), DynamicSampling())
    (refined,) = make_batch_filters("off_policy(refine=second_attempt)")
    assert refined == OffPolicyAnswers(refine=SecondAttempt())
    for text, critic in {
        "first_mistake": FirstMistake(),
        "right_or_wrong": RightOrWrong(),
        "true_answer": TrueAnswer(),
        "own": Own(),
        "shuffled(first_mistake)": Shuffled(FirstMistake()),
        "shuffled(critic=own)": Shuffled(Own()),
    }.items():
        (refined,) = make_batch_filters(f"off_policy(answers=8, refine=second_attempt(critic={text}))")
        assert refined == OffPolicyAnswers(8, refine=SecondAttempt(critic))


def test_a_config_names_each_wrapper():
    """Folders of earlier runs do so, and are resumed only by equal settings."""
    wrappers = (*make_batch_filters("best_answers(drawn=2, size=4)"), OneStepAhead())
    config = dataclasses.replace(SETTINGS, wrappers=wrappers).as_config()
    assert config["best_answers"] == {"inner": None, "size": 4, "drawn": 2}
    assert (config["dynamic_sampling"], config["async_rollouts"], config["steps"]) == (None, True, 7)
    assert "wrappers" not in config


def test_a_config_tells_which_wrapper_is_around_which():
    one = dataclasses.replace(SETTINGS, wrappers=(DynamicSampling(2), OffPolicyAnswers(2)))
    other = dataclasses.replace(SETTINGS, wrappers=(OffPolicyAnswers(2), DynamicSampling(2)))
    twice = dataclasses.replace(SETTINGS, wrappers=(DynamicSampling(3), DynamicSampling(2)))
    assert one.as_config() != other.as_config()
    assert twice.as_config() != dataclasses.replace(SETTINGS, wrappers=(DynamicSampling(2),)).as_config()


def test_the_order_of_wrappers():
    """The results of `--filters` depend on it, and so do the folders of earlier runs."""
    in_order = (
        "greedy_answers, best_answers, replayed_modes, replayed_groups, dynamic_sampling, replayed_answers, "
        "diversity_filter, off_policy, difficulty_filter"
    )
    assert list(BATCH_FILTERS) == in_order.split(", ")
    assert nested((OneStepAhead(), OffPolicyAnswers(2), DynamicSampling())) == (
        DynamicSampling(),
        OffPolicyAnswers(2),
        OneStepAhead(),
    )
    assert not SETTINGS.as_config()["async_rollouts"]


def check(objective="grpo", environment=TREE, **changes):
    policy = Tabular(environment.num_observations, environment.vocabulary_size)
    settings = dataclasses.replace(SETTINGS, **changes)
    check_run(environment, policy, objectives.make(objective), settings)


AHEAD = {"wrappers": (OneStepAhead(),), "environment": OnHost((1.0, 0.0))}
FROM_REFERENCE = OffPolicyAnswers(5, "reference")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (AHEAD | {"objective": "rover"}, "no importance ratio to correct that: .* such as grpo or ips_grpo$"),
        (AHEAD | {"objective": "reinforce"}, "^OneStepAhead gives groups of other policies .* give it a correction"),
        (AHEAD | {"objective": "reinforce(correction=sequence_mask(0.1))"}, "or give it a correction, such as"),
        ({"refresh_reference_every": 3}, "^refresh_reference_every is 3, but this run has no reference policy: "),
        ({"refresh_reference_every": 3, "wrappers": (OffPolicyAnswers(2),)}, "but this run has no reference policy"),
        (
            {"objective": "critique_grpo"},
            r"^the objective needs off-policy answers in its groups: give TrainSettings\(wrappers=\(OffPolicyAnswers\(8"
            r'\),\)\), the flag --filters="off_policy\(answers=8\)", or a source that is wrapped in OffPolicyAnswers',
        ),
        (
            {"objective": "remax"},
            r"^the objective needs the rewards of greedy answers: give TrainSettings\(wrappers=\(GreedyAnswers\(\),",
        ),
        (
            {"objective": "lp_reg", "wrappers": (FROM_REFERENCE,)},
            "most likely tokens, which answers that it did not sample do not have",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        AHEAD | {"wrappers": (OffPolicyAnswers(2), OneStepAhead())},
        {"refresh_reference_every": 3, "wrappers": (FROM_REFERENCE,)},
        {"refresh_reference_every": 3, "objective": "grpo(kl=0.1)"},
        {"objective": "critique_grpo", "wrappers": (FROM_REFERENCE,)},
        {"objective": "lp_reg", "wrappers": (OffPolicyAnswers(5),)},
        {"objective": "remax", "wrappers": (GreedyAnswers(),), "group_size": 1},
    ],
)
def test_what_can_be_trained_is_not(arguments):
    check(**arguments)


def test_what_cannot_fit_is_refused_from_arithmetic():
    settings = dataclasses.replace(SETTINGS, group_size=2**31 - 1)
    message = r"the answers of a step take .*B or more, but there are .*B: lower group_size"
    with pytest.raises(ValueError, match=message):
        check_run(Bandit((1.0, 0.0)), Tabular(1, 2), objectives.make("grpo"), settings)


def test_a_model_that_cannot_fit_is_refused_from_arithmetic():
    bandit = Bandit((1.0,) * 10)
    policy = MLP(lambda state: state, 1, 10, hidden=(10**6, 10**7))
    with pytest.raises(ValueError, match="parameters, gradients and the optimiser's state take 120 TB or more"):
        check_run(bandit, policy, objectives.make("grpo"), SETTINGS)
