"""Decoding rules: samples and behaviour log-probabilities follow NumPy's distribution; a thought begins at a switch."""

import dataclasses
import functools
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.environments.token_stream import TokenStream
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.decoding import Decoding, TokenPenalty
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.tools import sample_with_tools
from ipsrl.structures import Outcomes, Prompts
from tests.look_up import ASK, RESULT, LookUpOnHost
from tests.training.compilations import compilations_of

PROBS = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
SWITCH, STOP, WORDS, LENGTH = (3, 4), 5, 6, 14


@dataclasses.dataclass(frozen=True)
class Thoughts(TokenStream):
    """Answers of up to 14 of six words, the last of which ends them; a word may be forbidden behind itself."""

    twice: bool = True

    vocabulary_size: ClassVar[int] = WORDS
    max_tokens: ClassVar[int] = LENGTH
    stop_tokens: ClassVar[tuple[int, ...]] = (STOP,)
    verifies_on_host: ClassVar[bool] = False

    @functools.cached_property
    def prompt_table(self):
        return Prompts(np.arange(3), np.arange(3, dtype=np.int32)[:, None], np.ones((3, 1), bool))

    def legal(self, state):
        return None if self.twice else jnp.arange(WORDS) != state[0]

    def verify(self, trajectories):
        length = trajectories.token_mask.sum(axis=-1)
        return Outcomes(rewards=jnp.float32(length > 3), outcome_id=length)


TASK, POLICY = Thoughts(), Tabular(WORDS, WORDS)
LOGITS = np.random.default_rng(0).normal(size=(WORDS, WORDS)).astype(np.float32) - np.eye(WORDS)[STOP].astype("f") * 2


def sampled_by(decoding, task=TASK, group_size=50, key=0, **more):
    prompts = task.prompts(np.arange(3))
    return jax.device_get(
        sample_groups(
            task, POLICY, {"logits": jnp.asarray(LOGITS)}, prompts, jax.random.key(key), group_size, decoding, **more
        )
    )


@functools.cache
def many_sampled_by(rules, twice):
    """Many where a word may follow itself: of these, the frequencies are tested, too."""
    return sampled_by(rules, Thoughts(twice), group_size=4000 if twice else 50, top_tokens=2)


def expected(logits, rules, legal=None, of_thought=0):
    """Probabilities by rules, of one distribution in float64, token by token."""
    legal = np.ones(len(logits), bool) if legal is None else legal
    logits = np.where(legal, np.float64(logits), -np.inf)
    penalty = rules.penalty
    others = penalty is not None and set(np.flatnonzero(legal)) - set(penalty.tokens)
    if others and (penalty.window is None or of_thought < penalty.window):
        logits[list(set(penalty.tokens))] -= penalty.strength
    weights = np.exp((logits - logits.max()) / rules.temperature)
    probs = weights / weights.sum()
    order = sorted(range(len(probs)), key=lambda token: -probs[token])
    order = [token for token in order if probs[token] > 0][: rules.top_k]
    in_total, nucleus = sum(probs[token] for token in order), []
    for token in order:
        if sum(probs[before] for before in nucleus) >= rules.top_p * in_total:
            break
        nucleus.append(token)
    kept = [token for token in nucleus if probs[token] >= rules.min_p * probs[nucleus[0]]]
    probs = np.where(np.isin(np.arange(len(probs)), kept), probs, 0.0)
    return probs / probs.sum()


RULES = {
    "temperature": Decoding(0.6),
    "top_k": Decoding(1.3, top_k=3),
    "min_p": Decoding(min_p=0.4),
    "penalty": Decoding(penalty=TokenPenalty(SWITCH, 2.0, 3)),
    "placebo": Decoding(penalty=TokenPenalty((0, 3), 2.0, 3, starts=(1, 4))),
    "one thought": Decoding(penalty=TokenPenalty(SWITCH, 2.0, 9, starts=())),
    "endless": Decoding(0.8, penalty=TokenPenalty(SWITCH, 1.0, None)),
    "all": Decoding(0.7, 4, 0.95, 0.1, TokenPenalty((*SWITCH, 3), 0.5, 2)),
}
every_rule = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


