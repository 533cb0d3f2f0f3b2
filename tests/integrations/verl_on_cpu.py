"""verl on CPU: what it lacks there, as plugins of verl; and answers in place of those of a sampler.

Each of verl's processes imports this module before anything asks for the platform (VERL_USE_EXTERNAL_MODULES).
"""

import os
import types

os.environ |= {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
    # Ray would start a process for each of the CPUs that it is told of.
    "RAY_prestart_worker_first_driver": "0",
}

import numpy as np
import torch
import transfer_queue
from verl.plugin.platform.platform_cuda import PlatformCUDA
from verl.plugin.platform.platform_manager import PlatformRegistry

NOTHING = types.SimpleNamespace(
    is_available=lambda: False,
    get_device_name=lambda: "CPU",
    mem_get_info=lambda: (0, 1),
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
    **dict.fromkeys(("empty_cache", "synchronize", "manual_seed", "manual_seed_all"), lambda *_: None),
    **dict.fromkeys(
        ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"), lambda *_: 0
    ),
)


@PlatformRegistry.register(platform="cpu")
class OnCPU(PlatformCUDA):
    device_name, vendor_name, device_module = "cpu", "none", NOTHING

    def current_device(self):
        return "cpu"

    def set_device(self, device_index):
        pass

    def communication_backend_name(self):
        return "gloo"


# ruff: noqa: E402
# Now that there is a platform.
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import distributed
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.rollout.replica import RolloutReplicaRegistry

# By default it names a backend for the device beside that of the CPU.
distributed.initialize_global_process_group_ray.__defaults__ = (None, "gloo")
EngineRegistry.register("language_model", "fsdp2", "cpu")(transformer_impl.FSDPEngineWithLMHead)
# The reference policy is kept in memory that is pinned for an accelerator.
transformer_impl.CPUOffloadPolicy = lambda pin_memory: None
RolloutReplicaRegistry.register("none", lambda: None)


class Observed(PPOTrainerSync):
    """A trainer that has no servers of its own for sampling, and keeps what it logs."""

    _enable_hybrid_replicas = False

    def on_init_end(self):
        self.history = []

    def on_step_end(self):
        pass

    def _compute_metrics(self, batch, metrics, *args, **named):
        super()._compute_metrics(batch, metrics, *args, **named)
        self.history.append(dict(metrics))


class Answers:
    """Stands in for verl's agent loop: random words, the same at a step of each run, for TransferQueue.

    Args:
      number: of answers to a prompt.
      reward: of the words of an answer.
    """

    def __init__(self, number, reward):
        self.number, self.reward = number, reward

    def generate_sequences(self, batch):
        step = batch["global_steps"]
        random = np.random.default_rng(step)
        columns = ("uid", "raw_prompt", "data_source", "reward_model", "extra_info")
        for row in range(len(batch)):
            given = {name: batch[name][row] for name in columns}
            answers = [self.answer(given, random) for _ in range(self.number)]
            steps = dict.fromkeys(("global_steps", "min_global_steps", "max_global_steps"), step)
            tags = [
                {"seq_len": len(answer["input_ids"]), "response_len": len(answer["responses"]), **steps}
                for answer in answers
            ]
            keys = [f"{given['uid']}_{number}_0" for number in range(self.number)]
            transfer_queue.kv_batch_put(
                keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(answers), tags=tags
            )
            finished = {"is_prompt": True, "status": "finished", "global_steps": step}
            transfer_queue.kv_batch_put(keys=[given["uid"]], partition_id="train", tags=[finished])

    def answer(self, given, random):
        prompt = torch.tensor([int(word) for word in given["raw_prompt"][0]["content"].split()])
        words = torch.tensor(random.integers(0, 12, random.integers(2, 7)))
        ids, mask, scores = torch.cat([prompt, words]), torch.ones_like(words), torch.zeros(len(words))
        scores[-1] = self.reward(words.tolist())
        return {
            "prompts": prompt,
            "responses": words,
            "input_ids": ids,
            "position_ids": torch.arange(len(ids)),
            "response_mask": mask,
            "loss_mask": mask,
            "rm_scores": scores,
            "num_turns": 2,
            "extra_fields": {},
            **given,
        }
