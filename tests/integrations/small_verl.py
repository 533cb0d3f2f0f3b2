"""verl's configuration for a small model, and batches for its losses. Import it after verl_on_cpu."""

import numpy as np
import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.utils.padding import response_to_nested

ACTOR = "actor_rollout_ref.actor"
GROUP, LONGEST = 4, 8


def settings(folder, *changes):
    """verl's own configuration, for two prompts in a batch."""
    given = f"""
        trainer.n_gpus_per_node=1 trainer.device=cpu trainer.val_before_train=false trainer.test_freq=-1
        trainer.logger=[] trainer.total_training_steps=2 trainer.total_epochs=9 trainer.save_freq=1
        trainer.default_local_dir={folder}
        data.train_files={folder.parent}/data.parquet data.val_files={folder.parent}/data.parquet
        data.train_batch_size=2 data.max_response_length={LONGEST} data.max_prompt_length=8 data.shuffle=false
        data.dataloader_num_workers=0 data.filter_overlong_prompts=false
        actor_rollout_ref.hybrid_engine=false actor_rollout_ref.model.path={folder.parent}/model
        +actor_rollout_ref.model.override_config.attn_implementation=eager
        actor_rollout_ref.model.use_remove_padding=false actor_rollout_ref.model.enable_gradient_checkpointing=false
        actor_rollout_ref.rollout.name=none actor_rollout_ref.rollout.n={GROUP} actor_rollout_ref.rollout.nnodes=1
        actor_rollout_ref.rollout.calculate_log_probs=false
        actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4
        actor_rollout_ref.ref.strategy=fsdp2 actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4
        actor_rollout_ref.ref.fsdp_config.use_torch_compile=false
        +actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype=fp32
        {ACTOR}.strategy=fsdp2 {ACTOR}.use_torch_compile=false {ACTOR}.fsdp_config.use_torch_compile=false
        +{ACTOR}.fsdp_config.mixed_precision.param_dtype=fp32
        {ACTOR}.ppo_mini_batch_size=2 {ACTOR}.ppo_micro_batch_size_per_gpu=8 {ACTOR}.optim.optimizer=SGD
        {ACTOR}.optim.lr=0.05 {ACTOR}.optim.betas=null
        critic.strategy=fsdp2 reward.num_workers=0 transfer_queue.enable=true
        transfer_queue.backend.SimpleStorage.num_data_storage_units=1
    """.split()
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=[*given, *changes])
    OmegaConf.resolve(config)
    return config


def batch(seed=0, prompts=4, scale=1024.0):
    """Answers with rewards of this size, the names of their prompts, and log-probabilities `[B, T]` of the policy being
    trained.
    """
    random = torch.Generator().manual_seed(seed)
    rows = prompts * GROUP
    lengths = torch.randint(2, LONGEST + 1, (rows,), generator=random)
    mask = (torch.arange(LONGEST) < lengths[:, None]).long()

    def noise(size):
        return size * torch.randn(rows, LONGEST, generator=random) * mask

    old, rewards = noise(1.0) - 2, torch.randint(0, 6, (rows,), generator=random) * scale
    scores = torch.zeros(rows, LONGEST)
    scores[torch.arange(rows), lengths - 1] = rewards
    padded = {
        "response_mask": mask,
        "old_log_probs": old,
        "ref_log_prob": old + noise(0.3),
        "entropy": noise(0.1) + 1,
        "responses": torch.randint(0, 12, (rows, LONGEST), generator=random),
        "token_level_rewards": scores,
    }
    uid = np.repeat([f"prompt {number}" for number in range(prompts)], GROUP).astype(object)
    order = torch.randperm(rows, generator=random)
    log_probs = old + noise(0.4)
    return {name: values[order] for name, values in padded.items()}, uid[order.numpy()], log_probs[order]


def nested(padded):
    lengths = [int(length) for length in padded["response_mask"].sum(dim=1)]
    jagged = torch.nested.as_nested_tensor([torch.ones(length) for length in lengths], layout=torch.jagged)
    fields = {
        name: response_to_nested(values, jagged) if values.ndim == 2 else values for name, values in padded.items()
    }
    # A prompt of one token, whose place the log-probabilities of the first token take.
    fields["prompts"] = torch.nested.as_nested_tensor([torch.zeros(1) for _ in lengths], layout=torch.jagged)
    return TensorDict(fields, batch_size=len(lengths))


def loss_and_gradient(loss, padded, log_probs, parts, ranks=1):
    """Over parts of a batch, as an engine computes them, in the mean over data-parallel ranks."""
    leaf = log_probs.clone().requires_grad_()
    total = 0.0
    lengths = padded["response_mask"].sum(dim=1)
    for part in parts:
        data = nested({name: values[part] for name, values in padded.items()})
        tu.assign_non_tensor(data, dp_size=ranks, batch_num_tokens=int(lengths.sum()), global_batch_size=len(lengths))
        rows = [torch.cat([leaf[row, : lengths[row]], torch.zeros(1)]) for row in part]
        # In place of the model's output: of a token, where the one before it stands.
        output = {"log_probs": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}
        value = loss(model_output=output, data=data)[0] / ranks
        value.backward()
        total += value.item()
    return total, leaf.grad