def replay(sampled, rules, member):
    """Position, legal actions, tokens of the current thought, of each action of an answer, followed in Python."""
    start, penalty = 0, rules.penalty
    opening = () if penalty is None else penalty.tokens if penalty.starts is None else penalty.starts
    for t in np.flatnonzero(sampled.token_mask[member]):
        legal = None if sampled.legal_actions is None else sampled.legal_actions[member][t]
        yield t, legal, t - start
        if sampled.tokens[member][t] in opening:
            start = t


@pytest.mark.parametrize("twice", [True, False])
@every_rule
def test_behaviour_is_the_distribution_that_was_sampled_from(rules, twice):
    sampled, switches = many_sampled_by(rules, twice), 0
    for member in np.ndindex(3, 50):
        for t, legal, of_thought in replay(sampled, rules, member):
            token = sampled.tokens[member][t]
            probs = expected(LOGITS[sampled.observations[member][t]], rules, legal, of_thought)
            assert sampled.behaviour_log_probs[member][t] == pytest.approx(math.log(probs[token]), abs=1e-5)
            entropy = -sum(p * math.log(p) for p in probs if p > 0)
            assert sampled.behaviour_entropy[member][t] == pytest.approx(entropy, abs=1e-5)
            np.testing.assert_allclose(np.exp(sampled.top_log_probs[member][t]), np.sort(probs)[:-3:-1], atol=1e-5)
            switches += token in SWITCH and t > 0
    # Else the beginning of thoughts would not be tested.
    assert switches > 20


@every_rule
def test_samples_are_as_frequent_as_it_says(rules):
    sampled = many_sampled_by(rules, True)
    first = sampled.tokens[..., 0]
    for prompt in range(3):
        share = np.bincount(first[prompt], minlength=WORDS) / first.shape[1]
        probs = expected(LOGITS[prompt], rules)
        np.testing.assert_allclose(share, probs, atol=5 * np.sqrt(0.25 / first.shape[1]))
        assert not share[probs == 0].any()


def test_each_thought_has_a_window_of_its_own():
    """Where only switches are likely, a ban lasts exactly the rest of the window behind each switch."""
    rules = Decoding(penalty=TokenPenalty(SWITCH, 1e9, 4))
    likely = {"logits": jnp.tile(jnp.asarray([0.0, 0.0, 0.0, 30.0, 30.0, -30.0]), (WORDS, 1))}
    answers = sample_groups(TASK, POLICY, likely, TASK.prompts(np.arange(3)), jax.random.key(0), 20, rules)
    switched = np.isin(answers.tokens, SWITCH)
    # Positions 0 to 3 belong to the first thought; a thought that begins at 4 is 4 tokens old at 8.
    np.testing.assert_array_equal(switched, np.broadcast_to(np.isin(np.arange(LENGTH), [4, 8, 12]), switched.shape))


BEFORE = [
    ["02111000242321", "23021002104403"],
    ["23323310022024", "04021101023333"],
    ["33330210210403", "33440311111020"],
]


def test_the_ordinary_rule_samples_what_it_always_did():
    """Tokens of the sampler as it was when it took a temperature alone."""
    tokens = sampled_by(Decoding(0.7), group_size=2).tokens
    assert [["".join(map(str, answer)) for answer in group] for group in tokens] == BEFORE


@pytest.mark.parametrize(("strength", "window"), [(0.0, None), (5.0, 0)])
def test_no_strength_or_no_window_is_no_penalty(strength, window):
    plain = sampled_by(Decoding(0.7, top_k=4))
    penalised = sampled_by(Decoding(0.7, top_k=4, penalty=TokenPenalty(SWITCH, strength, window)))
    jax.tree.map(np.testing.assert_array_equal, penalised, plain)


def test_a_penalty_on_all_legal_tokens_changes_nothing():
    everywhere = TokenPenalty(tuple(range(WORDS)), 1e30, None)
    jax.tree.map(np.testing.assert_array_equal, sampled_by(Decoding(penalty=everywhere)), sampled_by(Decoding()))
    legal = jnp.arange(WORDS) < 2
    log_probs = Decoding(penalty=TokenPenalty((0, 1), 1e30))(jnp.asarray(LOGITS), legal, jnp.int32(0))
    np.testing.assert_array_equal(log_probs, Decoding()(jnp.asarray(LOGITS), legal))


GRID = [
    Decoding(0.9, penalty=TokenPenalty(SWITCH, alpha, beta)) for alpha in (0, 2.0, np.float64(9)) for beta in (1, None)
]


