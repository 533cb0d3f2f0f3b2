"""A transformer trains the same on every mesh, and no device of a mesh holds more than its share."""

import collections
import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.collectives import collectives
from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh, shard_prompts
from ipsrl.distributed.placement import place, placements, shardings, table
from ipsrl.policies.transformer import Transformer
from ipsrl.records import metric_log
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.structures import Outcomes
from ipsrl.training.optimizer import make_optimizer
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching, TrainState, compiled_update, state_placements
from ipsrl.training.trainer import fresh_parameters
from tests.sampled_groups import check_run, collect
from tests.training.first_token import FIRST_TOKEN
from tests.training.in_the_loop import trained
from tests.training.one_update import moved

pytestmark = [pytest.mark.slow, pytest.mark.eight_devices, pytest.mark.usefixtures("_small_leaves_are_cut")]

POLICY = Transformer(
    FIRST_TOKEN.vocabulary_size, hidden_size=64, num_layers=1, num_heads=8, num_key_value_heads=8, intermediate_size=128
)
# On "data:4,model:2" a device has 2 prompts of 4 answers in a micro-batch, and half of the vocabulary.
IN_BLOCKS = dataclasses.replace(POLICY, logits_at_once=2 * 4 * FIRST_TOKEN.vocabulary_size // 2)
PROMPTS, GROUP_SIZE = 16, 4
OBJECTIVE = objectives.make("ips_grpo")
# Plain gradient descent: what moves is the gradient, and rounding is not divided by its own size.
SGD = make_optimizer("sgd", learning_rate=1.0, max_gradient_norm=None)


def one_step(mesh_text, policy=POLICY):
    """Samples, metrics and gradient of a step by a policy that differs a little from the one that sampled."""
    mesh = make_mesh(mesh_text) if mesh_text else Mesh(jax.devices()[:1], ("data",))
    behaviour = policy.init(jax.random.key(0))
    start = moved(behaviour, 1, 0.05)
    state = TrainState.create(jax.tree.map(jnp.copy, start), OBJECTIVE, SGD, FIRST_TOKEN)
    with jax.set_mesh(mesh):
        behaviour = place(behaviour, placements(policy.placement_rules, behaviour, mesh), mesh)
        placed = state_placements(state, policy, SGD, mesh)
        state = place(state, placed, mesh)
        prompts = shard_prompts(choose_prompts(FIRST_TOKEN, 3, 0, PROMPTS), mesh)
        groups = collect(FIRST_TOKEN, policy, behaviour, prompts, 3, 0, GROUP_SIZE, 1.0)
        after, metrics = compiled_update(
            state,
            *shard_prompts(groups, mesh),
            jax.random.key(5),
            policy=policy,
            objective=OBJECTIVE,
            optimizer=SGD,
            batching=Batching(micro_batches=2),
            temperature=1.0,
        )
    # Donated buffers are only used where the result lies as the argument did.
    for leaf, sharding in zip(*map(jax.tree.leaves, (after, shardings(placed, mesh))), strict=True):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
    gradient = jax.tree.map(lambda old, new: old - np.asarray(new), start, after.parameters)
    return jax.device_get((groups, metrics, gradient))


@pytest.fixture(scope="module")
def alone():
    return one_step(None)


@pytest.mark.parametrize(
    ("mesh", "policy"),
    [("data:8", POLICY), ("data:4,model:2", POLICY), ("data:1,model:8", POLICY), ("data:4,model:2", IN_BLOCKS)],
    ids=["data", "both", "model", "both, logits in blocks"],
)
def test_samples_loss_and_gradients_are_those_of_one_device(mesh, policy, alone):
    groups, metrics, gradient = one_step(mesh, policy)
    expected_groups, expected_metrics, expected_gradient = alone
    np.testing.assert_array_equal(groups[0].tokens, expected_groups[0].tokens)
    np.testing.assert_array_equal(groups[1].rewards, expected_groups[1].rewards)
    np.testing.assert_allclose(groups[0].behaviour_log_probs, expected_groups[0].behaviour_log_probs, atol=1e-5)
    for name, value in expected_metrics.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected_gradient))
    assert largest > 1e-2
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4 * largest), gradient, expected_gradient)


SETTINGS = TrainSettings(
    steps=4,
    prompts_per_step=PROMPTS,
    group_size=GROUP_SIZE,
    optimizer="sgd",
    learning_rate=0.1,
    batching=Batching(mini_batches=2),
    checkpoint_every=2,
)


