"""Any objective inside TRL's GRPOTrainer: `pip install -e ".[trl]"`.

    trainer = IPSRLTrainer(model, rewards, args=GRPOConfig(...), train_dataset=data,
                           objective="ips_grpo(floor=0.2)", outcome_of=last_number)

Sampling, rewards, logging, PEFT, accelerate and vLLM are TRL's, unchanged. The objective weighs each batch of groups
whole, on all processes alike, and its loss replaces GRPO's. What it carries from batch to batch is kept in TRL's
checkpoints.
"""

import copy
import inspect
import logging
from pathlib import Path
from typing import Any

import numpy as np

from ipsrl import extras
from ipsrl.integrations.guest import STATE_FILE, GuestObjective
from ipsrl.integrations.loss_of_rows import couples_answers
from ipsrl.integrations.metrics import LOGGED, Monitored, group_measures, means
from ipsrl.integrations.outcomes import EmbeddingClusters, OutcomeOf, exact_text
from ipsrl.integrations.refusals import (
    NOT_PROPORTIONAL,
    UNSEEN_SAMPLER,
    provided_with,
    require_defaults,
    require_outcomes,
)
from ipsrl.integrations.rows import numbered, prompt_name
from ipsrl.objectives.objective import Objective, is_proportional
from ipsrl.structures import Metrics

try:
    import torch
    from accelerate.utils import gather_object
    from torch import Tensor
    from transformers import TrainerCallback
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
    from trl import GRPOConfig, GRPOTrainer

    from ipsrl.integrations.torch_bridge import COUNT, TorchBridge
except ImportError:
    extras.require("trl")
    raise

logger = logging.getLogger(__name__)

REPLACED = (
    "loss_type", "epsilon", "epsilon_high", "delta", "importance_sampling_level", "scale_rewards", "beta",
    "multi_objective_aggregation", "top_entropy_quantile", "entropy_coef", "use_adaptive_entropy",
    "off_policy_mask_threshold", "sapo_temperature_neg", "sapo_temperature_pos",
)  # fmt: skip
"""Settings of GRPOConfig in whose place the objective stands; they must have their defaults."""
LOGGED_OUTCOME = f"{LOGGED}outcome"
READ_BY_THE_MODEL = (
    "pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask", "spatial_shapes", "num_tiles",
    "image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids",
)  # fmt: skip


