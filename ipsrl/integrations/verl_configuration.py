"""The objective in verl's configuration, and settings that cannot stand beside one."""

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any

from ipsrl import extras
from ipsrl.integrations import outcomes
from ipsrl.integrations.guest import GuestObjective
from ipsrl.integrations.loss_of_rows import couples_answers
from ipsrl.integrations.refusals import NOT_PROPORTIONAL, UNSEEN_SAMPLER, require_outcomes, require_unchanged
from ipsrl.objectives.objective import is_proportional
from ipsrl.training.behaviour import fields_read

try:
    from omegaconf import DictConfig, OmegaConf
    from verl.trainer.config import AlgoConfig
    from verl.utils.import_utils import load_extern_object
    from verl.workers.config import ActorConfig
except ImportError:
    extras.require("verl")
    raise

NAME = "ipsrl"
"""The name in verl's configuration of the trainer, the advantage estimator, the policy loss and our settings."""
OF_ACTOR = (
    "clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "loss_agg_mode", "loss_scale_factor",
    "entropy_coeff", "tau_pos", "tau_neg", "use_kl_loss",
)  # fmt: skip
REPLACED = {
    "actor_rollout_ref.actor": (ActorConfig, OF_ACTOR),
    "algorithm": (AlgoConfig, ("use_kl_in_reward", "norm_adv_by_std_in_grpo")),
}
"""Settings in whose place the objective stands; they must have their defaults."""


def check(guest: GuestObjective, config: DictConfig, outcome_of: Callable | None) -> None:
    """Raises ValueError where configuration and objective contradict each other."""
    if config.algorithm.adv_estimator != NAME:
        raise ValueError(
            f"algorithm.adv_estimator is {config.algorithm.adv_estimator}, and the trainer {NAME} has its own: set "
            f"algorithm.adv_estimator={NAME}"
        )
    changed = [
        f"{place}.{name}"
        for place, (kind, names) in REPLACED.items()
        for field in dataclasses.fields(kind)
        if (name := field.name) in names and OmegaConf.select(config, f"{place}.{name}") != field.default
    ]
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if actor.policy_loss.loss_mode not in ("vanilla", NAME):
        changed.append("actor_rollout_ref.actor.policy_loss.loss_mode")
    if OmegaConf.select(config, "distillation.enabled"):
        changed.append("distillation.enabled")
    require_unchanged("the configuration", changed)
    if guest.learns:
        raise ValueError(
            "the objective learns parameters of its own with its loss, for which verl's workers have no place: use "
            "vargrad, which needs none, or TRL's trainer"
        )
    require_outcomes(guest.objective, guest.group_size, outcome_of, "algorithm.ipsrl.outcome_of")
    reads_entropy = "behaviour_entropy" in fields_read(guest.objective, guest.group_size)
    if reads_entropy and OmegaConf.select(config, "algorithm.rollout_correction.bypass_mode"):
        raise ValueError(
            "the objective reads the entropies of the policy that sampled, which verl does not compute: set "
            "algorithm.rollout_correction.bypass_mode=false"
        )
    if guest.objective.correction is not None:
        raise ValueError(UNSEEN_SAMPLER)
    if OmegaConf.select(config, "algorithm.rollout_correction.rollout_is") and not is_proportional(
        guest.objective.surrogate
    ):
        raise ValueError(f"{NOT_PROPORTIONAL}algorithm.rollout_correction.rollout_is=null")
    batch = config.data.train_batch_size
    if actor.shuffle and actor.ppo_mini_batch_size != batch:
        raise ValueError(
            "actor.shuffle puts rows in an unknown order into several mini-batches, whose divisor is then unknown: "
            "set actor_rollout_ref.actor.shuffle=false"
        )
    ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes
    whole = ranks == 1 and actor.ppo_mini_batch_size == batch
    if couples_answers(guest.objective) and (
        actor.use_dynamic_bsz or not whole or actor.ppo_micro_batch_size_per_gpu != batch * rollout.n
    ):
        raise ValueError(
            "the loss of the objective couples the answers of a group, and verl cuts a batch into parts without regard "
            f"to groups: set ppo_mini_batch_size={batch}, ppo_micro_batch_size_per_gpu={batch * rollout.n} and "
            "use_dynamic_bsz=false in actor_rollout_ref.actor, with one GPU"
        )


def settings_of(algorithm: Any) -> Any:
    """`algorithm.ipsrl` of verl's configuration."""
    settings = algorithm.get(NAME) if algorithm is not None else None
    if not settings or set(settings) - {"objective", "outcome_of", "right_above"} or not settings.get("objective"):
        raise ValueError(
            "algorithm.ipsrl must have an objective, and may have outcome_of and right_above: as in "
            '+algorithm.ipsrl.objective="ips_grpo(floor=0.2)" +algorithm.ipsrl.outcome_of=last_number'
        )
    return settings


def outcome_function(name: str | None) -> Callable[..., Hashable | None] | None:
    """The function of this name, which is in `outcomes`, or comes after the file or module in which it is."""
    if name is None:
        return None
    place, _, function = name.rpartition(":")
    try:
        return load_extern_object(place, function) if place else getattr(outcomes, function)
    except (AttributeError, ImportError, FileNotFoundError) as error:
        raise ValueError(
            f"algorithm.ipsrl.outcome_of is {name}, which cannot be loaded ({error}): give the name of a function of "
            "ipsrl.integrations.outcomes, FILE.py:FUNCTION or pkg://MODULE:FUNCTION"
        ) from error
