"""Our decoder against the PyTorch models of transformers, both ways, on tiny random checkpoints of every family."""

import dataclasses

import jax
import numpy as np
import pytest

from ipsrl.distributed.mesh import make_mesh
from ipsrl.policies.adapters import LoRA
from ipsrl.policies.hugging_face.configuration import read_policy
from ipsrl.policies.hugging_face.weights import load_parameters, save
from ipsrl.policies.policy import union
from ipsrl.training.language_model import LanguageModel
from tests.policies.hugging_face.decoder_families import FAMILIES, V, answered, config_of, left_padded, step_logits

torch = pytest.importorskip("torch", reason="compares with PyTorch, which scripts/test.sh --slow installs")
import transformers  # noqa: E402

pytestmark = pytest.mark.slow

READ_AHEAD, LENGTH = 11, 40
SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


@dataclasses.dataclass(frozen=True)
class Both:
    """A model in PyTorch, and what we read from the folder that it was saved in."""

    model: torch.nn.Module
    folder: object
    policy: object
    parameters: object
    tokens: np.ndarray
    logits: np.ndarray


def randomised(model):
    """Noise on all parameters, among them those that start as zeros or ones; little on the embeddings, because tied
    ones would make every token its own likeliest successor."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.05 if "embed_tokens" in name else 0.25))
    return model.eval()


def torch_logits(model, tokens):
    with torch.no_grad():
        return model(torch.as_tensor(tokens)).logits.float().numpy()


def stepped(policy, parameters, tokens):
    """`[P, LENGTH - READ_AHEAD, V]` logits after the tokens from number READ_AHEAD on, by `start` and `step`."""
    prompts = left_padded(list(tokens[:, : READ_AHEAD + 1]))
    return step_logits(policy, parameters, prompts, tokens[:, None, READ_AHEAD:])[:, 0]


@pytest.fixture(scope="module", params=FAMILIES)
def both(request, tmp_path_factory):
    config = transformers.AutoConfig.for_model(**config_of(request.param))
    # The only implementation that knows the caps of Gemma 2.
    model = randomised(transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    policy = read_policy(folder)
    tokens = np.random.default_rng(0).integers(0, V, (3, LENGTH))
    return Both(model, folder, policy, load_parameters(folder, policy), tokens, torch_logits(model, tokens))


def test_steps_give_their_logits(both):
    difference = np.abs(stepped(both.policy, both.parameters, both.tokens) - both.logits[:, READ_AHEAD:]).max()
    print(f"largest difference of logits: {difference:.1e} of {np.abs(both.logits).max():.1f}")  # pytest -rP shows it
    assert difference < 1e-4
    assert np.abs(both.logits).max() > 1  # they say something


def test_reading_gives_their_log_probabilities(both):
    log_probs, mask = jax.jit(both.policy.prompt_log_probs)(both.parameters, left_padded(list(both.tokens)), 1.0)
    assert mask[:, 1:].all()
    theirs = jax.nn.log_softmax(both.logits[:, :-1])
    theirs = np.take_along_axis(theirs, both.tokens[:, 1:, None], axis=-1)[..., 0]
    np.testing.assert_allclose(log_probs[:, 1:], theirs, atol=1e-4)


@pytest.mark.parametrize("both", ["llama 3", "qwen2 with windows", "gemma2", "gemma3"], indirect=True)
def test_generation_is_theirs_token_for_token(both):
    generated_by_both(both.model, both.policy, both.parameters, both.tokens)


@pytest.mark.parametrize("frozen", ["float32", "nf4"])
@pytest.mark.parametrize("both", ["llama 3", "gemma3"], indirect=True)
def test_a_model_with_adapters_answers_in_theirs_as_in_ours(both, frozen, tmp_path):
    trained = LanguageModel.read(str(both.folder), "float32", "none", LoRA(rank=2, alpha=4.0, frozen=frozen))
    adapters, rest = trained.load(make_mesh("data:1"))
    generator = np.random.default_rng(0)
    adapters = jax.tree.map(lambda leaf: leaf + 0.2 * generator.normal(size=leaf.shape).astype(np.float32), adapters)
    trained.export(tmp_path / "export", adapters, rest)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "export", attn_implementation="eager").eval()
    answers = generated_by_both(model, trained.policy, union(adapters, rest), both.tokens)
    # The adapters count.
    assert (answers != generated_by_both(both.model, both.policy, both.parameters, both.tokens)).any()


def generated_by_both(model, policy, parameters, tokens):
    """The likeliest answers `[3, 1, 24]` of a model of theirs, after it is asserted that they are ours as well."""
    # Prompts of different lengths on both sides of the window; padded on the left.
    prompts = left_padded([tokens[0, :3], tokens[1, :20], tokens[2, :9]])
    with torch.no_grad():
        theirs = model.generate(
            torch.tensor(np.asarray(prompts.tokens), dtype=torch.long),
            attention_mask=torch.tensor(np.asarray(prompts.mask), dtype=torch.long),
            max_new_tokens=24,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    theirs = theirs.numpy()[:, None, prompts.tokens.shape[1] :]
    given = answered(prompts, theirs, np.ones(theirs.shape, bool)).observations
    # After their tokens, the next one of theirs is our likeliest.
    np.testing.assert_array_equal(step_logits(policy, parameters, prompts, given).argmax(-1), theirs)
    assert len(np.unique(theirs)) > 6  # not one token for ever
    return theirs


def test_they_load_our_export(both, tmp_path):
    save(tmp_path / "export", both.policy, both.parameters, both.folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "export", attn_implementation="eager").eval()
    assert type(model) is type(both.model)
    np.testing.assert_array_equal(torch_logits(model, both.tokens), both.logits)


@pytest.mark.parametrize("both", ["llama 3", "qwen3", "gemma3"], indirect=True)
def test_bfloat16_is_as_near_to_float32_as_theirs(both):
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        both.folder, attn_implementation="eager", dtype=torch.bfloat16
    ).eval()
    their_error = torch_logits(theirs, both.tokens)[:, READ_AHEAD:] - both.logits[:, READ_AHEAD:]
    in_bfloat16 = dataclasses.replace(both.policy, dtype="bfloat16")
    ours = stepped(in_bfloat16, both.parameters, both.tokens)
    our_error = ours - both.logits[:, READ_AHEAD:]
    assert np.sqrt(np.mean(our_error**2)) < 1.1 * np.sqrt(np.mean(their_error**2))


def test_the_text_decoder_of_a_multi_modal_model(tmp_path):
    text = config_of("gemma3") | {"pad_token_id": 0, "final_logit_softcapping": None}
    config = transformers.Gemma3Config(
        text_config=text, vision_config=SIGLIP, mm_tokens_per_image=4, image_token_index=V - 1
    )
    model = randomised(transformers.Gemma3ForConditionalGeneration._from_config(config, attn_implementation="eager"))
    model.save_pretrained(tmp_path / "multi-modal")
    policy = read_policy(tmp_path / "multi-modal")
    parameters = load_parameters(tmp_path / "multi-modal", policy)
    tokens = np.random.default_rng(0).integers(0, V - 1, (3, LENGTH))
    logits = torch_logits(model, tokens)
    np.testing.assert_allclose(stepped(policy, parameters, tokens), logits[:, READ_AHEAD:], atol=1e-4)
    save(tmp_path / "export", policy, parameters, tmp_path / "multi-modal")
    alone = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "export", attn_implementation="eager").eval()
    assert type(alone) is transformers.Gemma3ForCausalLM
    np.testing.assert_allclose(torch_logits(alone, tokens), logits, atol=1e-5)
