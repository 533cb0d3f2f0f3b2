"""Any objective inside verl's trainer: `pip install -e ".[verl]"` and two lines of its configuration.

    trainer: {v1: {trainer_mode: ipsrl}}
    algorithm: {adv_estimator: ipsrl, ipsrl: {objective: ips_grpo(floor=0.2), outcome_of: last_number}}

verl finds this module by its entry point `verl.plugins`, in each of its processes, and calls what is registered here by
name. The trainer hands over what verl does not: to the advantage estimator, the outcomes and log-probabilities of the
batch, which is weighed whole in verl's driver; to the policy loss, in each worker, all that the loss of a micro-batch
reads. Sampling, rewards, engines and logging are verl's, unchanged.
"""

import contextlib
import copy
import functools
import itertools
import logging
from collections.abc import Callable, Generator, Hashable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from ipsrl import extras, objectives
from ipsrl.integrations import outcomes
from ipsrl.integrations.advantages_only import advantages
from ipsrl.integrations.guest import STATE_FILE, GuestObjective
from ipsrl.integrations.loss_of_rows import reads_entropy
from ipsrl.integrations.metrics import LOGGED, Monitored, group_measures, means
from ipsrl.integrations.refusals import provided_with
from ipsrl.integrations.rows import groups_of, prompt_name
from ipsrl.training.behaviour import fields_read

try:
    import torch
    import transfer_queue
    from omegaconf import DictConfig, open_dict
    from tensordict import TensorDict
    from torch import Tensor
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.core_algos import register_adv_est, register_policy_loss
    from verl.trainer.ppo.v1.trainer_base import register_trainer
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.config import ActorConfig
    from verl.workers.utils.losses import ppo_loss
    from verl.workers.utils.padding import no_padding_2_padding, response_to_nested

    from ipsrl.integrations.torch_bridge import ADVANTAGES, COUNT, PREFIX, TorchBridge
    from ipsrl.integrations.verl_configuration import NAME, check, outcome_function, settings_of
except ImportError:
    extras.require("verl")
    raise

logger = logging.getLogger(__name__)

OF_TOKENS = {
    "tokens": "responses",
    "token_mask": "response_mask",
    "behaviour_log_probs": "old_log_probs",
    "behaviour_entropy": "entropy",
    "reference_log_probs": "ref_log_prob",
}
"""Fields that verl's batches have themselves, by our names."""
OF_ANSWERS = ("raw_prompt", "data_source", "reward_model", "extra_info")

_batches = itertools.count()
"""Seeds of batches that are weighed by rewards alone, for objectives that draw at random."""
_weigh: ContextVar[Callable[..., Tensor] | None] = ContextVar("weigh", default=None)
_loss: ContextVar[Callable[..., tuple[Tensor, dict[str, float]]] | None] = ContextVar("loss", default=None)


@register_adv_est(NAME)
def advantage_estimator(
    token_level_rewards: Tensor, response_mask: Tensor, config: Any = None, index: Any = None, **_: Any
) -> tuple[Tensor, Tensor]:
    """Advantages `[B, T]`, twice, as verl has them: those of the trainer `ipsrl`, with all that it hands over.

    In another of verl's trainers they are `ipsrl.integrations.advantages` of the rewards alone, for verl's own loss.

    Raises:
      ValueError: in another trainer, the objective reads more than rewards; as `advantages`.
    """
    weigh = _weigh.get()
    if weigh is not None:
        found = weigh(token_level_rewards.sum(dim=-1), response_mask)
    else:
        # What verl adds to a batch to fill it has no token.
        real = response_mask.any(dim=-1).cpu()
        of_answers = torch.zeros(len(real))
        rewards = token_level_rewards.sum(dim=-1).cpu()[real].numpy()
        groups = np.asarray(index)[real.numpy()].tolist()
        of_answers[real] = torch.tensor(_of_rewards(settings_of(config), rewards, groups))
        found = of_answers.to(response_mask.device)[:, None] * response_mask
    return found, found


