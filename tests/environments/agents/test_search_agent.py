"""Searches in a knowledge graph, recomputed in plain Python from the words of questions and answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.search_diversity.search_routes import demonstrations
from ipsrl.environments.agents.knowledge_graph import ENTITIES, RELATIONS, KnowledgeGraph
from ipsrl.environments.agents.search_agent import SearchAgent
from ipsrl.objectives.estimators.subgroups import stratum_of
from ipsrl.policies.tabular import Tabular
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.rollouts.verification import verify
from ipsrl.structures import Rollouts

SMALL = {"entities": 6, "relations": 2, "hops": (1, 2), "problems": 8, "lookups": 3}
AGENTS = [
    SearchAgent(failure=0.3, outcome="behaviour"),
    SearchAgent(**SMALL, worth=(0.0, 0.25, 1.0), sees="state", outcome="lookups"),
    SearchAgent(**SMALL, grounded=False, synonyms=1, failure=0.2, worth=(1.0, 0.5), seed=3),
]
every_agent = pytest.mark.parametrize("agent", AGENTS, ids=["tokens", "states", "by heart"])
CANONICAL = {word: names[0] for pair in RELATIONS for names in pair for word in names}
BACK = {names[0][0]: names[1][0] for names in RELATIONS} | {names[1][0]: names[0][0] for names in RELATIONS}


def facts_of(agent):
    """The word and the name -> the name that is found, from the tables of the forward relations alone."""
    facts = {}
    for relation in range(agent.relations):
        for entity in range(agent.entities):
            name, word, found = ENTITIES[entity], RELATIONS[relation][0][0], ENTITIES[agent.heads[relation, entity]]
            facts[word, name] = found
            facts[BACK[word], found] = name
    return facts


def asked(agent, prompt):
    """The name and the words of a question, from its text."""
    *words, name = agent.question_text(prompt).removesuffix("?").removeprefix("the ").split(" of ")
    return name, [word.removeprefix("the ") for word in words][::-1]


def answer_to(agent, prompt):
    name, words = asked(agent, prompt)
    for word in words:
        name = facts_of(agent)[word, name]
    return name


def played(agent, prompt, symbols, dictated):
    """Answer, number of look-ups, queries that did not fail, and reward of an answer; checks all that is dictated."""
    facts, symbols, queries, lookups = facts_of(agent), list(symbols), [], 0
    start, _ = asked(agent, prompt)
    at = start
    assert dictated == [place % 3 == 2 for place in range(len(symbols))]
    while symbols[1] != "<stop>":
        name, word, found = symbols[:3]
        assert not agent.grounded or name in (start, at)
        lookups += 1
        assert found in ("<failed>", facts[CANONICAL[word], name])
        if found != "<failed>":
            queries.append((name, CANONICAL[word]))
            at = found
        del symbols[:3]
    assert len(symbols) == 2
    assert not agent.grounded or symbols[0] in (start, at)
    assert lookups <= agent.lookups
    right = symbols[0] == answer_to(agent, prompt)
    return symbols[0], lookups, tuple(queries), right * agent.worth[min(lookups, len(agent.worth) - 1)]


def sampled_by(agent, group=100, seed=0):
    """Answers of a policy that prefers to stop, so that all numbers of look-ups occur."""
    logits = 2.0 * np.eye(agent.vocabulary_size)[1]
    policy = Tabular(agent.num_observations, agent.vocabulary_size, tuple(logits.tolist()))
    parameters = policy.init(jax.random.key(0))
    prompts = agent.prompts(np.arange(4))
    return sample_groups(agent, policy, parameters, prompts, jax.random.key(seed), group)


def read(agent, sampled):
    """`played` for all answers, `[P][G]`."""
    tokens, written, dictated = (np.asarray(x) for x in (sampled.tokens, sampled.written, sampled.dictated))
    return [
        [
            played(agent, int(prompt), [agent.vocabulary[token] for token in row[real]], said[real].tolist())
            for row, real, said in zip(*group, strict=True)
        ]
        for prompt, *group in zip(sampled.prompts.index, tokens, written, dictated, strict=True)
    ]


@every_agent
def test_400_answers_recomputed(agent):
    sampled = sampled_by(agent)
    outcomes, done = verify(agent, sampled), agent.searches(sampled)
    assert not sampled.truncated.any()
    numbers = {}
    for p, group in enumerate(read(agent, sampled)):
        for g, (name, lookups, queries, reward) in enumerate(group):
            entity = ENTITIES.index(name)
            assert float(outcomes.rewards[p, g]) == reward
            assert (int(done.answer[p, g]), int(done.lookups[p, g])) == (entity, lookups)
            numbers.setdefault((p, queries, name), set()).add(int(done.behaviour[p, g]))
            expected = {"answer": entity, "lookups": entity + agent.entities * lookups}
            assert int(outcomes.outcome_id[p, g]) == expected.get(agent.outcome, int(done.behaviour[p, g]))
    assert all(len(number) == 1 for number in numbers.values())
    assert len({(key[0], *number) for key, number in numbers.items()}) == len(numbers)
    assert len(set(np.asarray(done.lookups).ravel().tolist())) > 2


@every_agent
def test_the_strata_are_the_numbers_of_look_ups(agent):
    sampled = sampled_by(agent, group=16)
    rollouts = Rollouts.of(sampled, verify(agent, sampled))
    assert (stratum_of(rollouts, "planning") == agent.searches(sampled).lookups).all()


def test_failures_come_from_the_key_and_as_often_as_asked():
    agent = AGENTS[0]
    first, again, other = (sampled_by(agent, seed=seed) for seed in (0, 0, 1))
    assert (first.tokens == again.tokens).all()
    assert (first.final_state["fails"] == again.final_state["fails"]).all()
    assert (first.final_state["fails"] != other.final_state["fails"]).any()
    results = np.asarray(first.tokens)[np.asarray(first.dictated)]
    assert (results == agent.vocabulary.index("<failed>")).mean() == pytest.approx(0.3, abs=0.06)
    assert not (np.asarray(sampled_by(AGENTS[1]).tokens) == agent.vocabulary.index("<failed>")).any()


@pytest.mark.parametrize("failure", [0.0, 0.4])
def test_exact_probabilities_are_those_of_a_walk_through_all_answers(failure):
    agent = SearchAgent(**SMALL | {"problems": 2, "lookups": 2}, sees="state", synonyms=1, failure=failure)
    logits = np.random.default_rng(0).normal(size=(agent.num_observations, agent.vocabulary_size))
    found = np.zeros((2, 3, agent.entities))

    def walk(prompt, queries, at, named, chance):
        number = int(agent.number_of(prompt, queries, at, agent.entities if named is None else named))
        start, facts = int(agent.starts[prompt]), agent.heads
        if named is None:
            legal = {4 + entity: entity for entity in {start, at}}
        else:
            words = range(len(agent.words)) if queries < agent.lookups else ()
            legal = {1: None} | {4 + agent.entities + word: word for word in words}
        weights = {token: np.exp(logits[number, token]) for token in legal}
        for token, what in legal.items():
            share = chance * weights[token] / sum(weights.values())
            if named is None:
                walk(prompt, queries, at, what, share)
            elif what is None:
                found[prompt, queries, named] += share
            else:
                walk(prompt, queries + 1, int(facts[what, named]), None, share * (1 - failure))
                walk(prompt, queries + 1, at, None, share * failure)

    for prompt in range(2):
        walk(prompt, 0, int(agent.starts[prompt]), None, 1.0)
    assert found.sum(axis=(1, 2)) == pytest.approx(1)
    exact = np.asarray(jax.jit(agent.answer_probs)(jnp.asarray(logits, jnp.float32)))
    assert exact == pytest.approx(found, abs=1e-5)
    # A policy that is shown the states by the agent itself answers as often.
    policy = Tabular(agent.num_observations, agent.vocabulary_size)
    parameters = {"logits": jnp.asarray(logits, jnp.float32)}
    sampled = sample_groups(agent, policy, parameters, agent.prompts(np.arange(2)), jax.random.key(0), 4000)
    done = agent.searches(sampled)
    counts = np.zeros(found.shape)
    np.add.at(counts, (np.arange(2)[:, None], done.lookups, done.answer), 1)
    assert counts / 4000 == pytest.approx(found, abs=5 * 0.5 / np.sqrt(4000))


@every_agent
def test_questions_are_those_that_were_asked_for(agent):
    texts = [agent.question_text(prompt) for prompt in range(agent.num_prompts)]
    assert len(set(texts)) == agent.num_prompts
    for prompt in range(agent.num_prompts):
        name, words = asked(agent, prompt)
        assert len(words) == agent.hops[prompt % len(agent.hops)]
        assert ENTITIES[agent.answers[prompt]] == answer_to(agent, prompt) != name
        tokens = agent.prompt_table.tokens[prompt]
        assert [agent.vocabulary[token] for token in tokens if token] == [name, *words, "?"]


def simple_ways(facts, words, name, goal, seen, left):
    for word in words:
        head = facts[word, name]
        if head == goal:
            yield (word,)
        elif head not in seen and left > 1:
            yield from ((word, *rest) for rest in simple_ways(facts, words, head, goal, {*seen, head}, left - 1))


def test_routes_are_all_simple_ways_to_the_answer():
    graph = KnowledgeGraph(entities=7, relations=2, hops=(2,), shortest=2, problems=3)
    facts = facts_of(graph)
    words = [names[0] for side in (0, 1) for names in [pair[side] for pair in RELATIONS[:2]]]
    for prompt in range(3):
        start, goal = asked(graph, prompt)[0], answer_to(graph, prompt)
        found = [tuple(words[relation] for relation in route) for route in graph.routes(prompt, 4)]
        assert sorted(found) == sorted(simple_ways(facts, words, start, goal, {start}, 4))
        assert len(found[0]) == 2
        assert list(map(len, found)) == sorted(map(len, found))


def trajectories_of_rows(agent, rows):
    source = StoredGroups.of(agent, Tabular(agent.num_observations, agent.vocabulary_size), len(rows), rows)
    return source._answers(np.arange(len(rows)), None)


@pytest.mark.parametrize("routes", ["all", "chain"])
def test_demonstrations(routes):
    agent = SearchAgent(failure=0.2, lookups=8, outcome="answer", worth=(0.0, 1.0))
    rows = demonstrations(agent, routes, answers=8)
    given = trajectories_of_rows(agent, rows)
    assert (given.token_mask == (given.written & ~given.dictated)).all()
    behaviours = []
    for prompt, group in enumerate(read(agent, given)):
        right = [(queries, reward) for name, _, queries, reward in group if name == answer_to(agent, prompt)]
        assert len(right) >= 6  # eight look-ups are mostly enough
        assert all(reward == 1 for _, reward in right)
        behaviours.append(len({queries for queries, _ in right}))
        if routes == "chain":
            _, words = asked(agent, prompt)
            assert [word for _, word in right[0][0]] == words
    assert max(behaviours) == 1 if routes != "all" else np.mean(behaviours) > 4


def test_a_table_of_the_wrong_kind_is_refused():
    rows = demonstrations(SearchAgent(), "all", answers=2)
    without = [{key: value for key, value in row.items() if key != "own"} for row in rows]
    with pytest.raises(ValueError, match="stored answers do not say which they are"):
        trajectories_of_rows(SearchAgent(), without)
    with pytest.raises(ValueError, match="row 1 needs one True or False in own for each token of its answers"):
        trajectories_of_rows(SearchAgent(), [rows[0] | {"own": [[True], [False]]}])


def test_outcome_spaces():
    space = AGENTS[1].outcome_space(0)
    assert {name: reward for name, reward in zip(space.names, space.rewards.tolist(), strict=True) if reward} == {
        f"{answer_to(AGENTS[1], 0)}, {count} look-ups": worth for count, worth in ((1, 0.25), (2, 1.0), (3, 1.0))
    }
    assert SearchAgent().outcome_space(0).rewards.sum() == 1
    for agent in (AGENTS[0], AGENTS[2]):
        with pytest.raises(ValueError, match="does not say what an answer is worth here: choose lookups"):
            agent.outcome_space(0)
