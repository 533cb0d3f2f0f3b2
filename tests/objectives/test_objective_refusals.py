"""What objectives refuse: arguments out of range, arguments that belong to others, and runs that cannot be."""

import contextlib
import re

import numpy as np
import pytest

from ipsrl.objectives import make
from ipsrl.objectives.catalog.arguments import KL
from ipsrl.objectives.catalog.balance import LogReward
from ipsrl.objectives.catalog.entropy import AdaptiveEntropyBonus, EntropyFloor
from ipsrl.objectives.catalog.expected_return import rloo
from ipsrl.objectives.catalog.regularised import ModeAnchor
from ipsrl.objectives.catalog.strata import PreferredMode
from ipsrl.objectives.penalties.entropy_bonus import EntropyBonus
from ipsrl.objectives.penalties.kullback_leibler import AdaptiveKullbackLeibler, KullbackLeibler
from ipsrl.objectives.shaping.inverse_scaling import InverseFrequency, InverseProbabilityLearned
from ipsrl.objectives.shaping.reward_costs import AdaptiveDivergenceCost
from ipsrl.objectives.surrogates.clip_variants import TruncatedRatio
from ipsrl.objectives.surrogates.ratio import ClippedSequenceRatio
from ipsrl.structures import Sizes
from tests.objectives.groups import sizes


@contextlib.contextmanager
def refused(message):
    """In one sentence."""
    with pytest.raises(ValueError, match=message) as error:
        yield
    assert "\n" not in str(error.value)
    assert ". " not in str(error.value)


