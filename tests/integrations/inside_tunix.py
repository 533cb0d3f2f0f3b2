"""An objective in Tunix's learner: the same steps as Tunix where Tunix has it, and what only we have.

Run by test_elsewhere.py with pytest in Tunix's own environment.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from tunix.rl.algo_core import grpo_loss_fn
from tunix.rl.grpo.dapo_learner import DAPOConfig, DAPOLearner
from tunix.rl.grpo.drgrpo_learner import DrGRPOConfig, DrGRPOLearner
from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner
from tunix.rl.rl_cluster import Mode

from ipsrl import objectives
from ipsrl.integrations.outcomes import exact_text
from ipsrl.integrations.refusals import WITH_EXACT_TEXT, refusal
from ipsrl.integrations.rows import numbered
from ipsrl.integrations.tunix import IPSRLLearner, policy_loss
from ipsrl.rollouts.randomness import stream
from ipsrl.structures import PolicyScores, Rollouts, Sizes
from tests.docs.test_pages import execute
from tests.integrations import small_tunix

from tests.integrations.alike import imports_are_no_garbage  # noqa: F401, isort: skip
from tests.integrations.alike import even, even_and_large, made, one_of_each_kind, standardises
from tests.integrations.small_tunix import BATCHES, END, LENGTH, PAD, cluster, data

GROUP = 4


def config(kind=GRPOConfig, epsilon_high=None, epsilon_c=None, **options):
    """Tunix reads these two where they are, but has no field for them."""
    made = kind(num_generations=GROUP, **options)
    for name, value in {"epsilon_high": epsilon_high, "epsilon_c": epsilon_c}.items():
        if value is not None:
            setattr(made, name, value)
    return made


BY_ANSWER = {"loss_algo": "gspo-token", "epsilon": 3e-4, "epsilon_high": 4e-4, "beta": 0.0}
ALIKE = {
    "grpo": (GRPOLearner, {"beta": 0.0}),
    "grpo(dual_clip=1.1)": (GRPOLearner, {"beta": 0.0, "epsilon_c": 1.1}),
    "grpo(kl=0.04)": (GRPOLearner, {"beta": 0.04, "kl_loss_mode": "low_var_kl"}),
    "grpo(kl=k1(0.04, place=loss))": (GRPOLearner, {"beta": 0.04, "kl_loss_mode": "kl"}),
    "grpo(kl=k2(0.04, place=loss))": (GRPOLearner, {"beta": 0.04, "kl_loss_mode": "mse_kl"}),
    "dr_grpo": (DrGRPOLearner, {"kind": DrGRPOConfig, "beta": 0.0}),
    "dapo(overlong=0)": (DAPOLearner, {"kind": DAPOConfig, "overlong_buffer": None}),
    "gspo": (GRPOLearner, BY_ANSWER),
    "gspo_token": (GRPOLearner, BY_ANSWER),
    "rloo(ratio=token)": (GRPOLearner, {"beta": 0.0, "advantage_estimator": "rloo"}),
}
PARTS = {"mini_batch_size": 4, "train_micro_batch_size": 2}
TWICE = {"num_iterations": 2}
SHAPES = {
    "one part": ({}, {}),
    "two parts": (PARTS, {}),
    "two passes": ({}, TWICE),
    "two passes, in two parts": (PARTS, TWICE),
    "two steps a batch, in two parts": ({"mini_batch_size": 2, "train_micro_batch_size": 1}, {}),
}


def both(text, training, algorithm):
    """Tunix's learner and ours, on clusters alike."""
    kind, options = ALIKE[text]
    rewards = even_and_large if standardises(made(text)) else even
    theirs = kind(cluster(**training), config(**options, **algorithm), [rewards])
    return theirs, IPSRLLearner(cluster(**training), config(**algorithm), [rewards], objective=made(text))


def assert_same_steps(theirs, ours):
    before = small_tunix.parameters(ours.rl_cluster)
    for learner in (theirs, ours):
        learner.train(data())
    wanted, after = (small_tunix.parameters(learner.rl_cluster) for learner in (theirs, ours))
    moved = np.abs(wanted - before).max()
    assert moved > 1e-2
    np.testing.assert_allclose(after, wanted, rtol=0, atol=1e-5 * moved)


def trainings():
    """All shapes for GRPO, one for the others. Tunix takes the mean of the token means of parts, we that of all
    tokens.
    """
    for text in ALIKE:
        for shape in SHAPES if text == "grpo" else [f"two passes{'' if 'dapo' in text else ', in two parts'}"]:
            yield text, shape


