import numpy as np
import pytest

pytest.importorskip("torch", reason='pip install -e ".[trl]"')

import jax
import torch

from ipsrl import objectives
from ipsrl.integrations import loss_of_rows
from ipsrl.integrations.guest import GuestObjective
from ipsrl.integrations.rows import Rows
from ipsrl.integrations.torch_bridge import TorchBridge, to_array, to_tensor
from ipsrl.structures import Sizes
from tests.integrations.test_guest import GROUP, LENGTH, PROMPTS, PROVIDED, UNDRAWN, ours
from tests.objectives.groups import random_rollouts

LONGEST = 9


def tensor(values):
    return torch.from_numpy(np.array(values))


def bridge(objective):
    return TorchBridge(GuestObjective(objective, GROUP, "a trainer", PROVIDED, right_above=0.0), LONGEST)


def given(seed=0, length=LENGTH):
    rollouts, scores = random_rollouts(seed, PROMPTS, GROUP, length, binary=False)
    rows = Rows.of(rollouts)
    scores = [tensor(values).reshape(-1, length) for values in (scores.log_probs, scores.entropy)]
    return rows, scores


def weighed(made, rows):
    fields = {name: tensor(values) for name, values in vars(rows).items() if name != "right_above"}
    prompts, outcomes = fields.pop("prompt_index").tolist(), fields.pop("outcome_id").numpy()
    return made.weigh(prompts, fields.pop("rewards"), outcomes, **fields)[0]


CASES = [(name, torch.float32) for name in UNDRAWN] + [(name, torch.bfloat16) for name in UNDRAWN[:6]]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_gradients_are_those_of_jax(name, dtype):
    """Answers are ragged; in bfloat16 the scores are rounded first, and the gradient last."""
    objective, made = objectives.make(name), bridge(name)
    rows, scores = given()
    leaves = [values.to(dtype).requires_grad_() for values in scores]
    batch = weighed(made, rows)
    loss, _ = made.loss(*leaves, batch, made.count(tensor(rows.token_mask)))
    (3 * loss).backward()
    rounded = [np.asarray(leaf.detach().float()) for leaf in leaves]
    padded = jax.tree.map(lambda v: np.pad(v, ((0, 0), (0, LONGEST - LENGTH))) if v.ndim == 2 else v, rows)
    wide = [np.pad(values, ((0, 0), (0, LONGEST - LENGTH))) for values in rounded]
    sizes = Sizes(PROMPTS)
    value, gradients = ours(objective, padded, *wide, objective.init(sizes), objective.init_parameters(sizes))
    np.testing.assert_allclose(loss.item(), value, rtol=1e-5, atol=1e-6)
    for leaf, wanted in zip(leaves, gradients, strict=True):
        assert leaf.grad.dtype == dtype
        expected = tensor(3 * wanted[:, :LENGTH])
        largest = max(1.0, float(expected.abs().max()))
        # In bfloat16 to the last of its 8 digits, in which a number may be rounded up or down.
        torch.testing.assert_close(
            leaf.grad, expected.to(dtype), rtol=0 if dtype == torch.float32 else 2**-7, atol=1e-6 * largest
        )


def test_ragged_lengths_compile_nothing_new():
    made = bridge("ips_grpo(floor=0.2)")
    sizes = []
    for seed, length in enumerate((LENGTH, 3, LONGEST, 7, 4)):
        rows, scores = given(seed, length)
        leaves = [values.requires_grad_() for values in scores]
        made.loss(*leaves, weighed(made, rows), made.count(tensor(rows.token_mask)))[0].backward()
        programs = loss_of_rows.weigh_rows, loss_of_rows.loss_and_gradients, loss_of_rows.count_rows
        sizes.append([program._cache_size() for program in programs])
    assert sizes[0] == sizes[-1]


def test_an_answer_that_is_too_long_is_refused():
    rows, _ = given(length=LONGEST + 1)
    with pytest.raises(ValueError, match="an answer has 10 tokens, and the longest possible one 9"):
        weighed(bridge("grpo"), rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool], ids=str)
def test_memory_is_shared(dtype):
    there = torch.ones(64, 16, dtype=dtype)
    array = to_array(there)
    assert array.unsafe_buffer_pointer() == there.data_ptr()
    assert to_tensor(array, there.device).data_ptr() == there.data_ptr()