ARGUMENTS = {
    # Ranges.
    "{argument} is {value}, it must be positive and finite": [
        "ips_grpo(probability=exact(log_ratio_cap=0))", "bapo(target=0.0)", "dppo(threshold=0.0)", "aer(tau=0.0)",
        "aer(eta=-1.0)", "skywork_entropy(target=0.0)", "skywork_entropy(step=0.0)",
        "mara(beta=0.0)", "dph_rl(ratio_limit=0.0)", "tsallis(q=0.0)", "dpo(beta=0.0)", "rpo(beta=-0.5)",
        "trajectory_balance(reward_exponent=0)", "flowrl(beta=0)", "reinvent(sigma=0)",
    ],
    "{argument} is {value}, it must be positive and finite, or None": [
        "dagrpo(anchors=True, gamma=0.0)", "critique_grpo(gamma=-1.0)",
    ],
    "{argument} is {value}, it must be finite and not negative": [
        "progrpo(alpha=-0.1)", "ips_grpo(alpha=-1.0)", "ce_gppo(negative_scale=-0.5)", "f_grpo(gamma=-1.0)",
        "tsallis(beta=-0.1)", "f_divergence(beta=-0.1)", "hgpo(alpha=-1.0)", "hicra(alpha=-0.2)", "degrpo(alpha=-0.2)",
        "dagrpo(tau=-0.1)",
    ],
    "{argument} is {value}, it must lie between 0 and 1": [
        "ips_grpo(floor=2.0)", "ips_grpo(probability=ema, floor=1.5)", "ar_lopti(alpha=1.5)", "darling(floor=1.5)",
        "unlikeliness(beta=1.5)", "ucpo(tau=-0.1)", "placebo(floor=2.0)",
    ],
    "{argument} is {value}, it must lie strictly between 0 and 1": [
        "ar_lopti(threshold=1.0)", "lp_reg(kappa=1.0)", "lp_reg(rho=0.0)",
        "f_divergence(divergence=alpha, alpha=1.0)", "f_dpo(divergence=alpha, alpha=1.0)",
    ],
    "{argument} is {value}, it must lie above 0 and not above 1": [
        "progrpo(low_fraction=0)", "ips_grpo(probability=ema(rate=0.0))", "reinforce_plus_plus(gamma=0.0)",
        "clip_cov(fraction=0.0)", "kl_cov(fraction=1.5)", "forking_tokens(fraction=0.0)",
        "subtrajectory_balance(decay=0)",
    ],
    "{argument} is {value}, it must be at least 0 and below 1": [
        "ips_grpo(probability=exact(decay=1.0))",
        "backward_correction(false_negative_rate=-0.1)", "backward_correction(false_positive_rate=1.0)",
        "forward_correction(false_negative_rate=1.0)",
    ],
    "{argument} is {value}, it must be at least 1": [
        "lp_reg(likeliest=0)", "dppo(ratio_cap=0.5)", "entrocraft(steps=0)",
    ],
    "dual_clip is {value}, it must be finite and above 1, or None": [
        "grpo(dual_clip=1.0)", "gppo(dual_clip=1.0)", "bapo(dual_clip=0.5)",
    ],
    "effective_share is 1.0, it must be at least 0 and below 1": ["ips_reinforce(alpha=effective(1.0))"],
    "pseudo_count is {value}, it must be finite and above -1": ["ips_grpo(probability=counts(pseudo_count=-1.0))"],
    "low must lie in (0, 1], high above 0": [
        "grpo(clip=(1.5, 0.2))", "grpo(clip=(0.0, 0.2))", "grpo(clip=(0.2, 0.0))", "rloo(clip=(0.0, 0.2))",
        "gspo(clip=(0.0003, 0.0))", "gppo(clip=(0.0, 0.28))", "critique_grpo(clip=(0.0, 0.2))",
        "critique_grpo(clip=(0.2, 0.0))",
    ],
    "low must lie in [0, 1], high from 0 up": ["flowrl(clip=(1.5, 0.2))", "flowrl(clip=(0.2, -0.1))"],
    # Ranges of what is named by more than the argument.
    "the coefficient of the KL penalty is {value}, it must be positive and finite": [
        "grpo(kl=-0.04)", "rloo(kl=-0.1)", "reinforce_plus_plus(kl=-0.1)",
    ],
    "the target of the KL penalty is {value}, it must be positive and finite": [
        "grpo(kl=k3(0.1, target=0.0))", "grpo(kl=k3(0.1, place=reward, target=-1.0))",
    ],
    "the cap on advantages is -10, it must be positive": ["ips_grpo(probability=exact(advantage_cap=-10))"],
    "the overlong punishment is -1.0, it must be finite and not negative": ["dapo(overlong=-1.0)"],
    "the overlong limit, in tokens, is 0, it must be at least 1": ["dapo(overlong=paper(limit=0))"],
    "the overlong cache, in tokens, is 0, it must be at least 1": ["dapo(overlong=paper(cache=0))"],
    "the temperature of negative advantages is 0.0, it must be positive": ["sapo(temperature_negative=0.0)"],
    "the coefficient of Lp-Reg is 0.0, it must be positive and finite": ["lp_reg(coefficient=0.0)"],
    "the bound on the importance ratio is 1.0, it must be finite and above 1": ["lp_reg(ratio_bound=1.0)"],
    "the coefficient of KL-Cov is 0.0, it must be positive and finite": ["kl_cov(coefficient=0.0)"],
    "rho, an accuracy, is 0.0, it must lie above 0 and not above 1": ["aer(rho=0.0)"],
    "valid, the number of valid outcomes, is 0, it must be at least 1, or None": ["gapo(valid=0)"],
    "k, the size of a set, is 0, it must be at least 1": ["pass_at_k(k=0)"],
    "set_size, the answers of a set, is 1, it must be at least 2": ["polychromic(set_size=1)"],
    "eta, the weight of the divergence, is -1.0, it must be finite and not negative": ["dph_rl(eta=-1.0)"],
    "mastered_at, a share of correct answers, is 0.0, it must lie above 0": ["dph_rl(mastered_at=0.0)"],
    "alpha, the weight of the strata, is 1.1, it must lie between 0 and 1": ["stratified_grpo(alpha=1.1)"],
    "width, the tokens of a stratum, is 0, it must be at least 1": ["stratified_grpo(width=0)"],
    "the learning rate of log Z or the flows is {value}, it must be positive": [
        "trajectory_balance(learning_rate=0.0)", "detailed_balance(learning_rate=-1.0)",
        "subtrajectory_balance(learning_rate=0)", "flowrl(learning_rate=0)",
    ],
    "eta is -0.1, it must not be negative": ["rpo(eta=-0.1)"],
    "alpha_max is 0.0, it must be positive and finite": ["aer(alpha=(0.0, 0.0))"],
    "alpha starts at 0.1, it must lie between 0 and 0.02": ["aer(alpha=(0.1, 0.02))"],
    # Arguments that others make meaningless.
    "floor=0.1 belongs to probability=counts, offset or ema": ["ips_grpo(probability=exact, floor=0.1)"],
    "probability 'counts' has no argument 'decay'; known: pseudo_count": ["ips_grpo(probability=counts(decay=0.9))"],
    "probability 'offset' has no argument 'pseudo_count'": ["ips_grpo(probability=offset(pseudo_count=1.0))"],
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
        "f_divergence(divergence=forward_kl, alpha=0.3)", "f_dpo(alpha=0.3)",
    ],
    "gamma belongs to anchors=True: leave it out": ["dagrpo(gamma=0.2)"],
    "learning_rate=0.5 belongs to partition=table: leave it out": ["flowrl(partition=group, learning_rate=0.5)"],
    "which stratum=first_token does not use": ["stratified_grpo(stratum=first_token, width=2)"],
    "does not clip: omit clip=(0.9, 0.2)": ["flowrl(released_weight=True, clip=(0.9, 0.2))"],
    "kl has the coefficient 0, so there is no divergence": [
        "grpo(kl=k3(0.0, target=6.0))", "grpo(kl=k3(0.0, place=reward))", "grpo(kl=k2(0.0))",
    ],
    # Arguments that do not go together, or are none of the choices.
    "aggregation=token_mean would weigh answers by their length": ["rloo(aggregation=token_mean)"],
    "cache of 5 tokens is longer than the limit of 4": ["dapo(overlong=paper(limit=4, cache=5))"],
    "0 <= floor < cap with a finite cap": ["cispo(cap=0.0)"],
    "clipped to [6.0, 5.0]": ["cispo(floor=6.0)"],
    "they are ratios, below and above 1": ["bapo(low=(0.6, 1.0, 0.02))"],
    "must not shrink": ["bapo(high=(3.5, 3.0, 0.05))"],
    "both must be positive": ["bapo(low=(0.6, 0.9, 0.0))"],
    "candidates lie between 5.0 and 5.0, they need 0 <= lowest < highest": ["clip_cov(lowest=5.0)"],
    "the band is (0.8, 0.7)": ["entrocraft(low_start=0.8)"],
    "the band is (-0.1, 0.2)": ["entrocraft(low_end=-0.1)"],
    "0.7 and false_negative_rate 0.3 leave no signal: ": ["backward_correction(false_positive_rate=0.7)"],
    "'1e+300' is no number that is 0 or of a size from 1e-37 to 1e+38": ["rpo(form=cumulative, eta=1e300)"],
    "one of planning_mask, high_entropy, random, first": ["hicra(planned=last)"],
    "one of reverse_kl, forward_kl, jensen_shannon, alpha": ["f_dpo(divergence=tsallis)"],
    "one of cumulative, average": ["rpo(form=both)"],
}  # fmt: skip
"""What the message says, with the last argument of each text and its value, -> texts."""


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


