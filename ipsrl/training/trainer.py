"""A run's step: ask the source for groups, then update the policy with them.

    trainer = Trainer(environment, policy, objectives.make("ips_grpo"), settings)
    with jax.set_mesh(mesh):
        state = trainer.init(seed)
        for _ in range(settings.steps):
            state, metrics = trainer.step(state)

With a source that runs under jit the whole step is a function of the state, which can be mapped over runs.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.core import Tracer
from jax.sharding import Mesh

from ipsrl.checking.arguments import checked
from ipsrl.checking.fields import Checked
from ipsrl.distributed import hosts, memory
from ipsrl.distributed.mesh import check_prompts_divide
from ipsrl.distributed.placement import check_placement_rules, check_units, place, placements, shardings
from ipsrl.environments.environment import Environment, check_group_size
from ipsrl.objectives.objective import Objective, is_proportional
from ipsrl.policies.policy import Layered, Parameters, Policy, union
from ipsrl.rewards import Reward, checksum
from ipsrl.rollouts.decoding import Decoding
from ipsrl.rollouts.randomness import LARGEST_SEED, stream
from ipsrl.rollouts.sources.source import Actors, Groups, Request, Sampled, Source, Wrapper, wrapped
from ipsrl.structures import Scalars, means
from ipsrl.training.behaviour import reads_behaviour
from ipsrl.training.forward_passes import OF_REFERENCE
from ipsrl.training.optimizer import at_rate, make_optimizer
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import TrainState, check_objective, compiled_update, state_placements, update

_MEANS = jax.jit(means)


@dataclasses.dataclass(frozen=True)
class Trainer(Checked):
    """The parts of a training run that do not change from step to step.

    Attributes:
      environment, policy, objective, settings: what to train, and how.
      source: the given source of the groups; None for the policy's own samples, in the wrappers of the settings. What
        is used is `groups_from`.
      frozen: parameters that the policy reads beside the trained ones, already on the mesh. They are never copied, in
        no checkpoint, and shared with the reference policy.
    """

    environment: Environment
    policy: Policy
    objective: Objective
    settings: TrainSettings
    source: Source | None = None
    frozen: Parameters | None = dataclasses.field(default=None, compare=False)

    @functools.cached_property
    def groups_from(self) -> Source:
        """The source of the groups: the given one, or by default `Sampled` in the wrappers of the settings."""
        if self.source is not None:
            return self.source
        settings = self.settings
        shape, decoding = (settings.prompts_per_step, settings.group_size), Decoding(settings.temperature)
        sampled = Sampled(self.environment, self.policy, *shape, decoding, self.objective.top_tokens)
        return wrapped(sampled, settings.wrappers)

    @functools.cached_property
    def needs_reference(self) -> bool:
        """Whether a run needs the reference policy."""
        return self.groups_from.needs_reference or not OF_REFERENCE.isdisjoint(self.objective.needs)

    def check(self, runs: int = 1) -> None:
        """Raises before anything is computed or written if the run could not be trained on the mesh that is set.

        Args:
          runs: number of runs that one program trains at once.

        Raises:
          ValueError: the objective needs what environment, policy and source do not provide, or the policy's
            probabilities where a decoding rule changes them, the environment needs groups of another size, a wrapper
            cannot be applied, the optimiser is unknown, the prompts cannot be split as required, the mesh would shard
            the policy's heads, or there is too little memory.
        """
        settings, mesh = self.settings, jax.sharding.get_abstract_mesh()
        self._check_source()
        actions = getattr(self.policy, "vocabulary_size", self.environment.vocabulary_size)
        observations = getattr(self.policy, "num_observations", self.environment.num_observations)
        if actions != self.environment.vocabulary_size or observations < self.environment.num_observations:
            raise ValueError(
                f"the policy has {actions} actions and {observations} observations, but the environment has "
                f"{self.environment.vocabulary_size} and {self.environment.num_observations}: give them the same"
            )
        check_group_size(self.environment, settings.group_size)
        check_objective(self.objective, self.environment, settings.group_size, self.groups_from.optional_fields)
        if self.groups_from.stale and self.objective.surrogate.on_policy and not self.objective.separates:
            corrected = ", or give it a correction, such as correction=truncated"
            raise ValueError(
                f"{type(self.groups_from).__name__} gives groups of other policies than the one that learns, and this "
                "objective has no importance ratio to correct that: choose one that has, such as grpo or ips_grpo"
                + (corrected if is_proportional(self.objective.surrogate) else "")
            )
        self._check_decoding()
        if settings.refresh_reference_every and not self.needs_reference:
            raise ValueError(
                f"refresh_reference_every is {settings.refresh_reference_every}, but this run has no reference "
                "policy: give the objective a divergence from it, as in grpo(kl=0.1), or leave it at 0"
            )
        self.optimizer()
        settings.batching.check(settings.prompts_per_step)
        check_prompts_divide(settings.prompts_per_step // settings.batching.total_micro_batches, mesh)
        check_units(self.policy.placement_rules, mesh)
        self._check_memory(runs)

    @property
    def _decoding(self) -> Decoding | None:
        """Rules besides the temperature by which the source samples; None if there are none."""
        source = self.groups_from.innermost
        return source.decoding if isinstance(source, Sampled) and not source.decoding.ordinary else None

    def _check_decoding(self) -> None:
        """Raises ValueError where rules of the source contradict the objective."""
        if self._decoding is not None and reads_behaviour(self.objective, self.settings.group_size):
            raise ValueError(
                "the objective reads the policy's probabilities of the sampled tokens, but the source samples by "
                f"{self._decoding}, which leaves out or penalises tokens: sample by a temperature alone, or choose an "
                "objective that does not read them, such as vargrad, whose optimum is the same on any samples "
                "(reinforce is accepted, but its gradient is then biased)"
            )

    def _check_memory(self, runs: int) -> None:
        """Raises ValueError if the parameters, or the answers of a step, already take more memory than there is."""
        parameters, source = jax.eval_shape(self.policy.init, jax.random.key(0)), self.groups_from.innermost
        # Those of the optimiser are as many or more, and so are gradients.
        size = 3 * runs * memory.size_of(parameters)
        memory.require(size, "parameters, gradients and the optimiser's state", "choose a smaller model, or fewer runs")
        if isinstance(source, Sampled):
            each = "lower group_size, prompts_per_step or max_tokens, or train fewer runs at once"
            sampling = source.shapes(parameters)
            memory.require(runs * memory.size_of(sampling), "the answers of a step", each)
            # Kept answers are scored again, so that what the sampler says of their probabilities is not kept.
            kept = [sampling.written[name] for name in sampling.written if not name.startswith(("behaviour", "top"))]
            held = runs * self.groups_from.answers_held * memory.size_of(kept) // sampling.finished.size
            memory.require(held, "the answers that batch filters add", "let them add fewer, or lower max_tokens")

    def _check_parameters(self, parameters: Parameters) -> None:
        """Raises ValueError unless these are parameters of the policy; frozen ones may have other types."""
        if self.frozen is not None:
            return
        given, fresh = (
            {jax.tree_util.keystr(path): jnp.shape(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
            for tree in (parameters, jax.eval_shape(self.policy.init, jax.random.key(0)))
        )
        for path in sorted(given.keys() | fresh.keys()):
            if given.get(path) != fresh.get(path):
                raise ValueError(
                    f"initial_parameters has the shape {given.get(path, 'none')} at {path or 'its top'}, but those of "
                    f"the policy have {fresh.get(path, 'none')}: give parameters of the same policy"
                )

    def _check_source(self) -> None:
        """Raises ValueError where a source that is given and the settings disagree."""
        settings = self.settings
        if self.source is None:
            return
        if isinstance(self.source, Wrapper) and self.source.inner is None:
            raise ValueError(f"{type(self.source).__name__} wraps no source: give wrapped(source, [...])")
        if settings.wrappers:
            raise ValueError(
                f"the settings ask for {type(settings.wrappers[0]).__name__}, but a source is given: wrap the source "
                "in it, by `wrapped`, or leave one out"
            )
        innermost = self.source.innermost
        for name in ("environment", "policy"):
            if getattr(innermost, name, getattr(self, name)) != getattr(self, name):
                raise ValueError(f"the source has another {name} than the run: give both the same")
        for name in ("prompts_per_step", "group_size", "temperature"):
            of_source, wanted = getattr(innermost, name, getattr(settings, name)), getattr(settings, name)
            if of_source != wanted:
                raise ValueError(f"{name} of the source is {of_source}, but that of the settings is {wanted}")
        if isinstance(innermost, Sampled) and innermost.top_tokens != self.objective.top_tokens:
            raise ValueError(
                f"top_tokens of the source is {innermost.top_tokens}, but the objective reads "
                f"{self.objective.top_tokens}"
            )

    @checked
    def init(
        self,
        seed: int,
        initial_parameters: Parameters | Callable[[], Parameters] | None = None,
        reward: Reward | None = None,
    ) -> TrainState:
        """The state before the first step, on the mesh that is set (`jax.set_mesh`), after a `check`.

        Args:
          seed: of the run.
          initial_parameters: fresh by default. They are also the (first) reference policy. A function may be given
            instead: the run owns what it returns, so a large model is not copied.
          reward: of the answers; None for the environment's own.

        Raises:
          ValueError: as `check`, the seed is out of range, these are not parameters of the policy, or the answers
            cannot have this reward.
        """
        if jax.sharding.get_abstract_mesh().empty:
            raise ValueError("no mesh is set: begin a run inside `with jax.set_mesh(make_mesh()):`")
        if not 0 <= seed <= LARGEST_SEED:
            raise ValueError(f"seed is {seed}, it must lie between 0 and {LARGEST_SEED}")
        self.check()
        if reward is not None:
            self.check_reward(reward)
        mesh = jax.sharding.get_mesh()
        if initial_parameters is None:
            initial_parameters = functools.partial(fresh_parameters, self.policy, seed, mesh)
        owned = callable(initial_parameters)
        parameters = initial_parameters() if owned else initial_parameters
        self._check_parameters(parameters)
        check_placement_rules(self.policy.placement_rules, union(parameters, self.frozen))
        placed = placements(self.policy.placement_rules, parameters, mesh)
        # Updates donate the state, so it must not share buffers with the caller or the reference.
        parameters = place(parameters if owned else _copied(parameters), placed, mesh)
        given = jnp.asarray([checksum(reward), self.groups_from.checksum], jnp.uint32)
        state = dataclasses.replace(self.first_state(seed, parameters), given=given)
        return self.start(place(state, state_placements(state, self.policy, self.optimizer(), mesh), mesh), reward)

    def first_state(self, seed: Array | int, parameters: Parameters, learning_rate: Array | None = None) -> TrainState:
        """A state without that of the source; with a learning rate of its own, if there is one."""
        optimizer = self.optimizer(learning_rate)
        state = TrainState.create(parameters, self.objective, optimizer, self.environment)
        # An update donates both, and a buffer can be donated only once.
        reference = _copied(parameters) if self.needs_reference else None
        return dataclasses.replace(
            state, seed=jnp.asarray(seed, jnp.int32), learning_rate=learning_rate, reference=reference
        )

    def begin(
        self, seed: Array, learning_rate: Array | None, parameters: Parameters | None, reward: Reward | None
    ) -> TrainState:
        """The state before the first step of one among many runs, inside a program for all of them."""
        if reward is not None:
            self.check_reward(reward)
        if parameters is None:
            parameters = self.policy.init(stream(seed, 0, "parameters"))
        return self.start(self.first_state(seed, parameters, learning_rate), reward)

    def start(self, state: TrainState, reward: Reward | None) -> TrainState:
        """The state with the state of the source in `source`."""
        return dataclasses.replace(state, source=self.groups_from.init(self.actors(state), _number(state.seed), reward))

    def check_reward(self, reward: Reward) -> None:
        """Raises ValueError unless the answers of a run can have this reward."""
        if not isinstance(reward, Reward):
            raise ValueError(f"the reward must be a Reward, such as FormulaReward(function), not {reward!r}")
        reward.check(self.environment.sizes)
        if "step_rewards" in self.objective.needs:
            raise ValueError(
                "the objective reads the rewards of turns, which the environment gives, but a reward of the whole "
                "answer replaces them: leave out `reward`, or by_turn"
            )
        if "reward_parts" in self.objective.needs:
            raise ValueError(
                "the objective reads several rewards of each answer, which the environment gives, but a single reward "
                "replaces them: leave out `reward`"
            )

    def optimizer(self, learning_rate: Array | None = None) -> optax.GradientTransformation:
        """The optimiser of the policy's parameters, at the settings' learning rate unless a traced one is given."""
        settings, batching = self.settings, self.settings.batching
        steps = settings.steps * batching.epochs * batching.mini_batches * self.objective.num_steps
        made = functools.partial(
            make_optimizer,
            settings.optimizer,
            max_gradient_norm=settings.max_gradient_norm,
            epsilon=settings.adam_epsilon,
            decay_steps=steps if settings.cosine_decay else None,
        )
        if learning_rate is None:
            return made(learning_rate=settings.learning_rate)
        return at_rate(made(learning_rate=1.0), learning_rate)

    def actors(self, state: TrainState) -> Actors:
        """Parameters of the policies that the source may sample from or score with."""
        return Actors(union(state.parameters, self.frozen), union(state.reference, self.frozen))

    def step(self, state: TrainState) -> tuple[TrainState, Scalars]:
        """The state after a step and its metrics, which may still be in computation.

        The given state is donated, but for `state.source`. Waits for the step before, because the host chooses prompts
        by the number of the step.
        """
        state, groups, metrics = self.ask(state)
        state, of_update = self.learn(state, groups)
        if self.groups_from.stale or self._decoding is not None:
            # Sampler and scorer are different policies here, so this metric would not compare two implementations.
            del of_update["sampler_scorer_difference"]
        return state, of_update | metrics

    def ask(self, state: TrainState) -> tuple[TrainState, Groups, Scalars]:
        """First half of a step: the groups."""
        request = Request(_number(state.seed), _number(state.step))
        source_state, groups, metrics = self.groups_from(state.source, self.actors(state), request)
        return dataclasses.replace(state, source=source_state), groups, _MEANS(metrics) if metrics else {}

    def learn(self, state: TrainState, groups: Groups) -> tuple[TrainState, Scalars]:
        """Second half of a step: the update with any groups; the given state is donated, but for `state.source`."""
        assert state.seed is not None, "`first_state` sets it"
        key = stream(state.seed, state.step, "objective")
        # Donated, it would be lost to others: its arrays may be those of the caller's reward, or of the groups.
        source_state, state = state.source, dataclasses.replace(state, source=None)
        # Inside a program the optimizer may close over a traced learning rate, so it cannot be a static argument.
        run_update = update if isinstance(state.step, Tracer) else compiled_update
        state, metrics = run_update(
            state,
            *groups,
            key,
            self.frozen,
            policy=self.policy,
            objective=self.objective,
            optimizer=self.optimizer(state.learning_rate),
            batching=self.settings.batching,
            temperature=self.settings.temperature,
        )
        if self.settings.refresh_reference_every:
            state = _refreshed(state, self.settings.refresh_reference_every)
        return dataclasses.replace(state, source=source_state), metrics


def _number(scalar: Array | None) -> Array | int:
    """A replicated number as an integer, because the host chooses prompts by it; unchanged inside jit."""
    assert scalar is not None, "`first_state` sets the seed"
    return scalar if isinstance(scalar, Tracer) else int(hosts.to_host(scalar))


@jax.jit
def _copied(parameters: Parameters) -> Parameters:
    return jax.tree.map(jnp.copy, parameters)


@functools.partial(jax.jit, static_argnames="every", donate_argnames="state")
def _refreshed(state: TrainState, every: int) -> TrainState:
    """The policy becomes the reference at multiples of `every` steps."""
    due = state.step % every == 0
    reference = jax.tree.map(lambda new, old: jnp.where(due, new, old), state.parameters, state.reference)
    return dataclasses.replace(state, reference=reference)


def fresh_parameters(policy: Policy, seed: int, mesh: Mesh) -> Parameters:
    """The default initial parameters; each device creates its own shard, because the whole may fit on none of them.

    Layers come from one program, run for each: one program with all layers would take minutes to compile.
    """
    key = stream(seed, 0, "parameters")
    shapes = jax.eval_shape(policy.init, key)
    placed = shardings(placements(policy.placement_rules, shapes, mesh), mesh)
    if not isinstance(policy, Layered):
        return jax.jit(policy.init, out_shardings=placed)(key)
    layers = placed.pop("layers")
    # The compiler drops what has no use.
    others = jax.jit(lambda key: {name: policy.init(key)[name] for name in placed}, out_shardings=placed)(key)
    layer = jax.jit(policy.init_layer, out_shardings=layers[0])
    return others | {"layers": {number: layer(key, number) for number in layers}}
