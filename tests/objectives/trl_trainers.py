"""TRL's own trainers, asked for the loss of rollouts that are given to them. Import it only where TRL is installed.

Nothing of TRL's losses is typed again here. The trainers are built by their own constructors from their own
configurations, and `training_step` runs as it is: rewards become advantages, the batch is shuffled and cut into
micro-batches, the loss is computed and differentiated. Only what surrounds the loss is replaced: sampling returns
answers of given lengths, and the model's forward pass returns given log-probabilities and entropies, the leaves of the
gradient. So that rows can be found again after shuffling, the prompt of row i is the one token i.
"""

import types

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.a2po import A2POConfig, A2POTrainer
from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

ROWS = 64
END = ROWS

torch.set_num_threads(1)  # The arrays are tiny, and JAX's tests share the machine.


class Script:
    """The input of a TRL trainer: the rows of rollouts and scores, prompt by prompt."""

    def __init__(self, rollouts, scores, vllm=False):
        """With `vllm` the answers come with log-probabilities of their sampler, and TRL corrects for it."""
        self.vllm = vllm
        self.sampled = self.rows(rollouts.behaviour_log_probs)
        self.shape = rollouts.tokens.shape
        self.mask = self.rows(rollouts.token_mask)
        self.behaviour = self.rows(rollouts.proximal_log_probs if vllm else rollouts.behaviour_log_probs)
        self.reference = self.rows(rollouts.reference_log_probs)
        self.log_probs = self.rows(scores.log_probs).requires_grad_()
        self.entropy = self.rows(scores.entropy).requires_grad_()
        self.rewards = self.rows(rollouts.rewards).tolist()
        self.reward_parts = self.rows(rollouts.reward_parts)
        self.truncated = self.rows(rollouts.truncated).tolist()
        self.micro_batches = []

    def rows(self, values):
        return torch.tensor(np.asarray(values).reshape(-1, *values.shape[2:]))

    def answers(self, prompt_ids):
        """Tokens without meaning, the last of which says whether the answer has ended."""
        lengths = self.mask.sum(-1).tolist()
        return [[0] * (lengths[row] - 1) + [0 if self.truncated[row] else END] for (row,) in prompt_ids]

    def log_probs_of(self, prompt_ids):
        """The log-probabilities of the tokens of each answer, in the program that sampled them."""
        lengths = self.mask.sum(-1).tolist()
        return [self.sampled[row, : lengths[row]].tolist() for (row,) in prompt_ids] if self.vllm else None

    def reward(self, prompts, **_):
        return [self.rewards[int(prompt)] for prompt in prompts]

    def part(self, number):
        """A function for one of the rewards of an answer."""
        return lambda prompts, **_: [self.reward_parts[int(prompt), number].item() for prompt in prompts]


class Scripted:
    """Stands before a trainer of TRL and answers for its model."""

    script: Script
    ref_model = None

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, length, *_, **__):
        rows = input_ids[:, 0]
        if model is self.ref_model:
            return self.script.reference[rows, :length], None, None
        if not torch.is_grad_enabled():
            return self.script.behaviour[rows, :length], None, None
        self.script.micro_batches.append(rows.tolist())
        return self.script.log_probs[rows, :length], self.script.entropy[rows, :length], None


class ScriptedGRPO(Scripted, GRPOTrainer):
    config = GRPOConfig

    def _generate_single_turn(self, prompt_ids, *_):
        return self.script.answers(prompt_ids), self.script.log_probs_of(prompt_ids)


class ScriptedGMPO(ScriptedGRPO, GMPOTrainer):
    config = GMPOConfig


class ScriptedRLOO(Scripted, RLOOTrainer):
    config = RLOOConfig

    def _generate_single_turn(self, prompt_ids, *_):
        return self.script.answers(prompt_ids)


class ScriptedA2PO(A2POTrainer):
    """Its answers have no tokens but the end: rewards and log-probabilities are by place in the batch."""

    script: Script

    def _get_sequence_logps(self, model, *_):
        table = self.script.reference if model is self.ref_model else self.script.log_probs
        return (table * self.script.mask).sum(-1)


class ScriptedModel(torch.nn.Module):
    """Answers for the model that a DPO trainer calls."""

    def __init__(self, log_probs):
        super().__init__()
        self.table = log_probs

    def forward(self, input_ids, **_):
        log_probs = self.table[input_ids[:, 0]]
        zeros = torch.zeros_like(log_probs)
        return types.SimpleNamespace(log_probs=log_probs, entropy=zeros, mean_logits=zeros, is_top1=zeros.bool())


def tokenizer():
    words = {str(row): row for row in range(ROWS)} | {"<end>": END}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<end>")), eos_token="<end>", pad_token="<end>"
    )


def save_model(folder):
    """Writes a model that the constructors can load; it is never run."""
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=ROWS + 1,
            hidden_size=2,
            intermediate_size=2,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            pad_token_id=END,
            eos_token_id=END,
        )
    ).save_pretrained(folder)
    return str(folder)