NUMBERS = [
    (InverseFrequency, {"alpha": np.nan}, "is nan, it must be a finite number"),
    (InverseProbabilityLearned, {"prior": 0}, "prior is 0, it must be positive and finite"),
    (KullbackLeibler, {"coefficient": np.inf}, "is inf, it must be a finite number"),
    (EntropyBonus, {"coefficient": np.nan}, "is nan, it must be a finite number"),
    (AdaptiveKullbackLeibler, {"coefficient": 0.1, "gain": 0.0}, "the gain of the KL penalty is 0.0, it must lie"),
    (AdaptiveDivergenceCost, {"coefficient": 0.1, "gain": 1.5}, "the gain of the KL penalty is 1.5, it must lie"),
    (EntropyFloor, {"coefficient": 2.0}, "the coefficient at the start is 2.0, it must lie between 0 and 1"),
    (AdaptiveEntropyBonus, {"tau": np.nan}, "tau is nan, it must be a finite number"),
    (PreferredMode, {"delta": np.nan}, "delta is nan, it must be a finite number"),
    (ModeAnchor, {"beta": 0.1, "threshold": np.inf}, "threshold is inf, it must be a finite number or None$"),
    (LogReward, {"floor": -np.inf}, "log_reward_floor is -inf, it must be a finite number"),
    (TruncatedRatio, {"floor": False}, "floor is False, it must be a finite number"),
    (ClippedSequenceRatio, {"low": 0.2, "high": 0.2, "exponent": "max"}, "exponent is 'max', it must be one of mean"),
]


@pytest.mark.parametrize(("kind", "arguments", "message"), NUMBERS, ids=lambda value: getattr(value, "__name__", ""))
def test_numbers_out_of_range_are_refused(kind, arguments, message):
    """Those that no text reaches, or that a text cannot say."""
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


