"""Interviews with simulated users, beside a checker in plain Python that shares no code with the environment."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.dialogue_users.interview_exact import best_return, course, log_probs_of
from ipsrl.environments.agents.interview import Interview
from ipsrl.policies.tabular import Tabular
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.verification import verify

# The checker's own copy of the users: trust that each phase needs, favourite phase; what is said in and out of a phase.
USERS = {"open": ([0, 0, 1, 2], 3), "resistant": ([0, 2, 3, 4], 0), "receptive": ([0, 1, 2, 3], 1)}
FITS = [(0.05, 0.15, 1.0), (0.02, 0.2, 0.5), (0.2, 0.1, 0.8)]
PUSHES = [(0.6, 0.05, 0.0), (0.3, 0.05, 0.0), (0.8, 0.02, 0.0)]
WORTH = {"published": [50, 100, 150, 200], "equalised": [125] * 4}
SUSTAIN, NEUTRAL, CHANGE, OPENS = range(4)

TASKS = [
    Interview(),
    Interview(hierarchy=False, bonuses="equalised", users=7),
    Interview(turns=6, every=2, kinds=("receptive", "open"), bonuses="equalised"),
    Interview(turns=3, every=1, kinds=("resistant",), users=4),
]


def said_with(kind, trust, phase, act):
    """Probabilities of the four words."""
    needs, favourite = USERS[kind]
    sustain, change, factor = (FITS if trust >= needs[phase] else PUSHES)[act]
    opens = factor * (0.6 if phase == favourite else 0.25)
    return [sustain, 1 - sustain - change - opens, change, opens]


def moved_with(act, word):
    """Probabilities that trust rises and falls."""
    if word == SUSTAIN:
        return 0.0, 0.5
    if act == 1:
        return 0.5, 0.0
    return (0.2, 0.0) if word in (CHANGE, OPENS) else (0.0, 0.0)


def worth(task, phase, word):
    return {SUSTAIN: -5, NEUTRAL: 0, CHANGE: 5}.get(word, WORTH[task.bonuses][phase])


@dataclasses.dataclass
class Read:
    """A dialogue as the checker reads it: what is said of each token, and of the whole."""

    own: list
    planning: list
    paid: list
    observed: list
    acts: list
    phases: list
    words: list

    @property
    def outcome(self):
        counts = [self.phases.count(phase) for phase in range(4)]
        return counts.index(max(counts))


def read(task, tokens):
    """Walks through the tokens from the first to the last; asserts that each may stand where it stands."""
    found, rest, phase, word = Read([], [], [], [], [], [], []), list(tokens), 0, NEUTRAL
    for turn in range(task.turns):
        block = turn // task.every
        if task.hierarchy and turn % task.every == 0:
            found.observed.append(16 * block + 4 * phase + word)
            phase = rest.pop(0)
            assert phase in range(4)
            found.own.append(True), found.planning.append(True), found.paid.append(0)
        row = 16 * task.turns // task.every if task.hierarchy else 16 * block
        found.observed.append(row + 4 * phase + word)
        act = rest.pop(0) - 4
        assert act in (range(3 * phase, 3 * phase + 3) if task.hierarchy else range(12))
        phase, act, word = act // 3, act % 3, rest.pop(0) - 16
        assert word in range(4)
        found.observed.append(None)
        found.own += [True, False]
        found.planning += [not task.hierarchy, False]
        found.paid += [worth(task, phase, word), 0]
        found.acts.append(act), found.phases.append(phase), found.words.append(word)
    assert not rest
    return found


def policy_of(task, seed=0):
    """A random table, far from uniform."""
    logits = 1.5 * np.random.default_rng(seed).normal(size=(task.num_observations, task.vocabulary_size))
    return Tabular(task.num_observations, task.vocabulary_size), {"logits": jnp.float32(logits)}


def sampled(task, size, seed=0, prompts=None):
    policy, parameters = policy_of(task)
    prompts = np.arange(task.users) if prompts is None else prompts
    return sample_groups(task, policy, parameters, task.prompts(prompts), jax.random.key(seed), size)


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_two_hundred_dialogues_are_what_a_plain_reader_says(task):
    size = -(-200 // task.users)
    trajectories = sampled(task, size)
    outcomes = verify(task, trajectories)
    # Inside a larger program, as in a training step.
    again = jax.jit(task.verify)(trajectories)
    jax.tree.map(np.testing.assert_array_equal, outcomes, again)
    seen, phases = set(), task.phases(trajectories.tokens)
    for place in np.ndindex(task.users, size):
        found = read(task, np.asarray(trajectories.tokens)[place].tolist())
        assert np.asarray(trajectories.token_mask)[place].tolist() == found.own
        assert np.asarray(trajectories.dictated)[place].tolist() == [not own for own in found.own]
        assert np.asarray(outcomes.planning_mask)[place].tolist() == found.planning
        assert np.asarray(outcomes.step_rewards)[place].tolist() == found.paid
        assert outcomes.rewards[place] == sum(found.paid)
        assert outcomes.outcome_id[place] == found.outcome
        assert phases[place].tolist() == found.phases
        for seen_before, expected in zip(np.asarray(trajectories.observations)[place], found.observed, strict=True):
            assert expected in (None, seen_before)
        seen.add(found.outcome)
    assert seen == set(range(4))
    assert not trajectories.truncated.any()


def test_users_reply_as_often_as_they_should():
    """In the first turn, to users who begin with no trust."""
    task, prompts = Interview(turns=1, every=1), np.arange(3)
    acts, words = np.moveaxis(np.asarray(sampled(task, 20_000, prompts=prompts).tokens)[..., 1:3], -1, 0)
    replies = np.zeros((3, 4, 3, 4))
    np.add.at(replies, (prompts[:, None], (acts - 4) // 3, (acts - 4) % 3, words - 16), 1)
    for (kind, phase, act), counts in zip(np.ndindex(3, 4, 3), replies.reshape(-1, 4), strict=True):
        expected = np.array(said_with(task.kinds[kind], 0, phase, act))
        error = np.sqrt(expected * (1 - expected) / counts.sum())
        assert (np.abs(counts / counts.sum() - expected) < 5 * error + 1e-9).all()


def test_what_a_user_says_depends_on_key_user_and_member_alone():
    task, prompts = Interview(users=9), np.array([0, 5, 0])
    one = np.asarray(sampled(task, 6, prompts=prompts).final_state["trust"])
    assert (np.asarray(sampled(task, 6, seed=1, prompts=prompts).final_state["trust"]) != one).any()
    keys = jax.random.key_data(sampled(task, 6, prompts=prompts).final_state["key"])
    fewer = jax.random.key_data(sampled(task, 3, prompts=prompts[1:]).final_state["key"])
    np.testing.assert_array_equal(keys[1, :3], fewer[0])
    # The second group of a user in a batch has further members; here user 0 comes first.
    np.testing.assert_array_equal(keys[0, :3], fewer[1])
    assert len({tuple(key) for key in keys.reshape(-1, keys.shape[-1]).tolist()}) == 18
    state = task.reset(jax.random.key(3), jnp.int32(1), jnp.int32(0))
    for token in (0, 5):
        state = task.step(state, token)
    again = task.step(task.step(task.reset(jax.random.key(3), jnp.int32(1), jnp.int32(0)), 0), 5)
    assert (int(state["word"]), int(state["trust"])) == (int(again["word"]), int(again["trust"]))


def slow_value(task, kind, trust, chosen=None, paid=worth):
    """Expected sum of what the turns of a dialogue are paid, by walking through everything that can happen.

    Args:
      chosen: turn, last phase, last word -> pairs of (phase, act) and their probability; None for the best ones.
      paid: task, phase, word -> what a turn is paid.
    """

    @functools.cache
    def value(turn, trust, phase, word):
        if turn == task.turns:
            return 0.0
        if chosen is not None:
            return sum(p * of(turn, trust, *pair) for pair, p in chosen(turn, phase, word).items())
        held = task.hierarchy and turn % task.every
        return max(of(turn, trust, each, act) for each in ([phase] if held else range(4)) for act in range(3))

    def of(turn, trust, phase, act):
        total = 0.0
        for word, probability in enumerate(said_with(kind, trust, phase, act)):
            up, down = moved_with(act, word)
            moves = [(min(trust + 1, 4), up), (max(trust - 1, 0), down), (trust, 1 - up - down)]
            later = sum(p * value(turn + 1, level, phase, word) for level, p in moves)
            total += probability * (paid(task, phase, word) + later)
        return total

    return value(0, trust, 0, NEUTRAL)


@pytest.mark.parametrize("hierarchy", [True, False])
def test_exact_returns_are_those_of_a_walk_through_everything(hierarchy):
    task = Interview(turns=6, every=2, users=9, hierarchy=hierarchy, bonuses="equalised")
    _, parameters = policy_of(task)
    probs = np.exp(np.asarray(log_probs_of(task, parameters["logits"]), np.float64))

    def chosen(turn, phase, word):
        row = probs[16 * (turn // 2) + 4 * phase + word]
        if not hierarchy:
            return {divmod(token - 4, 3): row[token] for token in range(4, 16)}
        phases = {phase: 1.0} if turn % 2 else dict(enumerate(row[:4]))
        acts = probs[16 * 3 :]
        return {(p, a): share * acts[4 * p + word, 4 + 3 * p + a] for p, share in phases.items() for a in range(3)}

    for user in range(9):
        kind, trust = task.kinds[user % 3], user // 3
        phases, rewards = course(task, log_probs_of(task, parameters["logits"]), user)
        np.testing.assert_allclose(phases.sum(axis=1), 1.0, rtol=1e-5)
        turns = [slow_value(task, kind, trust, chosen, lambda _, at, word, p=phase: at == p) for phase in range(4)]
        np.testing.assert_allclose(phases.sum(axis=0), turns, rtol=1e-4)
        np.testing.assert_allclose(rewards.sum(), slow_value(task, kind, trust, chosen), rtol=1e-4)
        np.testing.assert_allclose(best_return(task, user), slow_value(task, kind, trust), rtol=1e-6)


def test_a_transformer_sees_the_tokens():
    task = Interview(users=3, turns=4, sees="tokens")
    policy = Transformer(task.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=2)
    parameters = policy.init(jax.random.key(0))
    found = sample_groups(task, policy, parameters, task.prompts(np.arange(3)), jax.random.key(0), 4)
    np.testing.assert_array_equal(found.observations[..., 1:], found.tokens[..., :-1])
    assert (np.asarray(found.observations)[..., 0] == 17).all()
    scores = policy.score(parameters, found, 1.0)
    np.testing.assert_allclose(scores.log_probs, found.behaviour_log_probs, atol=1e-5)


def test_dialogues_can_be_read():
    task = Interview(turns=2, every=1, users=3)
    lines = task.in_words(np.array([0, 4, 16 + OPENS, 3, 4 + 11, 16 + SUSTAIN]))
    assert lines == ["engaging: ask      shares feelings", "planning: advise   sustain talk"]