class IPSRLTrainer(GRPOTrainer):
    """TRL's GRPOTrainer with an objective of ipsrl.

    Args:
      *args, **named: as GRPOTrainer takes them. What the objective replaces (`REPLACED`) keeps its default in
        GRPOConfig; the reference policy, where the objective needs one, is the model before training.
      objective: or its specification, see docs/objectives.md; docs/integrations.md says which are refused, and why.
      outcome_of: what an answer is, see `ipsrl.integrations.outcomes`. May be left out for objectives that read no
        outcomes; answers are then told apart by their text in the metrics.
      right_above: an answer is right if its reward, the weighted sum of all reward functions, is above this number.
        None is 0, but rewards of several positive sizes are then refused where the objective tells right answers from
        wrong ones.

    In evaluation the loss is TRL's GRPO, with its divergence at weight 1 where the objective reads a reference policy:
    only training has an objective.

    Raises:
      ValueError: TRL has another version than those tested; the objective cannot be computed from what TRL gives, or
        not in parts of a batch while the configuration asks for parts; `outcome_of` is missing; a setting that the
        objective replaces was set. In training: a reward is not finite, of an impossible size, or one of those
        that `right_above` has to tell apart; an outcome cannot be hashed.
    """

    def __init__(
        self,
        *args: Any,
        objective: Objective | str,
        outcome_of: OutcomeOf | None = None,
        right_above: float | None = None,
        **named: Any,
    ):
        extras.require("trl")
        bound = inspect.signature(GRPOTrainer).bind(*args, **named)
        config = bound.arguments.get("args") or GRPOConfig()
        provided = provided_with(outcome_of, exact_text)
        guest = GuestObjective(objective, config.num_generations, "TRL", provided, config.seed, right_above)
        _check(guest, config, outcome_of)
        # The weight of a divergence is the objective's. TRL keeps a reference policy if beta is not 0.
        config = copy.copy(config)
        config.beta = float("reference_log_probs" in guest.objective.needs)
        bound.arguments["args"] = config
        super().__init__(*bound.args, **bound.kwargs)
        if guest.learns and self.accelerator.num_processes > 1:
            raise ValueError("the objective learns parameters of its own, which works with a single process: run one")
        if isinstance(outcome_of, EmbeddingClusters) and self.accelerator.num_processes > 1:
            raise ValueError("each process would number clusters by itself: give EmbeddingClusters to a single process")
        self.outcome_of = outcome_of or exact_text
        self.bridge = TorchBridge(guest, config.max_completion_length)
        self.monitored = Monitored(self.args.max_steps)
        self.add_callback(_AfterStep(guest))

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list) -> Tensor:
        by_function = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        given = ("prompt", "completion", "completion_ids")
        columns = [{name: value for name, value in row.items() if name not in given} for row in inputs]
        outcomes = [self.outcome_of(*texts, **of) for *texts, of in zip(prompts, completions, columns, strict=True)]
        names = list(map(prompt_name, prompts))
        # A column of TRL's tables of completions.
        self._log_completion_extra(LOGGED_OUTCOME, [None if one is None else str(one) for one in outcomes])
        self._answers = by_function, gather_object(outcomes), gather_object(names)
        return by_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        by_function, outcomes, prompts = self._answers
        rewards = (by_function * self.reward_weights.to(by_function.device)).nansum(dim=1)
        rewards[torch.isnan(by_function).all(dim=1)] = torch.nan
        mode = "train" if self.model.training else "eval"
        outcome_id = self.bridge.guest.outcome_id(prompts, outcomes) if self.model.training else numbered(outcomes)
        group_size = self.num_generations if self.model.training else self.num_generations_eval
        groups = [values.reshape(-1, group_size) for values in (rewards.cpu().numpy(), outcome_id)]
        measured = group_measures(*groups, self.bridge.guest.given_right_above)
        if self.model.training:
            weighed, metrics = self._weigh(output, prompts, rewards, outcome_id)
            output |= weighed
            measured |= means(metrics)
        self._log_measures(mode, measured)
        return output

    def _weigh(
        self, output: dict[str, Any], prompts: list[str], rewards: Tensor, outcome_id: np.ndarray
    ) -> tuple[dict[str, Tensor], Metrics]:
        """The rows of this process for its batch, of weights for the answers of all processes."""
        behaviour = {"behaviour_log_probs": output.get("old_per_token_logps")}
        if self.bridge.guest.reads_behaviour:
            with torch.no_grad():
                log_probs, entropy, _ = self._scores(self.model, output)
            behaviour = {"behaviour_log_probs": log_probs, "behaviour_entropy": entropy}
        mask, last = _loss_mask(output), [*self.eos_token_ids, self._tokenizer.pad_token_id]
        ends = output["completion_mask"].sum(dim=1).clamp(min=1) - 1
        ended = torch.isin(
            output["completion_ids"].gather(1, ends[:, None])[:, 0], torch.tensor(last, device=ends.device)
        )
        here = {
            "tokens": output["completion_ids"],
            "token_mask": mask,
            **behaviour,
            "reference_log_probs": output.get("ref_per_token_logps"),
        }
        everywhere = {
            name: None if values is None else self.accelerator.gather(self.bridge.padded(values))
            for name, values in here.items()
        }
        weighed, metrics = self.bridge.weigh(
            prompts, rewards, outcome_id, truncated=self.accelerator.gather(~ended), **everywhere
        )
        rows = len(mask)
        first = rows * self.accelerator.process_index
        weighed = {name: values[first : first + rows] for name, values in weighed.items()}
        if "importance_sampling_ratio" in output:
            # TRL multiplies the loss of a token by it, of which `_check` knows that its advantage does the same.
            weighed = self.bridge.scaled(weighed, output["importance_sampling_ratio"])
        return weighed, metrics

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> dict[str, Any]:
        inputs = super()._prepare_inputs(generation_batch)
        if self.model.training:
            inputs[COUNT] = self._count_of_step()
        return inputs

    def _count_of_step(self) -> float:
        """The divisor of the loss: that of all rows of the optimiser step, in the mean over processes, whose gradients
        are averaged.
        """
        parts, number = self._buffered_inputs, self.current_gradient_accumulation_steps
        here = self._step % len(parts)
        if len(parts) % number == 0:
            parts = parts[here - here % number :][:number]
        # Otherwise a step takes parts of several batches, which are not yet known.
        counts = [self.bridge.count(_loss_mask(part)) for part in parts]
        count = torch.tensor(sum(counts) * number / len(parts), device=self.accelerator.device)
        # In a step whose answers are all masked there is nothing to divide.
        return self.accelerator.reduce(count, "mean").item() or 1.0

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> Tensor:
        if not self.model.training:
            return super()._compute_loss(model, inputs)
        log_probs, entropy, auxiliary = self._scores(model, inputs, self.aux_loss_enabled)
        loss, metrics = self.bridge.loss(log_probs, entropy, inputs, inputs[COUNT])
        mask = _loss_mask(inputs)
        self._metrics["train"]["entropy"].append(((entropy.detach() * mask).sum() / mask.sum().clamp(min=1)).item())
        self._log_measures("train", means(metrics))
        if auxiliary is not None:
            loss = loss + self.router_aux_loss_coef * auxiliary / self.current_gradient_accumulation_steps
        return loss

    def _scores(self, model: torch.nn.Module, batch: dict[str, Any], auxiliary: bool = False) -> tuple:
        """Log-probabilities and entropies of the answers' tokens, and the loss of a router."""
        ids, mask = (
            torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1) for name in ("ids", "mask")
        )
        seen = {name: batch.get(name) for name in READ_BY_THE_MODEL}
        length = batch["completion_ids"].shape[1]
        return self._get_per_token_logps_and_entropies(
            model, ids, mask, length, self.args.per_device_train_batch_size, True, auxiliary, **seen
        )

    def _log_measures(self, mode: str, measured: dict[str, float]) -> None:
        for name, value in measured.items():
            self._metrics[mode][f"{LOGGED}{name}"].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.model.training:
            found, warnings = self.monitored.observe(self._metrics["train"])
            logs |= found
            for sentence in warnings if self.accelerator.is_main_process else ():
                logger.warning(sentence)
        super().log(logs, start_time)

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            self.bridge.guest.save(folder / STATE_FILE)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.bridge.guest.load(Path(checkpoint) / STATE_FILE)