@pytest.mark.parametrize(("text", "shape"), list(trainings()))
def test_training_ends_with_the_parameters_of_tunix(text, shape):
    """Three batches, whole: rewards, loss, gradient, micro-batches and optimiser."""
    assert_same_steps(*both(text, *SHAPES[shape]))


def test_training_with_tunixs_own_sampler_and_model_ends_with_its_parameters():
    """Empty answers are among these."""
    alike = {"engine": "vanilla", "reference": False, "rollout": {"temperature": 0.7}}
    theirs = GRPOLearner(cluster(small_tunix.qwen(), **alike), config(beta=0.0), even_and_large)
    ours = IPSRLLearner(cluster(small_tunix.qwen(), **alike), config(), even_and_large, objective=made("grpo"))
    assert_same_steps(theirs, ours)


@pytest.mark.parametrize("objective", ["grpo(kl=0.04)", "aer"])
def test_training_and_sampling_may_be_on_devices_of_their_own(objective):
    """Two for each; Tunix then samples in another thread, and the sampler has weights of its own."""
    learners = [
        IPSRLLearner(
            cluster(small_tunix.qwen(), engine="vanilla", devices=devices, max_steps=6, **PARTS),
            config(num_iterations=2),
            even,
            objective=objective,
            right_above=0.0,
        )
        for devices in (small_tunix.ONE, ((0, 1), (2, 3)))
    ]
    assert learners[1].can_enable_async_rollout
    assert_same_steps(*learners)


def example_of(learner, prompts=BATCHES[0]):
    """The first batch of a learner, as it goes to the loss."""
    batch = {"prompts": np.repeat(prompts, GROUP), "word": np.repeat(list("abcd"), GROUP)}
    learner._rollout_micro_batch_size = learner._compute_logps_micro_batch_size = len(prompts)
    [example] = learner._process_accumulated_batches([batch], [GROUP * len(prompts)], Mode.TRAIN)
    return example


def gradient(loss, learner, example):
    graph, state = nnx.split(learner.rl_cluster.actor_trainer.model)

    def of_state(state):
        return loss(nnx.merge(graph, state), example, learner.algo_config, PAD, END)[0]

    value, found = jax.jit(jax.value_and_grad(of_state))(state)
    return value, np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found)])


@pytest.mark.parametrize("text", ALIKE)
def test_loss_and_gradient_are_those_of_tunix_off_policy(text):
    """Behaviour probabilities are up to twice as large or half as large, so that clips act."""
    theirs, ours = both(text, {}, {})
    their_example, our_example = example_of(theirs), example_of(ours)
    on_policy = ours.rl_cluster.rollout.get_per_token_logps(our_example.prompt_ids, our_example.completion_ids)
    old = on_policy + np.random.default_rng(0).uniform(-0.7, 0.7, on_policy.shape).astype(np.float32)
    rows = dataclasses.replace(our_example.rows, behaviour_log_probs=old)
    value, found = gradient(policy_loss, ours, our_example.replace(rows=rows))
    wanted, expected = gradient(grpo_loss_fn, theirs, their_example.replace(old_per_token_logps=old))
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@functools.cache
def first_batch():
    """The first batch as ipsrl alone makes it: the answers, and the last token before each of their tokens."""
    prompts = np.array([prompt.split()[-1] for prompt in BATCHES[0] for _ in range(GROUP)], int)
    answers = small_tunix.Answers(None, None, None, None).generate(np.repeat(BATCHES[0], GROUP).tolist(), None)
    tokens = np.array([np.pad(row, (0, LENGTH - len(row)), constant_values=PAD) for row in answers.tokens])
    before = np.concatenate([prompts[:, None], tokens[:, :-1]], axis=1)
    groups = len(BATCHES[0])

    def grouped(values):
        return jnp.asarray(values).reshape(-1, GROUP, *values.shape[1:])

    table, reference = (small_tunix.Table(seed).table[...] for seed in (0, 1))
    log_probs, entropy = scores(table, before, tokens)
    rollouts = Rollouts(
        prompt_index=jnp.arange(groups),
        observations=jnp.zeros((groups, GROUP, LENGTH), jnp.int32),
        tokens=grouped(tokens),
        token_mask=grouped(tokens != PAD),
        behaviour_log_probs=log_probs,
        behaviour_entropy=entropy,
        rewards=grouped(np.array(even(None, answers.text), np.float32)),
        outcome_id=grouped(numbered(answers.text)),
        truncated=grouped(tokens[:, -1] != PAD),
        log_backward=jnp.zeros((groups, GROUP)),
        reference_log_probs=scores(reference, before, tokens)[0],
        keys=jax.random.split(stream(0, 0, "objective"), groups),
    )
    return rollouts, before


