"""Decoding rules keep what those of transformers keep, and a policy by them samples nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.bandit import Bandit
from ipsrl.policies.decoding import Decoded, Decoding
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sampler import sample_groups

PROBS = np.array([0.4, 0.3, 0.15, 0.1, 0.05])


def kept(rules, probs=PROBS):
    logits = jnp.log(jnp.asarray(probs)) + 3.0
    found = np.asarray(rules(logits))
    np.testing.assert_array_equal(found[found > -np.inf], np.asarray(logits)[found > -np.inf])
    return np.flatnonzero(found > -np.inf).tolist()


@pytest.mark.parametrize(
    ("rules", "actions"),
    [
        ("top_k=2", [0, 1]),
        ("top_k=99", [0, 1, 2, 3, 4]),
        ("top_p=0.69", [0, 1]),
        ("top_p=0.71", [0, 1, 2]),
        ("top_p=0.01", [0]),
        ("min_p=0.3", [0, 1, 2]),
        ("min_p=0.9", [0]),
        # 0.4 and 0.3 of 0.7 are 0.57 and 0.43.
        ("top_k=2, top_p=0.5", [0]),
        # At temperature 2 the first two have 0.56 together, at 0.5 the first has 0.58.
        ("temperature=2, top_p=0.6", [0, 1, 2]),
        ("temperature=0.5, top_p=0.5", [0]),
    ],
)
def test_what_is_kept(rules, actions):
    assert kept(Decoding.read(rules)) == actions


def test_equal_probabilities_are_kept_together():
    assert kept(Decoding.read("top_k=1"), [0.3, 0.3, 0.4 - 1e-3, 1e-3]) == [2]
    assert kept(Decoding.read("top_k=2"), [0.3, 0.3, 0.4 - 1e-3, 1e-3]) == [0, 1, 2]
    assert kept(Decoding.read("top_p=0.5"), [0.25] * 4) == [0, 1, 2, 3]


def test_rules_are_those_of_transformers():
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    logits = np.random.default_rng(0).normal(size=(20, 60)).astype(np.float32) * 3
    theirs = torch.tensor(logits) / 0.7
    for warp in (
        transformers.TopKLogitsWarper(20), transformers.TopPLogitsWarper(0.8), transformers.MinPLogitsWarper(0.05),
    ):  # fmt: skip
        theirs = warp(None, theirs)
    ours = Decoding.read("temperature=0.7, top_k=20, top_p=0.8, min_p=0.05")(jnp.asarray(logits))
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs.numpy()))


def test_a_policy_by_rules_samples_nothing_else():
    policy, environment = Tabular(1, 5), Bandit((1.0,) * 5)
    parameters = {"logits": jnp.log(jnp.asarray(PROBS, jnp.float32))[None]}
    decoded = Decoded(policy, Decoding.read("top_k=2"))
    prompts = environment.prompts(jnp.zeros(1, jnp.int32))
    drawn = np.asarray(sample_groups(environment, decoded, parameters, prompts, jax.random.key(0), 4000).tokens)
    share = np.bincount(drawn.ravel(), minlength=5) / drawn.size
    np.testing.assert_allclose(share, [4 / 7, 3 / 7, 0, 0, 0], atol=0.04)
    with pytest.raises(ValueError, match="has no scores"):
        decoded.score(parameters, None, 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [("top_p=0", "top_p is 0"), ("top_k=0", "top_k is 0"), ("beam=4", "beam"), ("temperature=-1", "temperature is -1")],
)
def test_bad_rules_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        Decoding.read(text)
    assert Decoding.read(" ") is None