class _AfterStep(TrainerCallback):
    """Moves what the objective learns itself, when the policy has moved."""

    def __init__(self, guest: GuestObjective):
        self._guest = guest

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._guest.step()


def _check(guest: GuestObjective, config: GRPOConfig, outcome_of: OutcomeOf | None) -> None:
    """Raises ValueError where configuration and objective contradict each other."""
    require_defaults(config, GRPOConfig, REPLACED)
    if config.max_completion_length is None:
        raise ValueError("GRPOConfig has no max_completion_length: set the largest number of tokens of an answer")
    require_outcomes(guest.objective, guest.group_size, outcome_of)
    if config.use_vllm and guest.objective.correction is not None:
        raise ValueError(UNSEEN_SAMPLER)
    if (
        config.use_vllm
        and config.vllm_importance_sampling_correction
        and not is_proportional(guest.objective.surrogate)
    ):
        raise ValueError(f"{NOT_PROPORTIONAL}vllm_importance_sampling_correction=False")
    parts = max(config.steps_per_generation, config.gradient_accumulation_steps)
    if couples_answers(guest.objective) and parts > 1:
        raise ValueError(
            f"the loss of the objective couples the answers of a group, and TRL cuts a batch into {parts} parts at "
            "random: set gradient_accumulation_steps=1 and steps_per_generation=1, with a larger "
            "per_device_train_batch_size"
        )


def _loss_mask(batch: dict[str, Any]) -> Tensor:
    """`[B, T]` bool, True on the tokens that the policy wrote."""
    mask = batch["completion_mask"]
    return (mask * batch["tool_mask"] if "tool_mask" in batch else mask).bool()
