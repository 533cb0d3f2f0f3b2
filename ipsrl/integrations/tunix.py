"""Any objective inside Tunix's GRPOLearner: `pip install -e ".[tunix]"`.

    learner = IPSRLLearner(cluster, GRPOConfig(num_generations=8), rewards,
                           objective="ips_grpo(floor=0.2)", outcome_of=last_number)
    learner.train(data)

Sampling, rewards, meshes, LoRA, the optimiser and logging are Tunix's, unchanged. The objective weighs each mini-batch
of groups whole. Its loss is a part of Tunix's compiled training step, as both are JAX. What it carries from batch to
batch is kept in Tunix's checkpoints.
"""

import base64
import copy
import logging
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ipsrl import extras
from ipsrl.integrations.guest import GuestObjective, check_rewards
from ipsrl.integrations.loss_of_rows import couples_answers, couples_groups, loss_of_rows
from ipsrl.integrations.metrics import LOGGED, Monitored, group_measures, means
from ipsrl.integrations.outcomes import OutcomeOf, exact_text
from ipsrl.integrations.refusals import provided_with, require_defaults, require_outcomes
from ipsrl.integrations.rows import Rows, numbered
from ipsrl.objectives.objective import Objective
from ipsrl.structures import Weights, masked_sum

try:
    import flax
    import orbax.checkpoint as ocp
    from flax import nnx
    from tunix.rl import algo_core, common, function_registry
    from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner, TrainExample
    from tunix.rl.reward_manager import SequenceRewardManager
    from tunix.rl.rl_cluster import Mode, RLCluster, Role
    from tunix.rl.utils import chunk_slices_by_size, get_batch_slice
except ImportError:
    extras.require("tunix")
    raise

logger = logging.getLogger(__name__)

NAME = "ipsrl"
"""The name of the policy loss and the reward manager in Tunix's registry."""
REPLACED = (
    "algo_variant", "advantage_estimator", "policy_loss_fn", "loss_agg_mode", "loss_algo", "reward_manager", "beta",
    "kl_loss_mode", "kl_clamp_value", "epsilon", "epsilon_high", "epsilon_c",
)  # fmt: skip
"""Settings of GRPOConfig in whose place the objective stands; they must have their defaults."""
ADDED = ("mode", "trajectory_ids")
"""Columns that Tunix adds to those of the data."""
STATE = "custom_metadata"
"""An item of checkpoints that Tunix's manager knows, and does not use."""


@flax.struct.dataclass(kw_only=True)
class WeighedExample(TrainExample):
    """Tunix's batch with all that the loss of an objective reads; Tunix cuts it into micro-batches of whole groups.

    Attributes:
      rows, weights: of its answers.
      count: `[B]`, the divisor of the loss of the optimiser step, the same for all answers.
      parameters: what the objective learns itself.
      parts: the number of micro-batches, over whose gradients Tunix takes the mean.
      group_size: of the groups that the loss couples, 1 where it couples no answers.
    """

    rows: Rows
    weights: Weights
    count: Array
    parameters: Any
    objective: Objective = flax.struct.field(pytree_node=False)
    parts: int = flax.struct.field(pytree_node=False)
    group_size: int = flax.struct.field(pytree_node=False)