def scores(table, before, tokens):
    """Log probabilities and entropies of tokens, given those before them."""
    log_probs = jax.nn.log_softmax(table)[before]
    entropy = -(jnp.exp(log_probs) * log_probs).sum(axis=-1)
    of_tokens = jnp.take_along_axis(log_probs, tokens.reshape(*before.shape, 1), axis=-1)[..., 0]
    return [values.reshape(-1, GROUP, LENGTH) for values in (of_tokens, entropy)]


@functools.partial(jax.jit, static_argnames="objective")
def our_gradient(table, rollouts, before, objective):
    """The gradient by the table, on the first batch, as ipsrl alone computes it."""
    sizes = Sizes(len(BATCHES[0]))
    weights, _, _ = objective.weigh(rollouts, objective.init(sizes))

    def loss(table):
        found = PolicyScores(*scores(table, before, rollouts.tokens))
        output = objective.loss(found, rollouts, weights, objective.init_parameters(sizes))
        return output.loss_sum / output.count

    return jax.grad(loss)(table).ravel()


FOR_TUNIX = [name for name in objectives.names() if not refusal(objectives.make(name), GROUP, "Tunix", WITH_EXACT_TEXT)]


@pytest.mark.parametrize("name", one_of_each_kind(FOR_TUNIX))
def test_a_step_of_every_kind_of_objective_is_that_of_ipsrl(name):
    """Answers are ragged, and come in two micro-batches where an objective allows these."""
    objective = objectives.make(name)
    expected = np.asarray(our_gradient(small_tunix.Table().table[...], *first_batch(), objective))
    scale = 0.1 / np.abs(expected).max()
    parts = {"mini_batch_size": 4, "train_micro_batch_size": 4 if name == "bapo" else 2, "rollout_micro_batch_size": 4}
    learner = IPSRLLearner(
        cluster(learning_rate=scale, max_steps=1, **parts),
        config(),
        even,
        objective=name,
        outcome_of=exact_text,
        right_above=0.0,
    )
    before = small_tunix.parameters(learner.rl_cluster)
    learner.train(data())
    moved = small_tunix.parameters(learner.rl_cluster) - before
    np.testing.assert_allclose(moved, -scale * expected, rtol=0, atol=1e-6)


def history(learner, prefix, mode="train"):
    return {
        name: np.asarray(values)
        for name, values in learner.rl_cluster._rl_metrics_logger._metrics[prefix][mode].items()
    }


def test_outcomes_decide_what_weighs_and_the_log_says_what_is_left():
    seen = []

    def parity(prompt, completion, word, **columns):
        seen.append((prompt, word, tuple(columns)))
        return len(completion.split()) % 2

    learner = IPSRLLearner(
        cluster(eval_every_n_steps=1),
        config(),
        even,
        objective="ips_grpo(floor=0.2)",
        outcome_of=parity,
        right_above=0.0,
    )
    batches = learner.guest.batches
    learner.train(data(), [next(data())])
    assert {("1 2", "a", ()), ("2", "d", ())} <= set(seen)
    for mode in ("train", "eval"):
        logged = history(learner, "ipsrl", mode)
        for name in ("group_effective_outcomes", "degenerate_groups", "pass@1", "pass@4", "pcmd"):
            assert len(logged[name]) == len(BATCHES)
            assert np.isfinite(logged[name]).all()
        assert (logged["group_effective_outcomes"] >= 1).all()
        assert (logged["group_effective_outcomes"] <= 2).all()
    assert "clip_fraction" in history(learner, "ipsrl")
    assert "degenerate_groups" in history(learner, "monitor")
    # An evaluation moves nothing.
    assert learner.guest.batches - batches == len(BATCHES)


def test_the_reward_manager_measures_in_tunixs_own_learner():
    learner = GRPOLearner(cluster(), config(reward_manager="ipsrl"), even)
    learner.reward_manager.right_above = 0.0
    learner.train(data())
    assert set(history(learner, "ipsrl")) == {"pass@1", "pass@2", "pass@4", "pcmd", "right_above"}