FEW = Sizes(2, num_outcomes=3)
BACKWARD = ("log_backward", "step_log_backward", "next_states")
RUNS = [
    ("reinforce", (), 1, FEW, None),
    ("reinforce_plus_plus", (), 1, FEW, None),
    ("grpo", (), 2, FEW, None),
    ("progrpo(reference=correct)", (), 2, FEW, None),
    ("dagrpo", (), 2, FEW, None),
    ("ips_reinforce(probability=exact)", ("log_backward",), 1, FEW, None),
    ("detailed_balance", ("step_log_backward",), 1, sizes(2), None),
    ("grpo", (), 1, FEW, "group_size is 1, it must be at least 2"),
    ("ips_reinforce", (), 1, FEW, "group_size is 1, it must be at least 2"),
    ("reinforce_plus_plus_baseline", (), 1, FEW, "group_size is 1, it must be at least 2"),
    ("dpo", ("reference_log_probs",), 1, FEW, "group_size is 1, it must be at least 2"),
    ("pass_at_k(k=4)", (), 4, FEW, "group_size is 4, it must be at least 5"),
    ("polychromic(set_size=3)", (), 3, FEW, "group_size is 3, it must be at least 4"),
    ("ips_grpo(probability=exact)", (), 8, FEW, "needs log_backward, .*; they provide no optional field$"),
    ("progrpo", ("log_backward",), 8, FEW, "needs prompt_log_probs, .*; they provide log_backward$"),
    ("progrpo(reference=prompt(question))", (), 8, FEW, "needs prompt_log_probs, question_mask, "),
    ("grpo(kl=0.04)", (), 8, FEW, "needs reference_log_probs, "),
    ("mara", (), 4, FEW, "needs reference_log_probs, "),
    ("dph_rl", (), 4, FEW, "needs reference_log_probs, "),
    ("f_divergence", (), 4, FEW, "needs reference_log_probs, "),
    ("placebo", (), 4, FEW, "needs keys, "),
    ("clip_cov", (), 4, FEW, "needs keys, "),
    ("critique_grpo", (), 8, FEW, "needs off_policy, "),
    ("dagrpo(anchors=True)", (), 8, FEW, "needs off_policy, "),
    ("mode_replay", (), 8, FEW, "needs off_policy, "),
    ("hicra", (), 8, FEW, "needs planning_mask, "),
    ("hicra(planned=high_entropy)", (), 8, FEW, "needs planning_mask, "),
    ("hicra(planned=random)", (), 8, FEW, "needs keys, planning_mask, "),
    ("hicra(planned=first)", (), 8, FEW, None),
    ("stratified_grpo", (), 8, FEW, "needs planning_mask, "),
    ("stratified_grpo(stratum=length)", (), 8, FEW, None),
    ("stratified_grpo(stratum=first_token)", (), 8, FEW, None),
    ("gdpo", (), 8, FEW, "needs reward_parts, "),
    ("remax", (), 8, FEW, "needs greedy_rewards, "),
    ("rep_exp", (), 8, FEW, "needs answer_features, "),
    ("rep_exp(features=outcome)", (), 1, FEW, "group_size is 1, it must be at least 2"),
    ("remax", ("greedy_rewards",), 1, FEW, None),
    ("gdpo", ("reward_parts",), 1, FEW, "group_size is 1, it must be at least 2"),
    ("vector_po(k=3)", ("reward_parts",), 3, FEW, "group_size is 3, it must be at least 4"),
    ("rover", (), 8, FEW, "needs proximal_log_probs, proximal_mean_log_probs, "),
    ("lp_reg", (), 8, FEW, "needs top_log_probs, "),
    ("dppo", (), 8, FEW, None),
    ("dppo(divergence=top_tv)", (), 8, FEW, "needs top_log_probs, "),
    ("detailed_balance", ("step_log_backward",), 1, FEW, "this environment does not number states"),
    ("subtrajectory_balance", ("step_log_backward",), 1, FEW, "this environment does not number states"),
    ("ips_grpo(probability=ema)", (), 4, Sizes(2, num_states=3, vocabulary_size=4), "a table of outcomes"),
    ("ips_grpo(probability=exact(backward=learned))", BACKWARD, 4, Sizes(2, 3, None, 4), "a table of states"),
    ("ips_grpo(probability=exact(backward=learned))", BACKWARD, 4, Sizes(2, 3, 4, None), "a table of states"),
]


@pytest.mark.parametrize(("text", "available", "group_size", "sizes", "message"), RUNS)
def test_impossible_runs_are_refused_in_one_sentence(text, available, group_size, sizes, message):
    """And possible ones are not."""
    with contextlib.nullcontext() if message is None else refused(message):
        make(text).check(frozenset(available), group_size, sizes)