def test_a_grid_of_penalties_is_one_program():
    with compilations_of("sample_groups") as programs:
        alone = [sampled_by(rules, group_size=30) for rules in GRID]
    assert len(programs) == 1
    assert len({answers.tokens.tobytes() for answers in alone}) == 5
    # And may be sampled at once.
    stacked = jax.tree.map(lambda *numbers: jnp.stack(numbers), *GRID)
    parameters, prompts = {"logits": jnp.asarray(LOGITS)}, TASK.prompts(np.arange(3))
    together = jax.vmap(lambda rules: sample_groups(TASK, POLICY, parameters, prompts, jax.random.key(0), 30, rules))(
        stacked
    )
    for number, answers in enumerate(alone):
        np.testing.assert_array_equal(together.tokens[number], answers.tokens)


def test_trajectories_that_wait_for_tools_keep_their_thought():
    """The words of the tool are counted, but a word of it that is a switch begins no thought."""
    task = LookUpOnHost()
    policy, switch = Tabular(task.vocabulary_size, task.vocabulary_size), (2, 3, RESULT)
    logits = jax.random.normal(jax.random.key(3), (task.vocabulary_size,) * 2)
    logits = logits.at[ASK, 2:10].add(4.0)
    for window in (2, 3, 4):
        rules = Decoding(penalty=TokenPenalty(switch, 1.5, window))
        prompts = task.prompts(np.arange(4))
        sampled = jax.device_get(
            sample_with_tools(task, policy, {"logits": logits}, prompts, jax.random.key(0), 40, rules)
        )
        assert (sampled.dictated & np.isin(sampled.tokens, switch)).any()
        waited = set()
        for member in np.ndindex(sampled.truncated.shape):
            for t, _, of_thought in replay(sampled, rules, member):
                probs = expected(logits[sampled.observations[member][t]], rules, None, of_thought)
                said = probs[sampled.tokens[member][t]]
                assert sampled.behaviour_log_probs[member][t] == pytest.approx(math.log(said), abs=1e-5)
                waited.add(t)
        assert {0, 3, 4} <= waited


def kept(rules, probs=PROBS, legal=None):
    return np.flatnonzero(np.isfinite(rules(jnp.log(jnp.asarray(probs)) + 3.0, legal))).tolist()


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


def test_only_legal_actions_are_counted():
    legal = jnp.asarray([False, True, True, True, False])
    assert kept(Decoding(top_k=2), legal=legal) == [1, 2]
    assert kept(Decoding(min_p=0.6), legal=legal) == [1]
    assert kept(Decoding(top_p=0.6), legal=legal) == [1, 2]


def test_equal_probabilities_are_kept_together():
    assert kept(Decoding.read("top_k=1"), [0.3, 0.3, 0.4 - 1e-3, 1e-3]) == [2]
    assert kept(Decoding.read("top_k=2"), [0.3, 0.3, 0.4 - 1e-3, 1e-3]) == [0, 1, 2]
    assert kept(Decoding.read("top_p=0.5"), [0.25] * 4) == [0, 1, 2, 3]


@pytest.mark.slow
def test_rules_are_those_of_transformers():
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    logits = np.random.default_rng(0).normal(size=(20, 60)).astype(np.float32) * 3
    theirs = torch.tensor(logits) / 0.7
    for warp in (
        transformers.TopKLogitsWarper(20),
        transformers.TopPLogitsWarper(0.8),
        transformers.MinPLogitsWarper(0.05),
    ):
        theirs = warp(None, theirs)
    ours = Decoding.read("temperature=0.7, top_k=20, top_p=0.8, min_p=0.05")(jnp.asarray(logits))
    np.testing.assert_allclose(ours, torch.log_softmax(theirs, dim=-1).numpy(), atol=1e-5)


def test_rules_are_read_from_a_text():
    assert Decoding.read(" ") is None
    penalty = Decoding.read("penalty=tip((3, 4), 2, window=9)")
    assert penalty == Decoding(penalty=TokenPenalty((3, 4), 2, 9))
    assert hash(penalty) == hash(dataclasses.replace(penalty, top_p=1.0))
    assert dataclasses.replace(TokenPenalty((3,), window=None), strength=2).window is None
