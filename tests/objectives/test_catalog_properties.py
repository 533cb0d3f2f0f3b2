"""What every objective promises, generated from the catalog: `rows.py` says what a new row has to declare."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ipsrl.objectives import make, names
from ipsrl.objectives.aggregation import SequenceSum
from ipsrl.objectives.objective import FIELDS_BY_SHAPE
from ipsrl.objectives.penalties.mastered_divergence import MasteredDivergence
from tests.objectives.declared import ROWS
from tests.objectives.groups import greedy_of, parts_of, random_rollouts, sizes
from tests.objectives.rows import SILENCE
from tests.tiers import slow_after

EVERY = [*names(), *(text for text in ROWS if text not in names())]
# Every row by itself, and as a slow test with each declared variant of its arguments.
every_objective = pytest.mark.parametrize(
    "text", [text if text in names() else pytest.param(text, marks=pytest.mark.slow) for text in EVERY]
)

PROMPTS, GROUP, LENGTH = 4, 7, 5  # float32's mean of seven times 0.1 is not 0.1
PADDING = 3
FREE = 3  # places of a group that hold empty answers
BETWEEN = np.array(
    [5, 0, 6, 1, 7, 2, 3, 4]
)  # the columns of wide arrays, with the padding before and between the tokens
SIZES = sizes(PROMPTS)
KEEPING = [
    text for text in EVERY if any(leaf.shape[:1] == (PROMPTS,) for leaf in jax.tree.leaves(make(text).init(SIZES)))
]
GROUP_FIELDS = [name for axes in ("PG", "PGM", "PGH", "PGT", "PGTK") for name in FIELDS_BY_SHAPE[axes]] + ["tokens"]
TOKEN_FIELDS = [*FIELDS_BY_SHAPE["PGT"], "tokens", *FIELDS_BY_SHAPE["PGTK"]]
ORDERS = [np.random.default_rng(1).permutation(size) for size in (PROMPTS, GROUP)]


def covering():
    """A dozen rows with as many kinds of parts as a dozen can have."""
    kinds = {
        text: {type(part) for part in (*objective.parts, objective.aggregation, objective.first)}
        for text, objective in ((text, make(text)) for text in names())
    }
    chosen, seen = [], set()
    for _ in range(12):
        chosen.append(max(kinds, key=lambda text: len(kinds[text] - seen)))
        seen |= kinds[chosen[-1]]
    return chosen


def replace_fields(change, structure, fields):
    return dataclasses.replace(structure, **{name: change(getattr(structure, name)) for name in fields})


def reordered(axis, rollouts, scores):
    def reorder(values):
        return jnp.take(values, ORDERS[axis], axis)

    rollouts = jax.tree.map(reorder, rollouts) if axis == 0 else replace_fields(reorder, rollouts, GROUP_FIELDS)
    return rollouts, jax.tree.map(reorder, scores)


def padded(rollouts, scores, padding, garbage):
    """Wider arrays; what lies behind the masks is 0, or garbage."""
    rng = np.random.default_rng(2)

    def pad(values, columns=(0, padding), axis=2):
        widths = [(0, 0)] * values.ndim
        widths[axis] = columns
        wide = np.pad(values, widths)
        if values.dtype == bool or not garbage:
            return wide
        return np.where(np.pad(np.ones(values.shape, bool), widths), wide, rng.uniform(-60, 60, wide.shape)).astype(
            values.dtype
        )

    rollouts = replace_fields(pad, rollouts, TOKEN_FIELDS)
    rollouts = replace_fields(lambda values: pad(values, (2, 0), axis=1), rollouts, FIELDS_BY_SHAPE["PL"])
    return rollouts, jax.tree.map(pad, scores)


@functools.cache
def batches(padding):
    """A batch whose groups have no reward, reward for all, and twice both, and the wide batches made from it."""
    rollouts, scores = random_rollouts(0, PROMPTS, GROUP, LENGTH)
    # No reward is the mean of its group: clips would look at the sign of a rounding error. One group has a single best.
    rewards = rollouts.rewards.at[0].set(0.0).at[1].set(1.0).at[2:, 0].set(0.95).at[3, 1].set(1.25)
    rollouts = dataclasses.replace(
        rollouts, rewards=rewards, reward_parts=parts_of(rewards), greedy_rewards=greedy_of(rewards)
    )
    equal = jnp.full_like(rewards, 0.1)
    assert (equal.mean(axis=-1) != equal[:, 0]).all()  # so that subtracting the mean alone would not do

    def rewarded(rewards, **fields):
        fields |= {"rewards": rewards, "reward_parts": parts_of(rewards), "greedy_rewards": greedy_of(rewards)}
        return dataclasses.replace(rollouts, **fields), scores

    def stale(log_ratio):
        return rollouts, dataclasses.replace(scores, log_probs=rollouts.behaviour_log_probs + log_ratio)

    wide = {
        "plain": (rollouts, scores),
        "prompts": reordered(0, rollouts, scores),
        "group": reordered(1, rollouts, scores),
        "shifted": rewarded(rewards + 0.75),
        "scaled": rewarded(rewards * 3.0),
        "no reward": rewarded(jnp.zeros_like(equal)),
        "one outcome": rewarded(equal, outcome_id=jnp.ones_like(rollouts.outcome_id)),
        "equal rewards": rewarded(equal),
        "stale": stale(100.0),
        "fresh": stale(-100.0),
    }
    wide = {name: padded(*batch, padding, garbage=False) for name, batch in wide.items()}
    wide["garbage"] = padded(rollouts, scores, padding, garbage=True)
    columns = BETWEEN if padding else np.arange(LENGTH)
    of_others, of_scores = wide["garbage"]
    wide["dictated"] = (
        replace_fields(lambda values: values[:, :, columns], of_others, TOKEN_FIELDS),
        jax.tree.map(lambda values: values[:, :, columns], of_scores),
    )
    return (rollouts, scores), list(wide), jax.tree.map(lambda *leaves: jnp.stack(leaves), *wide.values())


def with_empty_answers(rollouts, scores):
    """Groups with `FREE` more places, which hold what `best_answers` and `replayed_modes` put there."""

    def longer(values):
        return jnp.pad(values, [(0, 0), (0, FREE), *[(0, 0)] * (values.ndim - 2)])

    rollouts = replace_fields(longer, rollouts, GROUP_FIELDS)
    free = jnp.arange(GROUP + FREE) >= GROUP
    outcome_id, off_policy = jnp.where(free, -1, rollouts.outcome_id), rollouts.off_policy | free
    return dataclasses.replace(rollouts, outcome_id=outcome_id, off_policy=off_policy), jax.tree.map(longer, scores)


def evaluate(objective, rollouts, scores):
    """Weights, the output of a batch on its own, and the gradient of the loss by the scores."""
    weights, _, _ = objective.weigh(rollouts, objective.init(SIZES))

    def loss(scores):
        output = objective(scores, rollouts, SIZES)
        return output.loss_sum, output

    gradient, output = jax.grad(loss, has_aux=True)(scores)
    return weights, output, gradient


def gradient_by_rollouts(function, rollouts):
    leaves, structure = jax.tree.flatten(rollouts)
    is_real = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def of_reals(reals):
        reals = iter(reals)
        merged = [next(reals) if real else leaf for real, leaf in zip(is_real, leaves, strict=True)]
        return function(jax.tree.unflatten(structure, merged))

    return jax.grad(of_reals)([leaf for real, leaf in zip(is_real, leaves, strict=True) if real])


def padding_of(text):
    """Tokens by which arrays are wider than answers: none where the width means something, or draws go by places."""
    return 0 if text in ROWS and (ROWS[text].reads_width or ROWS[text].random) else PADDING


def factor_of(text):
    """What padding does to the loss: a constant length is the one thing that the width of arrays may mean."""
    is_width = make(text).aggregation == SequenceSum(length=None)
    return LENGTH / (LENGTH + padding_of(text)) if is_width else 1.0


@functools.partial(jax.jit, static_argnames="objective")
def program(objective, batch, wide):
    """All that the tests below ask of an objective: one program, as compiling is what they cost."""
    rollouts, scores = batch
    weights, _, _ = objective.weigh(rollouts, objective.init(SIZES))
    halves = jax.tree.map(lambda leaf: leaf.reshape(2, PROMPTS // 2, *leaf.shape[1:]), (scores, rollouts, weights))
    statistics = jax.tree.map(lambda leaf: leaf.sum(axis=0), jax.vmap(objective.statistics)(*halves))
    pieces = jax.vmap(lambda *half: objective.loss(*half, objective.init_parameters(SIZES), statistics))(*halves)
    return {
        "wide": jax.vmap(functools.partial(evaluate, objective))(*wide),
        "narrow weights": weights,
        "pieces": jax.tree.map(lambda leaf: leaf.sum(axis=0), pieces),
    }


@functools.cache
def facts(text):
    """What `program` finds, in NumPy, with the wide batches by their names."""
    batch, named, wide = batches(padding_of(text))
    found = jax.device_get(program(make(text), batch, wide))
    wide = found.pop("wide")
    return found | {name: jax.tree.map(lambda leaf, at=at: leaf[at], wide) for at, name in enumerate(named)}


def assert_close(actual, expected, rtol=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5), actual, expected)


@pytest.mark.parametrize("name", names())
def test_every_row_of_the_catalog_is_declared(name):
    row = ROWS[name]
    assert row.tokens is not None, f"{name!r} declares no tokens: its loss off-policy, see token_values.py"


@pytest.mark.parametrize("text", slow_after(2, covering()))
def test_neither_jit_nor_padding_changes_anything(text):
    """Op by op at the width of the answers, against the program's wide arrays with garbage behind the masks."""
    weights, output, gradient = evaluate(make(text), *batches(padding_of(text))[0])
    wide_weights, wide_output, wide_gradient = facts(text)["garbage"]
    assert_close(jax.tree.map(lambda leaf: leaf[..., :LENGTH], wide_weights), weights)
    assert_close(wide_output, dataclasses.replace(output, loss_sum=output.loss_sum * factor_of(text)))
    for wide, narrow in zip(jax.tree.leaves(wide_gradient), jax.tree.leaves(gradient), strict=True):
        assert_close(wide[:, :, :LENGTH], narrow * factor_of(text))