def _of_rewards(settings: Any, rewards: np.ndarray, groups: list[Hashable]) -> np.ndarray:
    """`[B]`, advantages of the rewards alone."""
    objective = settings["objective"]
    if "outcome_id" in fields_read(objectives.make(objective), len(groups) // len(set(groups)), loss=False):
        raise ValueError(
            "the objective reads outcomes, which only verl's trainer ipsrl has: set trainer.v1.trainer_mode=ipsrl"
        )
    return advantages(objective, rewards, None, groups, next(_batches), settings.get("right_above"))


@register_policy_loss(NAME)
def policy_loss(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """The objective's loss of a micro-batch, and metrics.

    Raises:
      ValueError: the trainer is not `ipsrl`, so that nothing is handed over.
    """
    loss = _loss.get()
    if loss is None:
        raise ValueError(f"the policy loss {NAME} works in its own trainer: set trainer.v1.trainer_mode={NAME}")
    return loss(log_prob, rollout_is_weights)


def loss_of_worker(
    config: ActorConfig, model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None, *, bridge: TorchBridge
) -> tuple[Tensor, dict[str, Any]]:
    """verl's loss function of a micro-batch, which calls `policy_loss` with the rest of the batch at hand."""
    entropy = model_output.get("entropy")
    ours = [name for name in data.keys() if name.startswith(PREFIX)]  # noqa: SIM118
    names = {name: theirs for name, theirs in OF_TOKENS.items() if theirs in data}
    part = data.select(ADVANTAGES, *ours, *names.values()).to_padded_tensor()
    batch = {name: part[name] for name in ours}
    batch |= {name: bridge.padded(values) for name, values in batch.items() if values.ndim == 2}
    batch |= bridge.of_tokens(**{name: part[theirs] for name, theirs in names.items()})
    batch[PREFIX + ADVANTAGES] = bridge.padded(part[ADVANTAGES])
    # verl takes the mean of the gradients over its data-parallel ranks.
    count = data[COUNT][0].item() / data["dp_size"]

    def loss(log_prob: Tensor, weights: Tensor | None) -> tuple[Tensor, dict[str, float]]:
        spread = torch.zeros_like(log_prob) if entropy is None else no_padding_2_padding(entropy, data)
        scaled = batch if weights is None else bridge.scaled(batch, weights)
        value, metrics = bridge.loss(log_prob, spread, scaled, count)
        # verl adds its own terms to it in place.
        return value.clone(), {LOGGED + name: mean for name, mean in means(metrics).items()}

    with _set(_loss, loss):
        return ppo_loss(config, model_output, data, dp_group)


@register_trainer(NAME)
class IPSRLTrainerSync(PPOTrainerSync):
    """verl's synchronous trainer with an objective of ipsrl.

    Args:
      config: verl's, with `algorithm.ipsrl`: `objective`, a specification, see docs/objectives.md; and `outcome_of`, a
        function of `ipsrl.integrations.outcomes` by its name, or `FILE.py:FUNCTION` or `pkg://MODULE:FUNCTION`, called
        as function(prompt, completion, data_source=, ground_truth=, extra_info=). It may be left out for objectives
        that read no outcomes; answers are then told apart by their text in the metrics. And `right_above`: an answer is
        right if its reward is above this number, by default 0; where the objective tells right answers from wrong ones,
        rewards of several positive sizes are refused without it.

    Raises:
      ValueError: verl has another version than those tested; the objective cannot be computed from what verl gives, or
        not in the parts into which the configuration cuts a batch; `outcome_of` is missing; a setting that the
        objective replaces was set. In training: a reward is not finite, an outcome cannot be hashed, or an answer to a
        prompt is missing.
    """

    def __init__(self, config: DictConfig):
        extras.require("verl")
        settings = settings_of(config.algorithm)
        self.outcome_of = outcome_function(settings.get("outcome_of"))
        provided = provided_with(self.outcome_of, outcomes.exact_text)
        group_size, seed = config.actor_rollout_ref.rollout.n, config.data.get("seed") or 0
        threshold = settings.get("right_above")
        guest = GuestObjective(settings["objective"], group_size, "verl", provided, seed, threshold)
        check(guest, config, self.outcome_of)
        self.outcome_of = self.outcome_of or outcomes.exact_text
        self.bridge = TorchBridge(guest, config.actor_rollout_ref.rollout.response_length)
        config = copy.deepcopy(config)
        with open_dict(config):
            # verl asks for this name to know that sampling is synchronous.
            config.trainer.v1.trainer_mode = "sync"
            actor = config.actor_rollout_ref.actor
            actor.policy_loss.loss_mode = NAME
            actor.calculate_entropy = actor.calculate_entropy or reads_entropy(guest.objective)
            # verl has a reference policy if this is set. The weight of a divergence is the objective's.
            actor.use_kl_loss, actor.kl_loss_coef = "reference_log_probs" in guest.objective.needs, 0.0
        super().__init__(config)

    def _setup(self) -> None:
        super()._setup()
        self.monitored = Monitored(self.total_training_steps)
        config = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(functools.partial(loss_of_worker, config=config, bridge=self.bridge))

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        data = transfer_queue.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=[*OF_ANSWERS, *OF_TOKENS.values()]
        )
        # verl adds rows without a prompt, to fill a batch.
        rows = torch.tensor([row for row, tag in enumerate(batch.tags) if not tag.get("is_padding", False)])
        if several := [key for key in (batch.keys[row] for row in rows) if not key.endswith("_0")]:
            raise ValueError(f"the answer {several[0]} has several parts, and an objective weighs answers of one part")
        handed: dict[str, Tensor] = {}

        def weigh(rewards: Tensor, mask: Tensor) -> Tensor:
            weighed, found = self._weighed(data, rows, rewards[rows], mask[rows])
            handed.update({name: _of_all_rows(values, rows, len(mask)) for name, values in weighed.items()})
            handed[COUNT] = self._count_of_step(mask)
            metrics.update({LOGGED + name: value for name, value in found.items()})
            return handed.pop(PREFIX + ADVANTAGES)[:, : mask.shape[1]] * mask

        with _set(_weigh, weigh):
            batch = super()._compute_advantage(batch, metrics)
        fields = {
            name: response_to_nested(values, data["response_mask"]) if values.ndim == 2 else values
            for name, values in handed.items()
        }
        return transfer_queue.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(batch))
        )

    def _weighed(
        self, data: TensorDict, rows: Tensor, rewards: Tensor, mask: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """The fields that workers need beside verl's own, for these rows of a batch; and measures."""
        given = {name: data[theirs].to_padded_tensor(0)[rows] for name, theirs in OF_TOKENS.items() if theirs in data}
        lengths = data["responses"].offsets().diff()[rows]
        prompts, source, reward_model, extra = (_items(data, name, rows) for name in OF_ANSWERS)
        answers = [
            self.tokenizer.decode(tokens[:length], skip_special_tokens=True)
            for tokens, length in zip(given["tokens"], lengths, strict=True)
        ]
        found = [
            self.outcome_of(*texts, data_source=name, ground_truth=(model or {}).get("ground_truth"), extra_info=info)
            for *texts, name, model, info in zip(prompts, answers, source, reward_model, extra, strict=True)
        ]
        # The same question may stand in the data with another answer.
        names = list(map(prompt_name, zip(prompts, source, reward_model, extra, strict=True)))
        outcome_id = self.bridge.guest.outcome_id(names, found)
        given["token_mask"] = mask
        last = given["tokens"].gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
        truncated = (lengths >= self.bridge.max_length) & (last != self.tokenizer.eos_token_id)
        weighed, metrics = self.bridge.weigh(names, rewards, outcome_id, truncated=truncated, **given)
        groups = groups_of(names, self.bridge.guest.group_size)
        measures = means(metrics)
        measures |= group_measures(rewards.numpy()[groups], outcome_id[groups], self.bridge.guest.given_right_above)
        return {name: values for name, values in weighed.items() if name.removeprefix(PREFIX) not in given}, measures

    def _count_of_step(self, mask: Tensor) -> Tensor:
        """`[B]`, the divisor of the loss of the optimiser step in which verl puts each row."""
        config = self.config.actor_rollout_ref
        ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        # A rank has consecutive rows, and takes those of each step in their order.
        steps = len(mask) // (config.actor.ppo_mini_batch_size * config.rollout.n)
        parts = mask.unflatten(0, (ranks, steps, -1))
        counts = torch.tensor([max(self.bridge.count(parts[:, step].flatten(0, 1)), 1.0) for step in range(steps)])
        return counts[None, :, None].expand(parts.shape[:3]).flatten().clone()

    def _compute_metrics(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **named: Any) -> None:
        super()._compute_metrics(batch, metrics, *args, **named)
        # verl puts its name for the actor before the metrics of the loss.
        ours = {name.removeprefix("actor/"): value for name, value in metrics.items()}
        record = {name: [value] for name, value in ours.items() if name.startswith(LOGGED)}
        found, warnings = self.monitored.observe(record | {"entropy": [metrics.get("actor/entropy", np.nan)]})
        metrics.update(found)
        for sentence in warnings:
            logger.warning(sentence)

    def _save_checkpoint(self) -> None:
        # First: verl ends with the file that says that the checkpoint is whole.
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        folder.mkdir(parents=True, exist_ok=True)
        self.bridge.guest.save(folder / STATE_FILE)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        config = self.config.trainer
        if self.global_steps > 0:
            newest = Path(config.default_local_dir) / f"global_step_{self.global_steps}"
            folder = Path(config.resume_from_path) if config.resume_mode == "resume_path" else newest
            self.bridge.guest.load(folder / STATE_FILE)


def _items(data: TensorDict, name: str, rows: Tensor) -> list[Any]:
    """The objects of a field, or None for each row where there is no such field."""
    values = list(data[name]) if name in data else [None] * len(data)
    return [getattr(values[row], "data", values[row]) for row in rows.tolist()]


def _of_all_rows(values: Tensor, rows: Tensor, number: int) -> Tensor:
    """Values of some rows, with zeros in the others."""
    return values.new_zeros(number, *values.shape[1:]).index_copy(0, rows, values)


@contextlib.contextmanager
def _set(variable: ContextVar, value: Any) -> Generator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
