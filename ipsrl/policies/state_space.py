"""A selective state-space model, Mamba (arXiv 2312.00752), as a policy for text: it sees the token before each action.

Where a transformer attends to all tokens before, each layer carries a state of fixed size from token to token, so that
sampling takes the same time and memory whatever the length:

    u, z  = W_in x, W_gate x                          inner width D = expansion * hidden_size
    c     = silu(causal convolution of u over time)   each channel by itself
    r, B, C = W_x c                                   widths R = hidden_size / 16, N, N
    d     = softplus(W_dt r + b)                      [D], how long a step is for each channel
    h_t   = exp(d_t A) h_(t-1) + d_t c_t B_t          [D, N], A = -exp(A_log)
    out   = W_out ((C_t h_t + D_skip c_t) silu(z))

and x + out(RMSNorm(x)) is the next layer's x. Whole texts are scored by a parallel scan, in chunks; sampling takes one
step with the carried state. A group shares its prompt, which is read once.
"""

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from ipsrl.checking.fields import Checked, between, one_of, positive
from ipsrl.distributed.placement import REPLICATED, PlacementRules
from ipsrl.policies.keys import Keys, graph, layer_parameters
from ipsrl.policies.matmul import activation_dtype, matrix_product
from ipsrl.policies.policy import Actions, Parameters, answer_mean, prompt_log_probs, score_hidden
from ipsrl.policies.selective_scan import selective_scan
from ipsrl.structures import PolicyScores, Prompts, Trajectories, select

MOST_LAYERS = 256
LOGITS_AT_ONCE = 2**27
"""Number of logits of scored tokens in memory at once; they take half a GiB."""
SHORTEST_STEP, LONGEST_STEP = 1e-3, 0.1
"""Range of the initial steps d."""


class Carry(NamedTuple):
    """The state of a layer after the tokens so far.

    Attributes:
      inputs: `[..., W - 1, D]`, the last inputs u of the convolution.
      state: `[..., D, N]` float32, h.
    """

    inputs: Array
    state: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StateCache:
    """State of `step`, leaves `[P, G, ...]`.

    Attributes:
      now: of each layer, after all observations so far.
      before: of each layer, before the last one; read only where trajectories wait, and so may read it again.
      read: `[P, G]` int32, number of observations so far.
    """

    now: tuple[Carry, ...]
    before: tuple[Carry, ...]
    read: Array