@every_objective
@pytest.mark.parametrize("axis", ["prompts", "group"])
def test_order_does_not_matter(text, axis):
    if axis == "group" and ROWS[text].random:
        pytest.skip("it draws for each place in the group")
    number = ("prompts", "group").index(axis)
    weights, output, gradient = facts(text)["plain"]

    def reorder(leaf):
        # A coefficient has 1 in the place of an axis along which it is constant.
        return np.take(leaf, ORDERS[number], number) if leaf.shape[number] > 1 else leaf

    assert_close(facts(text)[axis], (jax.tree.map(reorder, weights), output, jax.tree.map(reorder, gradient)))


@pytest.mark.parametrize("text", KEEPING)
def test_a_table_of_prompts_takes_all_groups_of_a_prompt(text):
    objective, (rollouts, scores) = make(text), batches(0)[0]
    rollouts = dataclasses.replace(rollouts, prompt_index=jnp.array([2, 0, 2, 2]))
    weigh = jax.jit(objective.weigh)

    def kept(order):
        state = objective.init(SIZES)
        for batch in (rollouts, reordered(1, rollouts, scores)[0]):
            _, state, _ = weigh(jax.tree.map(lambda leaf: leaf[order], batch), state)
        return state

    found = kept(jnp.arange(PROMPTS))
    assert_close(found, kept(jnp.arange(PROMPTS)[::-1]))
    # And it has taken something.
    with pytest.raises(AssertionError):
        assert_close(found, objective.init(SIZES))


