"""A small network that predicts from the prompt alone how well the policy will do on it."""

import functools

import jax.numpy as jnp
from flax import nnx
from jax import Array

from ipsrl.structures import Prompts

Parameters = dict


def init_scorer(rows: int, widths: tuple[int, int], key: Array) -> Parameters:
    """Fresh parameters; initial predictions are near one half.

    Args:
      rows: of the embedding table: tokens, or prompts if prompts have no tokens.
      widths: of the trunk, and of the layer below both heads.
    """
    return nnx.to_pure_dict(nnx.state(_Scorer(rows, widths, nnx.Rngs(key))))


def score_prompts(
    rows: int,
    widths: tuple[int, int],
    parameters: Parameters,
    prompts: Prompts,
    dropout: float = 0.0,
    key: Array | None = None,
) -> tuple[Array, Array]:
    """Logits `[P]` of the mean reward, and of the mean token probability of the answers.

    A prompt is its bag of tokens; a prompt without tokens is its index, with a row of its own.

    Args:
      dropout: share of units dropped, sampled with `key`; 0 for predictions.
    """
    scorer = nnx.merge(_graphdef(rows, widths), parameters)
    tokens, mask = prompts.tokens, prompts.mask
    if tokens.shape[1] == 0:
        tokens, mask = prompts.index[:, None], jnp.ones((len(prompts.index), 1), bool)
    rngs = None if key is None else nnx.Rngs(dropout=key)
    return scorer(tokens, mask, lambda x: x if rngs is None else nnx.Dropout(dropout)(x, rngs=rngs))


class _Scorer(nnx.Module):
    """The trunk of DEPO (arXiv 2602.06375), on a bag of tokens instead of the paper's encoder."""

    def __init__(self, rows: int, widths: tuple[int, int], rngs: nnx.Rngs):
        width, last = widths
        small, tiny = nnx.initializers.normal(0.02), nnx.initializers.normal(0.001)
        self.table = nnx.Embed(rows, width, embedding_init=small, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.blocks = nnx.List([_Block(width, rngs) for _ in range(2)])
        self.narrow = nnx.Linear(width, last, kernel_init=small, rngs=rngs)
        self.last_norm = nnx.LayerNorm(last, rngs=rngs)
        self.heads = nnx.Linear(last, 2, kernel_init=tiny, rngs=rngs)

    def __call__(self, tokens: Array, mask: Array, drop) -> tuple[Array, Array]:
        # The mean of the rows is a linear layer on the normalised bag.
        bag = jnp.where(mask[..., None], self.table(tokens), 0.0).sum(axis=1)
        x = nnx.gelu(self.norm(bag / jnp.maximum(mask.sum(axis=1, keepdims=True), 1)))
        for block in self.blocks:
            x = block(x, drop)
        x = drop(nnx.gelu(self.last_norm(self.narrow(x))))
        score, distillation = jnp.moveaxis(self.heads(x), -1, 0)
        return score, distillation


class _Block(nnx.Module):
    def __init__(self, width: int, rngs: nnx.Rngs):
        small = nnx.initializers.normal(0.02)
        self.first = nnx.Linear(width, width, kernel_init=small, rngs=rngs)
        self.first_norm = nnx.LayerNorm(width, rngs=rngs)
        self.second = nnx.Linear(width, width, kernel_init=small, rngs=rngs)
        self.second_norm = nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, x: Array, drop) -> Array:
        inside = drop(nnx.gelu(self.first_norm(self.first(x))))
        return nnx.gelu(x + self.second_norm(self.second(inside)))


@functools.cache
def _graphdef(rows: int, widths: tuple[int, int]) -> nnx.GraphDef:
    return nnx.graphdef(nnx.eval_shape(lambda: _Scorer(rows, widths, nnx.Rngs(0))))
