import dataclasses
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh, shard_prompts
from ipsrl.environments.agents.tools import ToolUse
from ipsrl.environments.language.language_task import LanguageTask
from ipsrl.environments.language.math_answers import MathAnswers
from ipsrl.environments.reading.verifier_pool import VerifierPool
from ipsrl.policies.transformer import Transformer
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.rollouts.tools import sample_with_tools
from ipsrl.training.settings import TrainSettings
from ipsrl.training.trainer import Trainer
from tests.environments.language.tokenizers_for_tests import EOS, ids, save_tokenizer
from tests.look_up import FIRST_QUERY, FIRST_RESULT, QUERIES, RESULT, RESULTS, LookUpOnHost
from tests.training.compilations import compilations_of

pytestmark = pytest.mark.eight_devices

TASK = LookUpOnHost()
POLICY = Transformer(TASK.vocabulary_size, hidden_size=32, num_layers=2, num_heads=4, num_key_value_heads=2)


def sample(task=TASK, mesh=None, seed=0):
    parameters, prompts = POLICY.init(jax.random.key(1)), task.prompts(np.arange(8) % 4)
    if mesh is not None:
        prompts = shard_prompts(prompts, mesh)
    return parameters, sample_with_tools(task, POLICY, parameters, prompts, jax.random.key(seed), 40)


def test_each_trajectory_goes_on_behind_the_words_of_its_own_tool():
    parameters, sampled = sample()
    tokens, mask, dictated = (
        np.asarray(a).reshape(320, -1) for a in (sampled.tokens, sampled.token_mask, sampled.dictated)
    )
    lengths = set()
    for row in range(320):
        query = tokens[row, 0] - FIRST_QUERY
        if not 0 <= query < QUERIES:
            continue
        words = [] if query == 0 else [RESULT] * (1 + query % 2) + [FIRST_RESULT + query % RESULTS]
        lengths.add(len(words))
        assert tokens[row, 1 : 1 + len(words)].tolist() == words
        assert mask[row].tolist() == [True] + [False] * len(words) + [True] + [False] * (4 - len(words))
        assert dictated[row].tolist() == [False] + [True] * len(words) + [False] * (5 - len(words))
    assert lengths == {0, 2, 3}
    assert not sampled.truncated.any()
    scores = POLICY.score(parameters, sampled, 1.0)
    np.testing.assert_allclose(scores.log_probs, sampled.behaviour_log_probs, atol=1e-5)


def test_rounds_share_one_program_and_devices_change_nothing():
    with compilations_of("advance") as programs:
        _, alone = sample(seed=1)
        sample(seed=2)
    assert len(programs) <= 1
    mesh = make_mesh("data:8")
    with jax.set_mesh(mesh):
        _, together = sample(mesh=mesh, seed=1)
    np.testing.assert_array_equal(together.tokens, alone.tokens)
    np.testing.assert_allclose(together.behaviour_log_probs, alone.behaviour_log_probs, atol=1e-5)


@dataclasses.dataclass(frozen=True)
class Sums(MathAnswers):
    """Eight sums."""

    rows = tuple((f"{number} + 2?", Fraction(number + 2)) for number in range(8))

    def prompt_text(self, prompt, history=()):
        return self.rows[prompt][0]


def shown(prompt):
    """Texts with a call, the words of the calculator, and an answer, which only the first has right."""
    value = prompt + 2
    return [f"calculate({prompt} + 2)\n{value}\n#### {said}" for said in (value, value + 1)]