@every_objective
def test_shift_and_scale_of_rewards_act_exactly_as_promised(text):
    plain, shifted, scaled = (facts(text)[name][0].advantages for name in ("plain", "shifted", "scaled"))
    assert np.allclose(shifted, plain, rtol=1e-4, atol=1e-5) == ROWS[text].shift
    if ROWS[text].degree is not None:
        assert_close(scaled, plain * 3.0 ** ROWS[text].degree)
    assert np.abs(plain).max() > 0.1


@every_objective
def test_groups_that_say_nothing_get_exactly_zero(text):
    for kind in SILENCE["equal rewards"]:
        promised = kind in SILENCE[ROWS[text].silent]
        assert (np.abs(facts(text)[kind][0].advantages).max() == 0.0) == promised, kind


@pytest.mark.parametrize(
    "text",
    [text if text in {*covering(), "tsallis"} else pytest.param(text, marks=pytest.mark.slow) for text in names()],
)
def test_advantages_are_constants(text):
    objective = make(text)

    def squared(rollouts):
        weights, _, _ = objective.weigh(rollouts, objective.init(SIZES))
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(weights))

    slopes = jax.jit(functools.partial(gradient_by_rollouts, squared))(batches(padding_of(text))[0][0])
    assert all((leaf == 0).all() for leaf in slopes)


