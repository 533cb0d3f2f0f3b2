"""Our selective state-space model against Mamba in PyTorch, with the same parameters."""

import jax
import numpy as np
import pytest

from ipsrl.policies.state_space import StateSpace
from tests.policies.hugging_face.decoder_families import answered, left_padded

torch = pytest.importorskip("torch", reason="compares with PyTorch, which scripts/test.sh --slow installs")
import transformers  # noqa: E402

pytestmark = pytest.mark.slow

V, T = 13, 9
POLICY = StateSpace(V, hidden_size=32, num_layers=2, state_size=4)


def test_scores_equal_mambas():
    torch.manual_seed(0)
    config = transformers.MambaConfig(
        vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=4, expand=2, conv_kernel=4, use_cache=False
    )
    model = transformers.MambaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    weights = {name: leaf.detach().numpy() for name, leaf in model.backbone.named_parameters()}
    inner = POLICY.inner_size

    def layer(number):
        of = {name: weights[f"layers.{number}.mixer.{name}"] for name in ("A_log", "D", "conv1d.bias", "dt_proj.bias")}
        kernel = {
            name: weights[f"layers.{number}.mixer.{name}.weight"].T
            for name in ("in_proj", "x_proj", "dt_proj", "out_proj")
        }
        return {
            "norm": {"scale": weights[f"layers.{number}.norm.weight"]},
            "mixer": {
                "in_proj": {"kernel": kernel["in_proj"][:, :inner]},
                "gate_proj": {"kernel": kernel["in_proj"][:, inner:]},
                "conv1d": {
                    "kernel": weights[f"layers.{number}.mixer.conv1d.weight"][:, 0].T,
                    "bias": of["conv1d.bias"],
                },
                "x_proj": {"kernel": kernel["x_proj"]},
                "dt_proj": {"kernel": kernel["dt_proj"], "bias": of["dt_proj.bias"]},
                "A_log": of["A_log"],
                "D": of["D"],
                "out_proj": {"kernel": kernel["out_proj"]},
            },
        }

    parameters = {
        "embedding": weights["embeddings.weight"],
        "layers": {number: layer(number) for number in range(2)},
        "norm_f": {"scale": weights["norm_f.weight"]},
    }
    assert jax.tree.map(np.shape, parameters) == jax.tree.map(np.shape, POLICY.init(jax.random.key(0)))
    tokens = np.random.default_rng(0).integers(0, V, (2, 1, T))
    with torch.no_grad():
        expected = torch.log_softmax(model(torch.as_tensor(tokens[:, 0])).logits, dim=-1).numpy()
    trajectories = answered(left_padded([tokens[0, 0, :1], tokens[1, 0, :1]]), tokens[:, :, 1:], np.ones((2, 1, T - 1)))
    found = POLICY.score(parameters, trajectories, 1.0).log_probs
    chosen = np.take_along_axis(expected[:, :-1], tokens[:, 0, 1:, None], axis=-1)[..., 0]
    assert np.asarray(found[:, 0]) == pytest.approx(chosen, abs=2e-5)