@pytest.mark.slow
def test_a_language_model_calls_a_calculator_and_learns_from_its_own_words_alone(tmp_path):
    """Supervised training on texts that look like calls comes first, so that there are any."""
    known = [text for prompt in range(8) for text in (Sums().prompt_text(prompt), *shown(prompt))]
    folder = save_tokenizer(tmp_path, known, template=None, vocabulary_size=280)
    without = LanguageTask(Sums(), folder, 280, 16, verifier=VerifierPool(workers=0))
    environment = ToolUse(without.task, folder, 280, 16, verifier=without.verifier, longest_reply=4)
    policy = dataclasses.replace(POLICY, vocabulary_size=280, num_layers=1)
    answers = [ids(without.tokenizer, shown(prompt)) for prompt in range(8)]
    rows = [
        {"prompt": prompt, "answers": [[*tokens, EOS] for tokens in pair], "rewards": [1, 1]}
        for prompt, pair in enumerate(answers)
    ]
    stored = StoredGroups.of(without, policy, 8, rows)
    settings = TrainSettings(steps=30, prompts_per_step=8, group_size=2, learning_rate=1e-2)
    before = Trainer(without, policy, objectives.make("supervised"), settings, stored)
    settings = TrainSettings(steps=3, prompts_per_step=8, group_size=4, learning_rate=1e-3)
    trainer = Trainer(environment, policy, objectives.make("ips_grpo"), settings)
    with jax.set_mesh(make_mesh("data:8")):
        state = before.init(0)
        for _ in range(before.settings.steps):
            state, _ = before.step(state)
        trainer.check()
        start = jax.device_get(state.parameters)
        state, (sampled, outcomes), _ = trainer.ask(trainer.init(0, start))

        def learned(tokens):
            copy, groups = jax.tree.map(jnp.copy, state), (dataclasses.replace(sampled, tokens=tokens), outcomes)
            return jax.device_get(jax.tree.leaves(trainer.learn(copy, groups)[0].parameters))

        real = learned(sampled.tokens)
        other_words = learned(jnp.where(sampled.dictated, 77, sampled.tokens))
        other_answers = learned(jnp.where(sampled.token_mask, 77, sampled.tokens))
        for _ in range(settings.steps):
            state, metrics = trainer.step(state)
            assert metrics["sampler_scorer_difference"] < 1e-4
            assert 0 < metrics["reward"] < 1
    assert not np.asarray(sampled.token_mask & sampled.dictated).any()
    tokens, dictated = (np.asarray(array).reshape(32, -1) for array in (sampled.tokens, sampled.dictated))
    heard = environment.answer_texts([row[words] for row, words in zip(tokens, dictated, strict=True)])
    values = [f"{prompt + 2}\n" for prompt in np.repeat(sampled.prompts.index, 4)]
    assert np.mean(np.array(heard) == values) > 0.8
    assert all(map(np.array_equal, other_words, real))
    assert not any(map(np.array_equal, other_answers, real))
    for old, new in zip(jax.tree.leaves(start), jax.device_get(jax.tree.leaves(state.parameters)), strict=True):
        assert np.isfinite(new).all()
        assert (old != new).any()


@dataclasses.dataclass(frozen=True)
class Broken(LookUpOnHost):
    """A tool that replies the same to all, and may not end the wait."""

    reply: tuple[int, ...] = ()
    ends: bool = True
    replies: Any = dataclasses.field(default=..., hash=False)

    def call(self, prompt_index, answers, own):
        return [list(self.reply)] * len(answers) if self.replies is ... else self.replies

    def hear(self, state, reply, length):
        return super().hear(state, reply, length) | {"heard": jnp.bool_(self.ends)}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Broken((1, 1, 1, 1)), "a tool replied 4 tokens, at most 3 are allowed"),
        (Broken((99,)), "a tool's reply has the token 99, but the vocabulary is 0 to 13"),
        (Broken((True,)), r"a tool's reply must be a list of tokens, not \[True\]"),
        (Broken(replies=None), "`call` must reply to each of 320 answers with a list of tokens, not None"),
        (Broken(replies=[[1]]), r"`call` must reply to each of 320 answers with a list of tokens, not \[\[1\]\]"),
        (Broken(replies=["1"] * 320), "a tool's reply must be a list of tokens, not '1'"),
        (Broken(ends=False), "a trajectory waits for a tool again before it has a new token"),
    ],
)
def test_tools_that_misbehave_are_refused(task, message):
    with pytest.raises(ValueError, match=message):
        sample(task)
