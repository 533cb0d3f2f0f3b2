"""Refusals of objectives: arguments that belong to others, and impossible runs.

Ranges and choices of single arguments are those of `tests/checking/allowed.py`.
"""

import contextlib
import re

import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.arguments import KL
from ipsrl.objectives.catalog.expected_return import rloo
from ipsrl.structures import Sizes
from tests.objectives.groups import sizes


@contextlib.contextmanager
def refused(message):
    """Passes if the block raises ValueError with this message, in one sentence."""
    with pytest.raises(ValueError, match=message) as error:
        yield
    assert "\n" not in str(error.value)
    assert ". " not in str(error.value)


ARGUMENTS = {
    # Arguments that others make meaningless.
    "floor=0.1 belongs to probability=counts, offset or ema": ["ips_grpo(probability=exact, floor=0.1)"],
    "probability 'counts' has no argument 'decay'; known: pseudo_count": ["ips_grpo(probability=counts(decay=0.9))"],
    "unknown reference 'correct'; known: prompt": ["progrpo(reference=correct(lowest))"],
    "unknown kl 'k4'; known: k1, k2, k3, corrected_k3": ["grpo(kl=k4(0.1))"],
    "kl=k3(0.1, 6, loss, 3) has too many arguments": ["grpo(kl=k3(0.1, 6, loss, 3))"],
    "kl 'k3' needs a value for coefficient": ["grpo(kl=k3(target=6))"],
    "unknown entropy 'k3'; this argument has no arguments of its own": ["grpo(entropy=k3(0.1))"],
    "clip=(0.1, 0.2, 0.3) is not a number or a tuple of 2 times a number": ["grpo(clip=(0.1, 0.2, 0.3))"],
    "this objective has its divergence in the loss: leave out place=reward": ["gspo(kl=k3(0.1, place=reward))"],
    "this objective does not adapt the coefficient of its divergence": ["rloo(kl=k1(0.1, target=6.0))"],
    "threshold=0.3 belongs to lopti=True: leave it out": ["ar_lopti(lopti=False, threshold=0.3)"],
    "floor=0.9 belongs to verifiable=True: leave it out": ["darling(verifiable=False, floor=0.9)"],
    "alpha=0.3 belongs to divergence=alpha: leave it out": [
        "f_divergence(divergence=forward_kl, alpha=0.3)",
        "f_dpo(alpha=0.3)",
    ],
    "gamma belongs to anchors=True: leave it out": ["dagrpo(gamma=0.2)"],
    "learning_rate=0.5 belongs to partition=table: leave it out": ["flowrl(partition=group, learning_rate=0.5)"],
    "which stratum=first_token does not use": ["stratified_grpo(stratum=first_token, width=2)"],
    "does not clip: omit clip=(0.9, 0.2)": ["flowrl(released_weight=True, clip=(0.9, 0.2))"],
    "kl has the coefficient 0, so there is no divergence": [
        "grpo(kl=k3(0.0, target=6.0))",
        "grpo(kl=k3(0.0, place=reward))",
        "grpo(kl=k2(0.0))",
    ],
    # Arguments that do not go together, or are none of the choices.
    "aggregation=token_mean would weigh answers by their length": ["rloo(aggregation=token_mean)"],
    "cache of 5 tokens is longer than the limit of 4": ["dapo(overlong=paper(limit=4, cache=5))"],
    "0.7 and false_negative_rate 0.3 leave no signal: ": ["backward_correction(false_positive_rate=0.7)"],
    "'1e+300' is no number that is 0 or of a size from 1e-37 to 1e+38": ["rpo(form=cumulative, eta=1e300)"],
}
"""Part of the message, with the name and value of the last argument of a text -> texts."""


def test_what_corrects_a_gradient_cannot_be_in_the_reward():
    with refused("corrected_k3 corrects a gradient, but rewards have no gradient: use k1, k2 or k3"):
        rloo(kl=KL(0.1, estimator="corrected_k3"))


@pytest.mark.parametrize(
    ("text", "message"), [(text, message) for message, texts in ARGUMENTS.items() for text in texts]
)
def test_bad_arguments_are_refused_in_one_sentence(text, message):
    argument, value = re.search(r"(\w+)=([^=]+?)\)+$", text).groups()
    with refused(re.escape(message.format(argument=argument, value=value))):
        make(text)


FEW = Sizes(2, num_outcomes=3)
BACKWARD = ("log_backward", "step_log_backward", "next_states")
RUNS = [
    ("reinforce", (), 1, FEW, None),
    ("grpo", (), 2, FEW, None),
    ("ips_reinforce(probability=exact)", ("log_backward",), 1, FEW, None),
    ("detailed_balance", ("step_log_backward",), 1, sizes(2), None),
    ("grpo", (), 1, FEW, "group_size is 1, it must be at least 2"),
    ("pass_at_k(k=4)", (), 4, FEW, "group_size is 4, it must be at least 5"),
    ("ips_grpo(probability=exact)", (), 8, FEW, "needs log_backward, of a backward policy, .* such as hypergrid"),
    ("detailed_balance", ("next_states",), 1, FEW, "needs log_backward, of a backward policy"),
    ("ips_grpo(probability=exact(backward=learned))", BACKWARD[:2], 4, FEW, "needs log_backward, of a backward"),
    ("progrpo", ("log_backward",), 8, FEW, "needs prompt_log_probs, how likely .*: take a transformer"),
    ("hicra", (), 8, FEW, "needs planning_mask, .*; they provide no optional field$"),
    ("hicra", ("log_backward",), 8, FEW, "needs planning_mask, .*; they provide log_backward$"),
    ("progrpo(reference=prompt(question))", ("prompt_log_probs",), 8, FEW, "needs question_mask, which this"),
    ("detailed_balance", ("step_log_backward",), 1, FEW, "this environment does not number states"),
    ("ips_grpo(probability=ema)", (), 4, Sizes(2, num_states=3, vocabulary_size=4), "a table of outcomes"),
    ("outcome_exploration", (), 4, Sizes(3), None),
    ("outcome_exploration(bonus=ucb)", (), 4, Sizes(3), "this environment does not number outcomes"),
    ("ips_grpo(probability=exact(backward=learned))", BACKWARD, 4, Sizes(2, 3, None, 4), "a table of states"),
    ("ips_grpo(probability=exact(backward=learned))", BACKWARD, 4, Sizes(2, 3, 4, None), "a table of states"),
]


@pytest.mark.parametrize(("text", "available", "group_size", "sizes", "message"), RUNS)
def test_impossible_runs_are_refused_in_one_sentence(text, available, group_size, sizes, message):
    """Runs without a message are possible, and are not refused."""
    with contextlib.nullcontext() if message is None else refused(message):
        make(text).check(frozenset(available), group_size, sizes)