@function_registry.register_policy_loss_fn(NAME)
def policy_loss(
    model: nnx.Module, train_example: TrainExample, algo_config: GRPOConfig, pad_id: int, eos_id: int, **_: Any
) -> tuple[Array, dict[str, Any]]:
    """The objective's loss of a micro-batch; and its metrics, and its gradient by what the objective learns itself.

    Raises:
      ValueError: the batch is not that of `IPSRLLearner`.
    """
    if not isinstance(train_example, WeighedExample):
        raise ValueError(f"the policy loss {NAME} works in its own learner: train with IPSRLLearner of {__name__}")
    example, mask = train_example, train_example.rows.token_mask
    log_probs, entropy = _scores(*nnx.split(model), example, pad_id, eos_id, algo_config.temperature)
    groups = np.arange(len(mask)).reshape(-1, example.group_size)
    of_rows = example.objective, groups, example.rows, example.weights, log_probs, entropy

    def loss(parameters: Any) -> tuple[Array, Any]:
        return loss_of_rows(*of_rows, parameters, example.count[0])

    (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(example.parameters)
    metrics |= {"token_entropy": (masked_sum(entropy, mask), mask.sum(dtype=jnp.float32))}
    return value * example.parts, {"metrics": metrics, "gradients": gradients}


def _scores(
    graph: nnx.GraphDef, state: nnx.State, example: TrainExample, pad_id: int, eos_id: int, temperature: float
) -> tuple[Array, Array]:
    """Log-probabilities and entropies of the answers' tokens, `[B, T]`."""
    arguments = example.prompt_ids, example.completion_ids, pad_id, eos_id
    given = {"stop_gradient": False, "return_logits": True, "temperature": temperature}
    log_probs, logits = common.compute_per_token_logps(graph, state, *arguments, **given)
    return log_probs, _entropy(logits.astype(jnp.float32))


_entropy = jax.jit(algo_core.compute_entropy_from_logits)


@function_registry.register_reward_manager(NAME)
class IPSRLRewardManager(SequenceRewardManager):
    """Tunix's sums of reward functions; of whole groups, measures of collapse for Tunix's log.

    Raises, when it is called:
      ValueError: the rewards of an answer are all NaN, of which Tunix makes 0, or one is infinite; an outcome cannot be
        hashed.

    Attributes:
      outcome_of, right_above: what an answer is, and above which reward it is right; `IPSRLLearner` sets them.
      outcomes, rewards: `[B]`, of the last batch.
      measures: of the last batch.
    """

    outcome_of: OutcomeOf = staticmethod(exact_text)
    right_above: float | None = None

    def __call__(self, prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> dict[str, Any]:
        found = super().__call__(prompts, completions, **columns)
        self.rewards = np.where(np.isnan(self._by_function).all(axis=1), np.nan, found["rewards"])
        check_rewards(self.rewards)
        rows = range(len(prompts))
        given = {name: values for name, values in columns.items() if name not in ADDED}
        of_rows = [{name: values[row] for name, values in given.items()} for row in rows]
        self.outcomes = [self.outcome_of(prompts[row], completions[row], **of_rows[row]) for row in rows]
        shape = (-1, self.algo_config.num_generations)
        groups = [values.reshape(shape) for values in (self.rewards, numbered(self.outcomes))]
        self.measures = group_measures(*groups, self.right_above)
        return {"rewards": self.rewards, "log_metrics": found["log_metrics"] | _logged(self.measures)}

    def _prepare_log_metrics(self, prompts: list[str], completions: list[str], rewards: np.ndarray) -> dict[str, Any]:
        self._by_function = rewards
        return super()._prepare_log_metrics(prompts, completions, rewards)


class IPSRLLearner(GRPOLearner):
    """Tunix's GRPOLearner with an objective of ipsrl.

    Args:
      rl_cluster, algo_config, reward_fns, metric_fns, data_shuffle_seed: as GRPOLearner takes them. What the objective
        replaces (`REPLACED`) keeps its default in GRPOConfig. The advantages that `metric_fns` get are Tunix's GRPO's.
      objective: or its specification, see docs/objectives.md; docs/integrations.md says which are refused, and why.
      outcome_of: what an answer is, see `ipsrl.integrations.outcomes`. May be left out for objectives that read no
        outcomes; answers are then told apart by their text in the metrics.
      right_above: an answer is right if its reward, the sum of all reward functions, is above this number. None is 0,
        but rewards of several positive sizes are then refused where the objective tells right answers from wrong ones.

    Tunix weighs `rollout_micro_batch_size` prompts at a time. Here this only limits how many are sampled at once: a
    mini-batch is weighed whole before its first part is trained on.

    Raises:
      ValueError: Tunix has another version than those tested; the objective cannot be computed from what Tunix gives,
        or not in the parts into which the configuration cuts a batch; `outcome_of` is missing; a setting that the
        objective replaces was set; the checkpoint that the cluster has restored has no state of this objective. In
        training: a reward is not finite, or an outcome cannot be hashed.
    """

    def __init__(
        self,
        rl_cluster: RLCluster,
        algo_config: GRPOConfig,
        reward_fns: Any,
        metric_fns: Any = None,
        data_shuffle_seed: int | None = None,
        *,
        objective: Objective | str,
        outcome_of: OutcomeOf | None = None,
        right_above: float | None = None,
    ):
        extras.require("tunix")
        provided = provided_with(outcome_of, exact_text)
        size, seed = algo_config.num_generations, data_shuffle_seed or 0
        guest = GuestObjective(objective, size, "Tunix", provided, seed, right_above)
        _check(guest, algo_config, rl_cluster, outcome_of)
        self.guest, self._iterations = guest, algo_config.num_iterations
        algo_config = copy.copy(algo_config)
        algo_config.policy_loss_fn = algo_config.reward_manager = NAME
        # The weight of a divergence is the objective's. Tunix computes the reference policy's scores if this is not 0.
        algo_config.beta = float("reference_log_probs" in guest.objective.needs)
        # Tunix would compute the behaviour policy's scores at temperature 1, and without entropies.
        algo_config.num_iterations = 1
        super().__init__(rl_cluster, algo_config, reward_fns, metric_fns, data_shuffle_seed)
        self.reward_manager.right_above = guest.given_right_above
        if outcome_of is not None:
            self.reward_manager.outcome_of = outcome_of
        trainer = rl_cluster.actor_trainer
        trainer.with_rl_metrics_to_log({})
        trainer.with_tqdm_metrics_to_display([])
        trainer._prepare_inputs = lambda example: example.replace(parameters=guest.parameters)
        trainer._post_process_train_step = self._after_part
        _keep_in_checkpoints(guest, trainer)
        self._monitored = Monitored(self._training_config.max_steps or 0)
        self._measured: dict[str, list[float]] = defaultdict(list)
        self._found: list[Any] = []

    def _num_iterations(self) -> int:
        return self._iterations

    def _prepare_data(self, *, service_target_batch_size: int, mode: Mode = Mode.TRAIN, **named: Any) -> None:
        if mode == Mode.TRAIN:
            # Tunix then has all prompts of the mini-batch before it goes on.
            service_target_batch_size = sys.maxsize
        super()._prepare_data(service_target_batch_size=service_target_batch_size, mode=mode, **named)

    def _process_accumulated_batches(
        self, micro_batches: list[Any], micro_batch_sizes: list[int], mode: Mode
    ) -> list[TrainExample]:
        self._parts = len(micro_batch_sizes)
        return super()._process_accumulated_batches(micro_batches, micro_batch_sizes, mode)

    def _generate_and_compute_advantage(self, training_input: dict[str, Any], mode: Mode = Mode.TRAIN) -> TrainExample:
        example = super()._generate_and_compute_advantage(training_input, mode)
        manager, guest = self.reward_manager, self.guest
        tokens, mask = np.asarray(example.completion_ids), np.asarray(example.completion_mask)
        config = self.rl_cluster.get_rollout_config(mode)
        ends = config.eos_tokens or [self.rl_cluster.rollout.eos_id()]
        reference = example.ref_per_token_logps
        prompts = [str(prompt) for prompt in training_input["prompts"]]
        rows = Rows(
            prompt_index=guest.prompt_index(prompts),
            rewards=manager.rewards.astype(np.float32),
            outcome_id=guest.outcome_id(prompts, manager.outcomes),
            tokens=tokens,
            token_mask=mask,
            # Tunix's own sampler leaves out the token that ends an answer.
            truncated=mask.all(axis=1) & ~np.isin(tokens[:, -1], ends),
            right_above=guest.right_above,
            **self._behaviour(example),
            reference_log_probs=None if reference is None else np.asarray(reference, np.float32),
        )
        weights, metrics = guest.weigh(rows, carry=mode == Mode.TRAIN)
        measured = means(metrics)
        self.rl_cluster.buffer_metrics(_logged(measured), mode)
        if mode == Mode.TRAIN:
            for name, value in (measured | manager.measures).items():
                self._measured[name].append(value)
        return WeighedExample(
            **vars(example),
            rows=rows,
            weights=weights,
            count=np.full(len(mask), np.maximum(guest.count(mask), 1.0), np.float32),
            parameters=guest.parameters,
            objective=guest.objective,
            parts=self._parts,
            group_size=guest.group_size if couples_answers(guest.objective) else 1,
        )

    def _behaviour(self, example: TrainExample) -> dict[str, np.ndarray]:
        """The scores of the policy that sampled, where they are needed and not those of the first step on the batch."""
        if not self.guest.reads_behaviour and self._iterations == 1:
            return {}
        rollout, size = self.rl_cluster.rollout, self._compute_logps_micro_batch_size * self.guest.group_size
        parts = [get_batch_slice(example, part) for part in chunk_slices_by_size(len(example.prompt_ids), size)]
        last = rollout.pad_id(), rollout.eos_id(), self.algo_config.temperature
        with self.rl_cluster._get_mesh_and_logical_axis_rules_cm(Role.ROLLOUT):
            model = nnx.split(rollout.model())
            scores = [jax.device_get(_scores(*model, part, *last)) for part in parts]
        log_probs, entropy = (np.concatenate(found) for found in zip(*scores, strict=True))
        return {"behaviour_log_probs": log_probs, "behaviour_entropy": entropy}

    def _after_part(self, auxiliary: dict[str, Any]) -> None:
        """Keeps what the loss of a micro-batch gave; Tunix calls this before it writes the checkpoint of a step."""
        self._found.append(auxiliary["metrics"])
        self.guest.learn(auxiliary["gradients"])
        done = self.rl_cluster.actor_trainer.iter_steps + 1
        if done % self._training_config.get_with_default("gradient_accumulation_steps", 1) == 0:
            self.guest.step()

    def _run_global_step(self, *arguments: Any) -> None:
        self._measured.clear()
        self._found.clear()
        super()._run_global_step(*arguments)
        measured = means(jax.tree.map(lambda *parts: sum(parts), *self._found))
        found, warnings = self._monitored.observe(self._measured | {name: [value] for name, value in measured.items()})
        self.rl_cluster.buffer_metrics(_logged(measured) | _logged(found, ""))
        for sentence in warnings:
            logger.warning(sentence)


def _logged(measures: dict[str, float], prefix: str = LOGGED) -> dict[str, tuple]:
    """Metrics as Tunix's log takes them."""
    return {prefix + name: (value, np.mean) for name, value in measures.items()}


def _keep_in_checkpoints(guest: GuestObjective, trainer: Any) -> None:
    """Adds the state of the objective to checkpoints of a trainer, and goes on with that of the one it has restored.

    Raises:
      ValueError: the restored checkpoint has none, or that of another objective.
    """
    manager = trainer.checkpoint_manager._checkpoint_manager
    if manager is None:
        return
    save, restored = manager.save, trainer.train_steps

    def with_state(step: int, *, args: Any, **named: Any) -> bool:
        state = ocp.args.JsonSave({NAME: base64.b64encode(guest.saved()).decode()})
        return save(step, args=ocp.args.Composite(**dict(args.items()), **{STATE: state}), **named)

    manager.save = with_state
    if restored > 0:
        place, items = f"the checkpoint of step {restored} in {manager.directory}", {STATE: ocp.args.JsonRestore()}
        try:
            kept = manager.restore(restored, args=ocp.args.Composite(**items))[STATE][NAME]
        except (OSError, KeyError, TypeError) as error:
            raise ValueError(f"{place} has no state of an objective: resume what IPSRLLearner has trained") from error
        guest.resume(base64.b64decode(kept), place)


def _check(guest: GuestObjective, config: GRPOConfig, cluster: RLCluster, outcome_of: OutcomeOf | None) -> None:
    """Raises ValueError where configuration and objective contradict each other."""
    require_defaults(config, GRPOConfig, REPLACED)
    require_outcomes(guest.objective, guest.group_size, outcome_of)
    training = cluster.cluster_config.training_config
    if jax.process_count() > 1:
        raise ValueError("each process would weigh its own part of a batch: run Tunix in a single process")
    if training.max_seq_token_per_tpu is not None:
        raise ValueError(
            "max_seq_token_per_tpu packs several answers into a row, and an objective reads one answer in each: leave "
            "it out"
        )
    if "reference_log_probs" in guest.objective.needs and "reference" not in cluster.inference_worker._models:
        raise ValueError("the objective reads a reference policy: give RLCluster a model as reference")
    parts = training.get_with_default("gradient_accumulation_steps", 1)
    if couples_groups(guest.objective) and parts > 1:
        raise ValueError(
            f"the loss of the objective sums over all groups of a batch, and Tunix cuts it into {parts} parts: set "
            "train_micro_batch_size to mini_batch_size"
        )