@dataclasses.dataclass(frozen=True)
class StateSpace(Checked):
    """A selective state-space model: its hyper-parameters and its `Policy` interface.

    Parameters are a nested dict of float32 arrays, named as in Mamba: `embedding`, `layers` -> number -> `norm` and
    `mixer` (`in_proj`, `gate_proj`, `conv1d`, `x_proj`, `dt_proj`, `A_log`, `D`, `out_proj`), then `norm_f`. A `kernel`
    is `[in, out]`, that of the convolution `[W, D]`. Mamba's own `in_proj` is ours beside `gate_proj`. Logits are
    products with the token embeddings.

    Attributes:
      vocabulary_size: V, number of tokens, and of logits.
      hidden_size: width of the residual stream, which is always float32.
      num_layers: number of layers.
      state_size: N, numbers in the state of a channel.
      expansion: D / hidden_size.
      convolution: W, number of tokens that the convolution spans.
      rms_norm_epsilon: added to the mean square.
      dtype: "float32" or "bfloat16", of operands of matrix products and, except on CPU, results; not of the scan.
      chunk: number of tokens whose states exist at the same time in scoring, see `selective_scan`.

    Raises:
      ValueError: a size is out of range.
    """

    optional_fields: ClassVar[frozenset[str]] = frozenset({"prompt_log_probs", "answer_features"})
    placement_rules: ClassVar[PlacementRules] = REPLICATED

    vocabulary_size: int = positive()
    hidden_size: int = positive(128)
    num_layers: int = between(1, MOST_LAYERS, 4)
    state_size: int = positive(16)
    expansion: int = positive(2)
    convolution: int = positive(4)
    rms_norm_epsilon: float = positive(1e-5)
    dtype: str = one_of("float32", "bfloat16", default="float32")
    chunk: int = positive(4)

    @property
    def inner_size(self) -> int:
        """D, the number of channels with a state."""
        return self.expansion * self.hidden_size

    def init(self, key: Array) -> Parameters:
        """Fresh float32 parameters, distributed as in Mamba's reference code.

        Matrices are uniform up to inputs^-1/2, those that write to the residual stream smaller by sqrt(num_layers);
        A = -(1 .. N) for every channel, and the steps d are log-uniform from 0.001 to 0.1.
        """
        return nnx.to_pure_dict(nnx.state(_Network(self, Keys(key))))

    def init_layer(self, key: Array, number: int | Array) -> Parameters:
        return layer_parameters(functools.partial(_Layer, self), key, number)

    def start(self, parameters: Parameters, prompts: Prompts, group_size: int, max_tokens: int) -> StateCache:
        """Reads all but the last token of each prompt, once; `max_tokens` does not matter."""
        _, carries = self._network(parameters).read(prompts.tokens[:, None, :-1], prompts.mask[:, None, :-1])
        now = jax.tree.map(lambda leaf: jnp.repeat(leaf, group_size, axis=1), carries)
        return StateCache(now, now, jnp.zeros((len(prompts.tokens), group_size), jnp.int32))

    def step(
        self, parameters: Parameters, cache: StateCache, observations: Array, position: Array
    ) -> tuple[Array, StateCache]:
        network, now, before = self._network(parameters), cache.now, cache.before
        if position.ndim:
            now = before = jax.tree.map(functools.partial(select, position < cache.read), cache.before, cache.now)
        hidden, after = network.read(observations[..., None], None, now)
        read = jnp.broadcast_to(position + 1, cache.read.shape)
        return network.logits(hidden[:, :, 0]), StateCache(after, before, read)

    def score(self, parameters: Parameters, trajectories: Trajectories, temperature: float) -> PolicyScores:
        """Log-probabilities and entropies `[P, G, T]` of all sampled tokens, in one pass over prompts and answers."""
        network, prompts = self._network(parameters), trajectories.prompts
        _, carries = network.read(prompts.tokens[:, None, :-1], prompts.mask[:, None, :-1])
        hidden, _ = network.read(trajectories.observations, None, carries)
        return self._score(network, hidden, Actions.of(trajectories), temperature)

    def prompt_log_probs(self, parameters: Parameters, prompts: Prompts, temperature: float) -> tuple[Array, Array]:
        network = self._network(parameters)
        hidden, _ = network.read(prompts.tokens[:, None], prompts.mask[:, None])
        return prompt_log_probs(prompts, lambda actions: self._score(network, hidden[:, :, :-1], actions, temperature))

    def answer_features(self, parameters: Parameters, trajectories: Trajectories) -> Array:
        network, prompts = self._network(parameters), trajectories.prompts
        _, carries = network.read(prompts.tokens[:, None], prompts.mask[:, None])
        hidden, _ = network.read(trajectories.tokens, None, carries)
        return answer_mean(hidden, trajectories.written)

    def _score(self, network: "_Network", hidden: Array, actions: Actions, temperature: float) -> PolicyScores:
        at_once = max(1, LOGITS_AT_ONCE // (hidden.shape[0] * hidden.shape[1] * self.vocabulary_size))
        return score_hidden(network.logits, hidden, actions, temperature, at_once)

    def _network(self, parameters: Parameters) -> "_Network":
        return nnx.merge(graph(_Network, self), parameters)


class _Network(nnx.Module):
    """Token embeddings, layers, and the last norm."""

    def __init__(self, policy: StateSpace, keys: Keys):
        normal = nnx.initializers.normal(0.02)
        self.embedding = nnx.Param(normal(keys.next(), (policy.vocabulary_size, policy.hidden_size)))
        self.layers = nnx.List([_Layer(policy, keys) for _ in range(policy.num_layers)])
        self.norm_f = _Norm(policy)
        self.dtype = policy.dtype

    def read(
        self, tokens: Array, mask: Array | None, carries: tuple[Carry, ...] | None = None
    ) -> tuple[Array, tuple[Carry, ...]]:
        """Hidden states `[P, G, T, hidden]` of `tokens` `[P, G, T]`, and what each layer knows after them.

        Args:
          mask: `[P, G, T]` bool, False on padding, which leaves no trace; None if there is none.
          carries: what each layer knows before, leaves `[P, G, ...]` or `[P, 1, ...]`; None for nothing.
        """
        hidden, after = jnp.take(self.embedding[...], tokens, axis=0), []
        before = (None,) * len(self.layers) if carries is None else carries
        for layer, carry in zip(self.layers, before, strict=True):
            hidden, of_layer = layer(hidden, mask, carry)
            after.append(of_layer)
        return self.norm_f(hidden), tuple(after)

    def logits(self, hidden: Array) -> Array:
        """Float32 logits `[..., V]`."""
        return matrix_product(hidden, self.embedding[...], self.dtype, "float32", 1)


class _Layer(nnx.Module):
    """x + mixer(norm(x))."""

    def __init__(self, policy: StateSpace, keys: Keys):
        self.norm, self.mixer = _Norm(policy), _Mixer(policy, keys)

    def __call__(self, hidden: Array, mask: Array | None, carry: Carry | None) -> tuple[Array, Carry]:
        mixed, carry = self.mixer(self.norm(hidden), mask, carry)
        return hidden + mixed, carry


class _Mixer(nnx.Module):
    def __init__(self, policy: StateSpace, keys: Keys):
        hidden, inner, states = policy.hidden_size, policy.inner_size, policy.state_size
        rank = -(-hidden // 16)
        self.in_proj = _Linear(policy, hidden, inner, keys)
        self.gate_proj = _Linear(policy, hidden, inner, keys)
        self.conv1d = _Convolution(policy, keys)
        self.x_proj = _Linear(policy, inner, rank + 2 * states, keys)
        self.dt_proj = _StepLengths(policy, rank, inner, keys)
        self.A_log = nnx.Param(jnp.tile(jnp.log(jnp.arange(1.0, states + 1)), (inner, 1)))
        self.D = nnx.Param(jnp.ones(inner))
        self.out_proj = _Linear(policy, inner, hidden, keys, policy.num_layers**-0.5)
        self.split = rank, rank + states
        self.chunk = policy.chunk

    def __call__(self, hidden: Array, mask: Array | None, carry: Carry | None) -> tuple[Array, Carry]:
        inputs = self.in_proj(hidden)
        if mask is not None:
            inputs = inputs * mask[..., None]
        carry = self._nothing(inputs) if carry is None else carry
        convolved, last = self.conv1d(inputs, carry.inputs)
        convolved = jax.nn.silu(convolved)
        rank, write, read = jnp.split(self.x_proj(convolved).astype(jnp.float32), self.split, axis=-1)
        steps = self.dt_proj(rank)
        if mask is not None:
            # A step of no length leaves the state as it is.
            steps = steps * mask[..., None]
        precise = convolved.astype(jnp.float32)
        rates, chunk = -jnp.exp(self.A_log[...]), min(self.chunk, max(hidden.shape[-2], 1))
        state = jnp.broadcast_to(carry.state, (*precise.shape[:-2], *rates.shape))
        scanned, state = selective_scan(rates, steps, precise, write, read, state, chunk)
        mixed = (scanned + self.D[...] * precise) * jax.nn.silu(self.gate_proj(hidden).astype(jnp.float32))
        return self.out_proj(mixed).astype(jnp.float32), Carry(last, state)

    def _nothing(self, inputs: Array) -> Carry:
        *groups, _, inner = inputs.shape
        width = self.conv1d.kernel.shape[0] - 1
        return Carry(jnp.zeros((*groups, width, inner), inputs.dtype), jnp.zeros((*groups, *self.A_log.shape)))


class _Linear(nnx.Module):
    """x kernel, initially uniform up to `scale` / sqrt(inputs)."""

    def __init__(self, policy: StateSpace, inputs: int, outputs: int, keys: Keys, scale: float = 1.0):
        self.kernel = nnx.Param(_uniform(keys, (inputs, outputs), scale * inputs**-0.5))
        self.dtype = policy.dtype

    def __call__(self, inputs: Array) -> Array:
        return matrix_product(inputs, self.kernel[...], self.dtype, activation_dtype(self.dtype))


class _StepLengths(_Linear):
    """softplus(x kernel + bias) in float32, at first log-uniform where x is 0."""

    def __init__(self, policy: StateSpace, inputs: int, outputs: int, keys: Keys):
        super().__init__(policy, inputs, outputs, keys)
        least, most = np.log(SHORTEST_STEP), np.log(LONGEST_STEP)
        steps = jnp.exp(jax.random.uniform(keys.next(), (outputs,), minval=least, maxval=most))
        self.bias = nnx.Param(jnp.log(jnp.expm1(steps)))

    def __call__(self, inputs: Array) -> Array:
        return jax.nn.softplus(super().__call__(inputs).astype(jnp.float32) + self.bias[...])


class _Convolution(nnx.Module):
    """The causal convolution of each channel by itself."""

    def __init__(self, policy: StateSpace, keys: Keys):
        most = policy.convolution**-0.5
        self.kernel = nnx.Param(_uniform(keys, (policy.convolution, policy.inner_size), most))
        self.bias = nnx.Param(_uniform(keys, (policy.inner_size,), most))

    def __call__(self, inputs: Array, before: Array) -> tuple[Array, Array]:
        """`[..., T, D]` of inputs `[..., T, D]` and those before them, and the last `[..., W - 1, D]` of both."""
        length, kernel = inputs.shape[-2], self.kernel[...].astype(inputs.dtype)
        before = jnp.broadcast_to(before, (*inputs.shape[:-2], *before.shape[-2:]))
        both = jnp.concatenate([before, inputs], axis=-2)
        convolved = sum(weight * both[..., place : place + length, :] for place, weight in enumerate(kernel))
        return convolved + self.bias[...].astype(inputs.dtype), both[..., length:, :]


class _Norm(nnx.Module):
    """scale * x / sqrt(mean(x^2) + epsilon)."""

    def __init__(self, policy: StateSpace):
        self.scale = nnx.Param(jnp.ones(policy.hidden_size))
        self.epsilon = policy.rms_norm_epsilon

    def __call__(self, hidden: Array) -> Array:
        return hidden * jax.lax.rsqrt(jnp.mean(hidden**2, axis=-1, keepdims=True) + self.epsilon) * self.scale[...]


def _uniform(keys: Keys, shape: tuple[int, ...], most: float) -> Array:
    return jax.random.uniform(keys.next(), shape, minval=-most, maxval=most)