@every_objective
def test_what_lies_behind_the_mask_changes_nothing(text):
    _, output, gradient = facts(text)["plain"]
    weights, garbage_output, garbage_gradient = facts(text)["garbage"]
    assert_close(jax.tree.map(lambda leaf: leaf[..., :LENGTH], weights), facts(text)["narrow weights"])
    assert_close((garbage_output, garbage_gradient), (output, gradient))
    mask = batches(padding_of(text))[0][0].token_mask
    for leaf in jax.tree.leaves(garbage_gradient):
        assert not leaf[:, :, :LENGTH][~mask].any()
        assert not leaf[:, :, LENGTH:].any()


@every_objective
def test_tokens_that_the_environment_dictates_change_nothing(text):
    row = ROWS.get(text)
    if not padding_of(text) or (row and row.reads_dictated) or "step_log_backward" in make(text).needs:
        pytest.skip("the width or the dictated tokens mean something, it draws for places, or it is refused there")
    weights, output, gradient = facts(text)["garbage"]

    def moved(leaf):
        return leaf[:, :, BETWEEN] if leaf.shape[2] > 1 else leaf

    assert_close(facts(text)["dictated"], (jax.tree.map(moved, weights), output, jax.tree.map(moved, gradient)))


@every_objective
def test_pieces_of_a_batch_sum_to_the_whole(text):
    """The pieces are as wide as their answers, the whole is wider."""
    pieces, (_, whole, _) = facts(text)["pieces"], facts(text)["plain"]
    pieces = dataclasses.replace(pieces, loss_sum=pieces.loss_sum * factor_of(text))
    assert_close(pieces, dataclasses.replace(whole, metrics={name: whole.metrics[name] for name in pieces.metrics}))


@every_objective
@pytest.mark.parametrize("batch", ["stale", "fresh"])
def test_stale_tokens_leave_gradients_finite(text, batch):
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(facts(text)[batch]))


def smallest_group(text):
    return max(part.smallest_group for part in make(text).parts)


@pytest.mark.parametrize("text", [text for text in names() if smallest_group(text) > 1])
def test_groups_that_are_too_small_are_refused_when_called_directly(text):
    size = smallest_group(text)
    rollouts, scores = random_rollouts(1, 2, size - 1)
    with pytest.raises(ValueError, match=f"group_size is {size - 1}, it must be at least {size}"):
        make(text)(scores, rollouts, sizes(2))