def trainer(kind, folder, rollouts, scores, micro_batches=1, more_rewards=(), vllm=False, parts=False, **options):
    """A GRPO or RLOO trainer that will see the rollouts as one batch, for one optimiser step.

    `num_iterations` is 2, so that TRL keeps the behaviour policy's log-probabilities: with 1 it takes ratios to be 1.
    `vllm` is as in `Script`; the constructor would start the engine. With `parts` the rewards are the two of an answer.
    """
    script = Script(rollouts, scores, vllm)
    prompts, group, length = script.shape
    config = kind.config(
        output_dir=folder,
        report_to=[],
        use_cpu=True,
        bf16=False,
        num_generations=group,
        num_iterations=2,
        per_device_train_batch_size=prompts * group // micro_batches,
        gradient_accumulation_steps=micro_batches,
        max_completion_length=length,
        **options,
    )
    dataset = Dataset.from_dict({"prompt": ["0"]})
    rewards = [script.part(0), script.part(1)] if parts else [script.reward, *more_rewards]
    made = kind(folder, rewards, args=config, train_dataset=dataset, processing_class=tokenizer())
    made.use_vllm = vllm
    return started(made, script)


def started(made, script):
    made.script = script
    made.current_gradient_accumulation_steps = made.args.gradient_accumulation_steps  # As `Trainer.train` sets it.
    made.model.train()
    return made


def prompts_of(script):
    return [{"prompt": str(row)} for row in range(len(script.rewards))]


def advantages(made):
    """`[P, G]`, what the trainer makes of the rewards."""
    values = made._generate_and_score_completions(prompts_of(made.script))["advantages"]
    return values.numpy().reshape(made.script.shape[:2])


def step(made):
    """One optimiser step's loss, and its gradients by log-probabilities and by entropies, `[P, G, T]`."""
    made.script.micro_batches.clear()
    batch = prompts_of(made.script)
    loss = sum(made.training_step(made.model, batch, None).item() for _ in range(made.args.gradient_accumulation_steps))
    return loss, gradient(made.script, "log_probs"), gradient(made.script, "entropy")


def gradient(script, leaf):
    found = getattr(script, leaf).grad
    return (torch.zeros(script.mask.shape) if found is None else found).numpy().reshape(script.shape)


def preference_step(folder, rollouts, scores, micro_batches=1, **options):
    """One optimiser step of the DPO trainer on groups of two, each a stored pair: loss, gradient by log-probabilities.

    TRL's batch is all chosen answers, then all rejected ones. Its model gives 0 for the log-probability of padding.
    """
    script = Script(rollouts, scores)
    config = DPOConfig(
        output_dir=folder, report_to=[], use_cpu=True, bf16=False, gradient_accumulation_steps=micro_batches, **options
    )
    dataset = Dataset.from_dict({"prompt": ["0"], "chosen": ["1"], "rejected": ["2"]})
    made = started(DPOTrainer(folder, args=config, train_dataset=dataset, processing_class=tokenizer()), script)
    policy = ScriptedModel(script.log_probs * script.mask)
    made.ref_model = ScriptedModel(script.reference * script.mask)
    rewards = torch.tensor(script.rewards).reshape(script.shape[:2])
    first = 2 * torch.arange(len(rewards))
    loss = 0.0
    for pairs in torch.arange(len(rewards)).chunk(micro_batches):
        rows = torch.cat([first[pairs] + rewards[pairs].argmax(-1), first[pairs] + rewards[pairs].argmin(-1)])
        mask = torch.nn.functional.pad(script.mask[rows].long(), (1, 0))
        ids = torch.full(mask.shape, END)
        ids[:, 0] = rows
        batch = {"input_ids": ids, "completion_mask": mask, "attention_mask": torch.ones_like(mask)}
        policy.table = script.log_probs * script.mask
        loss += made.training_step(policy, batch, None).item()
    return loss, gradient(script, "log_probs")


def regression_step(folder, first, rollouts, scores, **options):
    """One step of the A2PO trainer: loss, gradient by log-probabilities. `first` are groups that the reference gave."""
    script = Script(rollouts, scores)
    prompts, group, _ = script.shape
    config = A2POConfig(
        output_dir=folder,
        report_to=[],
        use_cpu=True,
        bf16=False,
        num_value_samples=group,
        filter_all_incorrect=False,
        per_device_train_batch_size=prompts,
        **options,
    )
    dataset = Dataset.from_dict({"prompt": [str(prompt) for prompt in range(prompts)]})
    pending = [Script(first, scores).rewards, script.rewards]
    made = ScriptedA2PO(
        folder, lambda prompts, **_: pending.pop(0), args=config, train_dataset=dataset, processing_class=tokenizer()
    )

    def generate(input_ids, generation_config, **_):
        repeated = input_ids.repeat_interleave(generation_config.num_return_sequences, 0)
        return torch.nn.functional.pad(repeated, (0, 1), value=END)

    made = started(made, script)
    made.model.generate = made.ref_model.generate = generate
    batch = [{"prompt": str(prompt)} for prompt in range(prompts) for _ in range(group)]
    return made.training_step(made.model, batch, None).item(), gradient(script, "log_probs")