@pytest.mark.parametrize("objective", ["ips_grpo(probability=ema)", "trajectory_balance"])
def test_a_resumed_run_goes_on_with_the_state_of_the_objective(tmp_path, objective):
    def run(folder, steps):
        options = ocp.CheckpointManagerOptions(save_interval_steps=1)
        found = cluster(
            checkpoint_root_directory=str(tmp_path / folder),
            checkpointing_options=options,
            max_steps=steps,
            **PARTS,
            learning_rate=0.01,
        )
        learner = IPSRLLearner(found, config(), even, objective=objective, outcome_of=exact_text, right_above=0.0)
        start = jax.tree.leaves(learner.guest._kept)
        learner.train(data())
        return small_tunix.parameters(found), start, jax.tree.leaves(learner.guest._kept)

    wanted, fresh, carried = run("whole", 2)
    _, _, first = run("again", 1)
    after, start, resumed = run("again", 2)
    for one, other in zip((*start, *resumed), (*first, *carried), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not all(map(np.array_equal, start, fresh))
    np.testing.assert_array_equal(after, wanted)
    found = cluster(checkpoint_root_directory=str(tmp_path / "again"), **PARTS)
    with pytest.raises(ValueError, match=r"the checkpoint of step 2 in .* is the state of .* this run has"):
        IPSRLLearner(found, config(), even, objective="dr_grpo(entropy=0.1)")


def test_a_checkpoint_of_another_learner_is_refused(tmp_path):
    folder = {"checkpoint_root_directory": str(tmp_path)}
    GRPOLearner(cluster(**folder), config(), even).train(data())
    with pytest.raises(ValueError, match=r"the checkpoint of step 3 in .* has no state of an objective"):
        IPSRLLearner(cluster(**folder), config(), even, objective="grpo")


@pytest.mark.parametrize(
    ("objective", "algorithm", "of_cluster", "message"),
    [
        ("ips_grpo", {}, {}, "the objective reads outcomes: give outcome_of"),
        ("grpo", {"epsilon": 0.1}, {}, "GRPOConfig sets epsilon, in whose place the objective stands"),
        ("grpo", {"kind": DAPOConfig}, {}, "GRPOConfig sets algo_variant, loss_agg_mode, beta, epsilon_high, in whose"),
        ("grpo", {"epsilon_c": 3.0}, {}, "GRPOConfig sets epsilon_c"),
        ("lp_reg", {}, {}, "needs top_log_probs, which Tunix does not give"),
        ("bapo", {}, PARTS, "sums over all groups of a batch, and Tunix cuts it into 2 parts"),
        ("grpo(kl=0.1)", {}, {"reference": False}, "reads a reference policy: give RLCluster a model as reference"),
        ("grpo", {}, {"max_seq_token_per_tpu": 64}, "max_seq_token_per_tpu packs several answers into a row"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_begins(objective, algorithm, of_cluster, message):
    with pytest.raises(ValueError, match=message):
        IPSRLLearner(cluster(**of_cluster), config(**algorithm), even, objective=objective)


def test_several_processes_are_refused(monkeypatch):
    found = cluster()
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match="run Tunix in a single process"):
        IPSRLLearner(found, config(), even, objective="grpo")


def test_an_answer_without_any_reward_ends_training_with_a_sentence():
    """Tunix's own manager makes 0 of it."""

    def missing(prompts, completions, **_):
        return [math.nan, *even(prompts, completions)[1:]]

    learner = IPSRLLearner(cluster(), config(), [missing, missing], objective="grpo")
    with pytest.raises(ValueError, match="the reward of row 0 is nan"):
        learner.train(data())
    # What one of them does not judge, another one may.
    IPSRLLearner(cluster(), config(), [missing, even], objective="grpo").train(data())


def test_our_loss_is_refused_in_another_learner():
    learner = GRPOLearner(cluster(), config(policy_loss_fn="ipsrl"), even)
    with pytest.raises(ValueError, match=r"works in its own learner: train with IPSRLLearner of ipsrl\.integrations"):
        learner.train(data())


def test_the_example_of_the_page():
    given = {"MODEL": small_tunix.qwen(), "TOKENIZER": small_tunix.Words()}
    names = execute("docs/integrations.md", "IPSRLLearner", given)
    assert names["cluster"].actor_trainer.train_steps == 2