@pytest.mark.parametrize("text", slow_after(1, EVERY))
def test_the_smallest_groups_are_finite(text):
    objective = make(text)
    rollouts, scores = random_rollouts(1, 3, smallest_group(text))

    @jax.jit
    def gradient(scores):
        return jax.value_and_grad(lambda scores: objective(scores, rollouts, sizes(3)).loss_sum)(scores)

    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(scores)))


@functools.partial(jax.jit, static_argnames="objective")
def gradients_with_empty_answers(objective, rollouts, scores):
    """Of the mean loss by the scores: with empty answers in the groups; without them, for the same weights; and without
    them altogether.
    """
    longer, of_longer = with_empty_answers(rollouts, scores)
    weights, _, _ = objective.weigh(longer, objective.init(SIZES))

    def gradient(rollouts, scores, weights):
        def loss(scores):
            output = objective.loss(scores, rollouts, weights, objective.init_parameters(SIZES))
            return output.loss_sum / output.count

        return jax.grad(loss)(scores)

    shorter = jax.tree.map(lambda leaf: leaf[:, :GROUP], weights)
    alone, _, _ = objective.weigh(rollouts, objective.init(SIZES))
    return gradient(longer, of_longer, weights), gradient(rollouts, scores, shorter), gradient(rollouts, scores, alone)


def unlikely():
    """Groups of all kinds of rewards, whose answers are as unlikely as those of language models are."""
    rollouts, scores = random_rollouts(4, PROMPTS, GROUP, LENGTH)
    rewards = jnp.stack([jnp.roll(jnp.array([1.25, 0.95, 1.0, 0.0, 0.0, 1.0, 0.0]), place) for place in range(PROMPTS)])

    def rarer(log_probs):
        return jnp.where(rollouts.token_mask, log_probs - 8.0, log_probs)

    policies = ("behaviour_log_probs", "reference_log_probs", "proximal_log_probs")
    rollouts = replace_fields(rarer, rollouts, policies)
    parts = {"reward_parts": parts_of(rewards), "greedy_rewards": greedy_of(rewards)}
    return dataclasses.replace(rollouts, rewards=rewards, **parts), replace_fields(rarer, scores, ["log_probs"])


beside_empty_answers = pytest.mark.parametrize(
    "text",
    [
        text
        if text in {*covering(), "a2po", "dmpo", "gfpo", "gvpo", "lpo", "tsallis(q=0.5)", "vargrad"}
        else pytest.param(text, marks=pytest.mark.slow)
        for text in EVERY
    ],
)


@beside_empty_answers
def test_the_loss_of_a_group_is_that_of_its_answers_without_the_empty_ones(text):
    """Given their weights, of which empty answers are a part: these compare rewards, and an empty one has none."""
    longer, shorter, _ = gradients_with_empty_answers(make(text), *batches(0)[0])
    for found, expected in zip(jax.tree.leaves(longer), jax.tree.leaves(shorter), strict=True):
        assert_close(found[:, :GROUP], expected)
        assert not found[:, GROUP:].any()


@beside_empty_answers
def test_empty_answers_outweigh_no_others(text):
    """They change a gradient as three answers without reward can; as answers of probability 1 they would rule it."""
    if any(isinstance(part, MasteredDivergence) for part in make(text).parts):
        pytest.skip("three answers without reward more may make a group unmastered, which then has another loss")
    longer, _, alone = (gradient.log_probs for gradient in gradients_with_empty_answers(make(text), *unlikely()))
    longer, alone = np.float64(longer[:, :GROUP]), np.float64(alone)
    size, of_alone = np.linalg.norm(longer), np.linalg.norm(alone)
    assert of_alone / 5 < size < 5 * of_alone
    assert (longer * alone).sum() > 0.5 * size * of_alone