def run(mesh, path, settings=SETTINGS, resume=False):
    # A reference policy lies in its place as well.
    state = trained(path, FIRST_TOKEN, POLICY, "grpo(kl=0.1)", settings, 1, mesh, resume)
    return jax.device_get(state), metric_log.read(path / "metrics.jsonl")


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run whose parameters are whole on every device."""
    return run("replica:8", tmp_path_factory.mktemp("whole") / "run")


def assert_same_run(found, expected):
    (state, records), (expected_state, expected_records) = found, expected
    assert [record["step"] for record in records] == [record["step"] for record in expected_records]
    for record, expected_record in zip(records, expected_records, strict=True):
        assert record["reward"] == expected_record["reward"]
        for name in ("loss", "gradient_norm", "parameter_norm", "token_entropy"):
            np.testing.assert_allclose(record[name], expected_record[name], rtol=1e-4, atol=1e-5, err_msg=name)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state.parameters, expected_state.parameters)


def test_the_loop_trains_the_same_and_says_what_lies_where(whole_run, tmp_path, capsys):
    found = run("data:1,model:8", tmp_path / "run")
    assert_same_run(found, whole_run)
    printed = capsys.readouterr().err
    rows = re.findall(r"^layers/\S+ +(\S+)(?:, (\S+))? +\d+ +([\d,]+) +([\d,]+)$", printed, re.M)
    assert rows
    for *_, in_all, each in rows:
        assert int(in_all.replace(",", "")) == 8 * int(each.replace(",", ""))


def test_a_run_goes_on_with_another_mesh(whole_run, tmp_path):
    path = tmp_path / "run"
    run("data:4,model:2", path, dataclasses.replace(SETTINGS, steps=2))
    assert_same_run(run("data:2,model:4", path, resume=True), whole_run)


class OnlyInPrograms(Transformer):
    """A transformer whose parameters must be made in a program, not one after the other on the first device."""

    def init(self, key):
        assert isinstance(key, jax.core.Tracer)
        return super().init(key)


def test_fresh_parameters_are_made_where_they_lie():
    policy = OnlyInPrograms(**{field.name: getattr(POLICY, field.name) for field in dataclasses.fields(POLICY)})
    mesh = make_mesh("data:4,model:2")
    found, whole = fresh_parameters(policy, 3, mesh), fresh_parameters(policy, 3, make_mesh("replica:8"))
    expected = shardings(placements(POLICY.placement_rules, found, mesh), mesh)
    for leaf, same, sharding in zip(*map(jax.tree.leaves, (found, whole, expected)), strict=True):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
        np.testing.assert_array_equal(leaf, same)
    kernel = found["layers"][0]["mlp"]["up_proj"]["kernel"]
    assert kernel.addressable_data(0).size == kernel.size // 8


def test_heads_that_a_mesh_would_cut_are_refused_before_anything_is_computed():
    policy = dataclasses.replace(POLICY, num_key_value_heads=2)
    with pytest.raises(ValueError, match="num_key_value_heads is 2, which cannot be split evenly over the 4 devices"):
        check_run(FIRST_TOKEN, policy, OBJECTIVE, SETTINGS, "data:2,model:4")


# Large enough that norms do not matter.
LARGE = dataclasses.replace(POLICY, hidden_size=512, intermediate_size=1024, remat="layer")
ADAM = make_optimizer("adam", 1e-3)


def compiled(mesh, objective, policy=LARGE):
    """The compiled update and sampler, and its abstract state and placements; nothing is allocated."""
    over_prompts = NamedSharding(mesh, PartitionSpec("data"))

    def abstract(tree, sharding):
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)

    with jax.set_mesh(mesh):
        state = jax.eval_shape(lambda: TrainState.create(policy.init(jax.random.key(0)), objective, ADAM, FIRST_TOKEN))
        placed = state_placements(state, policy, ADAM, mesh)
        state = jax.tree.map(abstract, state, shardings(placed, mesh))
        prompts = abstract(jax.eval_shape(lambda: choose_prompts(FIRST_TOKEN, 3, 0, PROMPTS)), over_prompts)
        key = abstract(jax.random.key(0), NamedSharding(mesh, PartitionSpec()))
        sampler = sample_groups.lower(FIRST_TOKEN, policy, state.parameters, prompts, key, GROUP_SIZE)
        trajectories = abstract(sampler.out_info, over_prompts)
        outcomes = Outcomes(
            *(
                jax.ShapeDtypeStruct((PROMPTS, GROUP_SIZE), dtype, sharding=over_prompts)
                for dtype in ("float32", "int32")
            )
        )
        update = compiled_update.lower(
            state,
            trajectories,
            outcomes,
            key,
            policy=policy,
            objective=objective,
            optimizer=ADAM,
            batching=Batching(micro_batches=2),
            temperature=1.0,
        )
        return update.compile(), sampler.compile(), state, placed


@pytest.fixture(scope="module")
def four_by_two():
    return make_mesh("data:4,model:2")


@pytest.fixture(scope="module")
def programs(four_by_two):
    return compiled(four_by_two, OBJECTIVE)


def test_a_device_holds_its_share_of_parameters_and_optimiser_state(programs, four_by_two):
    update, _, state, placed = programs
    in_all = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((state.parameters, state.optimizer_state)))
    memory = update.memory_analysis()
    # The arguments are the state and a few prompts, and all of the state is donated.
    assert memory.argument_size_in_bytes < 1.1 / 8 * in_all
    total = re.findall(r"[\d,]+", table(placed, state, four_by_two).splitlines()[-1])[-1]
    assert memory.alias_size_in_bytes == int(total.replace(",", ""))


def test_statistics_of_a_group_stay_on_its_device(programs, four_by_two):
    """They add no collective: neither to the same surrogate, nor to plain REINFORCE."""

    def sent(update):
        return collections.Counter(
            (one.kind, shape, one.group, one.times) for one in collectives(update.as_text()) for shape in one.shapes
        )

    reinforce = objectives.make("reinforce")
    without_statistics = dataclasses.replace(OBJECTIVE, reward_shaping=(), advantages=reinforce.advantages)
    with_statistics = sent(programs[0])
    assert with_statistics == sent(compiled(four_by_two, without_statistics)[0])
    more, less = with_statistics.copy(), sent(compiled(four_by_two, reinforce)[0])
    more.subtract(less)
    # What differs is the number of metrics: scalars, summed in one go with the gradient.
    assert {key for key, number in more.items() if number} <= {("all-reduce", (), (0, 2, 4, 6), 2)}


def test_only_parameters_gradients_and_hidden_states_are_sent(programs):
    """Never a batch of hidden states over `data`, which the compiler would choose where they are small."""
    tokens = PROMPTS * GROUP_SIZE * FIRST_TOKEN.max_tokens
    for program in programs[:2]:
        for one in collectives(program.as_text()):
            if one.kind == "all-gather" and one.group == (0, 2, 4, 6):
                assert all(len(shape) == 2 or np.prod(shape) <= tokens for shape in one.shapes), one


def test_the_sampler_gathers_parameters_once_and_keeps_its_cache_cut(programs):
    """Inside the loop over tokens, heads and the vocabulary are summed, and no matrix is sent."""
    _, sampler, state, _ = programs
    text = sampler.as_text()
    found = collectives(text)
    in_loop = [one for one in found if one.times == FIRST_TOKEN.max_tokens]
    largest = PROMPTS // 4 * GROUP_SIZE * LARGE.hidden_size * 4
    assert in_loop
    assert all(one.bytes <= largest for one in in_loop)
    once = sum(one.bytes for one in found if one.kind == "all-gather" and one.times == 1)
    matrices = sum(leaf.size * 4 for leaf in jax.tree.leaves(state.parameters) if leaf.ndim == 2)
    # Each device has half of every matrix in use, and for the prompts as well.
    assert once == matrices // 2
    # The cache, [P, K, G, T, d] over (data, model): sharded along both axes, and not along one or none.
    there, *elsewhere = (
        f"f32[{prompts},{heads},{GROUP_SIZE},{FIRST_TOKEN.max_tokens},{LARGE.head_width}]"
        for prompts, heads in ((PROMPTS // 4, 4), (PROMPTS // 4, 8), (PROMPTS, 4), (PROMPTS, 8))
    )
    assert there in text
    assert not any(shape in text for shape in elsewhere)


def test_devices_of_a_cpu_that_divide_nothing_but_prompts_gather_and_sum_once():
    """Neither in each of the micro-batches nor, but for the end of the loop, for each token."""
    update, sampler, state, _ = compiled(make_mesh("data:8"), OBJECTIVE, POLICY)
    sent = collectives(update.as_text())
    assert {one.times for one in sent} == {1}
    summed = [shape for one in sent if one.kind == "all-reduce" for shape in one.shapes]
    for leaf in jax.tree.leaves(state.parameters):
        assert leaf.shape in summed
    for one in collectives(sampler.as_text()):
        assert one.times == 1 or one.shapes == ((),)


def test_blocks_of_logits_send_nothing_over_data(four_by_two):
    """The unembedding is gathered, and its gradient summed, at most once in a micro-batch."""
    in_blocks = dataclasses.replace(IN_BLOCKS, hidden_size=512, tie_embeddings=False)
    update, *_ = compiled(four_by_two, OBJECTIVE, in_blocks)
    text = update.as_text()
    # A block has one column of logits; there is a block for each token.
    assert f"f32[2,{GROUP_SIZE},1,{FIRST_TOKEN.vocabulary_size // 2}]" in text
    over_data = [one for one in collectives(text) if one.group == (0, 2, 4, 6)]
    assert {one.times for one in over_data} <= {1, 2}
    assert any((in_blocks.hidden_size, FIRST_TOKEN.vocabulary_size // 2) in one.shapes for one in over_data)
