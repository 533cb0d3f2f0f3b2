"""Run by test_elsewhere.py with pytest in verl's own environment."""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# It chooses the platform, and so comes first.
import verl_on_cpu

# isort: split
import numpy as np
import pandas
import pytest
import ray
import small_model
import torch
import transfer_queue
from alike import made, standardises
from omegaconf import OmegaConf
from safetensors.numpy import load_file
from small_verl import ACTOR, GROUP, LONGEST, batch, loss_and_gradient, settings
from verl import DataProto
from verl.trainer.ppo import rollout_corr_helper
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.losses import ppo_loss

from ipsrl import objectives
from ipsrl.integrations import verl as ours
from ipsrl.integrations.guest import GuestObjective
from ipsrl.integrations.torch_bridge import ADVANTAGES, PREFIX, TorchBridge
from ipsrl.synthetic_rollouts import synthetic_rollouts

NO_DUAL_CLIP = f"{ACTOR}.clip_ratio_c=1e6"
BY_ANSWER = f"{ACTOR}.loss_agg_mode=seq-mean-token-mean"
LOSS, LOW, HIGH = (f"{ACTOR}.{name}" for name in ("policy_loss.loss_mode", "clip_ratio_low", "clip_ratio_high"))
K3 = [f"{ACTOR}.{setting}" for setting in ("use_kl_loss=true", "kl_loss_coef=0.04", "kl_loss_type=low_var_kl")]
OF_A_WHOLE_TRAINING = "grpo(kl=0.04, clip=(0.2, 0.28), aggregation=token_mean)"
ALIKE = {
    "grpo": ("grpo", [BY_ANSWER, NO_DUAL_CLIP]),
    "dr_grpo": (
        "grpo",
        [
            "algorithm.norm_adv_by_std_in_grpo=false",
            f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm",
            f"{ACTOR}.loss_scale_factor={LONGEST}",
            NO_DUAL_CLIP,
        ],
    ),
    "dapo(overlong=0)": ("grpo", [f"{HIGH}=0.28", NO_DUAL_CLIP]),
    "gspo": ("grpo", [f"{LOSS}=gspo", f"{LOW}=3e-4", f"{HIGH}=4e-4", BY_ANSWER]),
    "cispo(cap=1.2)": ("grpo", [f"{LOSS}=cispo", f"{LOW}=1", f"{HIGH}=0.2"]),
    "rloo(ratio=token)": ("rloo", [BY_ANSWER, NO_DUAL_CLIP]),
    "sapo": ("grpo", [f"{LOSS}=sapo", BY_ANSWER]),
    "grpo(kl=0.04)": ("grpo", [*K3, BY_ANSWER, NO_DUAL_CLIP]),
    OF_A_WHOLE_TRAINING: ("grpo", [f"{HIGH}=0.28", *K3, NO_DUAL_CLIP]),
}
"""Our objectives, and what verl has in their place: its advantage estimator and other settings."""


def even(words):
    """The number of even words. Beside rewards of this size verl's epsilon, 1e-6, is nothing."""
    return 1024.0 * sum(word % 2 == 0 for word in words)


def of_ours(objective, outcome_of=None):
    lines = [
        "trainer.v1.trainer_mode=ipsrl",
        "algorithm.adv_estimator=ipsrl",
        f"+algorithm.ipsrl.objective='{objective}'",
        "+algorithm.ipsrl.right_above=0.0",
    ]
    return lines + ([f"+algorithm.ipsrl.outcome_of='{outcome_of}'"] if outcome_of else [])


@pytest.mark.parametrize(("parts", "ranks"), [(1, 1), (4, 2)])
@pytest.mark.parametrize("text", ALIKE)
def test_losses_and_gradients_are_those_of_verl(tmp_path, text, parts, ranks):
    estimator, changes = ALIKE[text]
    config = settings(tmp_path / "run", f"algorithm.adv_estimator={estimator}", *changes)
    # Large ones beside verl's epsilon, where it divides by a standard deviation; else they only take digits away.
    padded, uid, log_probs = batch(scale=1024.0 if standardises(made(text)) else 1.0)
    if ranks > 1:
        # verl's correction of the sampler's probabilities: of tokens, or of answers where an answer has one ratio.
        drawn = torch.rand(len(uid), 1 if text == "gspo" else LONGEST, generator=torch.Generator().manual_seed(1))
        padded["rollout_is_weights"] = (0.5 + drawn).expand_as(log_probs)
    cut = np.arange(len(uid)).reshape(parts, -1)
    data = DataProto.from_dict({name: values.clone() for name, values in padded.items()}, {"uid": uid})
    theirs = compute_advantage(
        data,
        config.algorithm.adv_estimator,
        config=config.algorithm,
        norm_adv_by_std_in_grpo=config.algorithm.norm_adv_by_std_in_grpo,
    )
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    wanted = loss_and_gradient(
        lambda **given: ppo_loss(actor, **given),
        padded | {"advantages": theirs.batch["advantages"]},
        log_probs,
        cut,
        ranks,
    )

    bridge = TorchBridge(GuestObjective(made(text), GROUP, "verl", frozenset({"reference_log_probs"})), LONGEST)
    given = {name: padded[field] for name, field in ours.OF_TOKENS.items()}
    mask = padded["response_mask"]
    weighed, _ = bridge.weigh(
        uid.tolist(),
        padded["token_level_rewards"].sum(dim=1),
        np.zeros(len(uid), np.int32),
        truncated=torch.zeros(len(uid), dtype=torch.bool),
        **given,
    )
    weighed = {name: values for name, values in weighed.items() if name.removeprefix(PREFIX) not in given}
    weighed["advantages"] = weighed.pop(PREFIX + ADVANTAGES)
    weighed[ours.COUNT] = torch.full((len(uid),), bridge.count(mask))
    plain = settings(tmp_path / "run", f"{ACTOR}.policy_loss.loss_mode=ipsrl")
    actor = omega_conf_to_dataclass(plain.actor_rollout_ref.actor)
    found = loss_and_gradient(
        lambda **given: ours.loss_of_worker(actor, bridge=bridge, **given), padded | weighed, log_probs, cut, ranks
    )
    assert wanted[1].abs().max() > 1e-4
    assert found[0] == pytest.approx(wanted[0], rel=1e-6, abs=1e-6)
    torch.testing.assert_close(found[1], wanted[1], rtol=0, atol=1e-5 * float(wanted[1].abs().max()))


@pytest.mark.parametrize(
    ("text", "level", "bounds", "rejects"),
    [
        ("truncated(1.2)", "token", 1.2, False),
        ("truncated(1.2, level=sequence)", "sequence", 1.2, False),
        ("masked(0.8, 1.3)", "token", "0.8_1.3", False),
        ("masked(0.5, 2.0, level=sequence)", "sequence", "0.5_2.0", False),
        # verl's rejection looks at the inverse ratio.
        ("masked(0.8, 1.25, level=geometric)", "token", 1e9, True),
    ],
)
def test_weights_of_corrections_are_those_of_verl(text, level, bounds, rejects):
    rollouts, _ = synthetic_rollouts(0, prompts=6, group=4, length=6)
    found, metrics = objectives.make(f"grpo(correction={text})").correction(None, rollouts, None)
    log_ratio, mask = (
        torch.tensor(np.asarray(values)).flatten(0, 1)
        for values in (rollouts.proximal_log_probs - rollouts.behaviour_log_probs, rollouts.token_mask)
    )
    wanted, _ = rollout_corr_helper.compute_rollout_correction_weights(log_ratio, mask.long(), level, bounds)
    if rejects:
        rejection = rollout_corr_helper.compute_rollout_rejection_mask
        wanted = wanted * rejection(log_ratio, mask.long(), "seq_mean_k1", "0.8_1.25")[0]
    np.testing.assert_allclose(np.asarray(found).reshape(mask.shape)[mask], wanted[mask], rtol=1e-6)
    changed, tokens = metrics["correction_fraction"]
    assert 0.05 < changed / tokens < 0.95


def test_advantages_alone_in_another_trainer(tmp_path):
    config = settings(tmp_path / "run", "algorithm.adv_estimator=ipsrl", "+algorithm.ipsrl.objective=dr_grpo")
    padded, uid, _ = batch(scale=1.0)
    data = DataProto.from_dict(padded, {"uid": uid})
    with pytest.warns(UserWarning, match="differs from GRPO in its aggregation"):
        found = compute_advantage(data, "ipsrl", config=config.algorithm).batch["advantages"]
    rewards = padded["token_level_rewards"].sum(dim=1)
    mean = torch.tensor([rewards[torch.tensor(uid == name)].mean() for name in uid])
    torch.testing.assert_close(found, (rewards - mean)[:, None] * padded["response_mask"], rtol=0, atol=1e-6)


def test_the_policy_loss_without_its_trainer_says_what_to_set():
    with pytest.raises(ValueError, match=r"set trainer.v1.trainer_mode=ipsrl"):
        get_policy_loss_fn("ipsrl")(*torch.zeros(4, 2, 2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("verl")
    small_model.saved(found / "model")
    prompts = ["1 2", "3", "4 5 6", "7"]
    columns = {
        "prompt": [[{"role": "user", "content": text}] for text in prompts],
        "data_source": ["words"] * 4,
        "reward_model": [{"ground_truth": text} for text in prompts],
        "extra_info": [{"index": number} for number in range(4)],
    }
    pandas.DataFrame(columns).to_parquet(found / "data.parquet")
    return found


@pytest.fixture(scope="module")
def cluster():
    # What verl asks for as GPUs are processes on the CPU here.
    ray.init(num_cpus=24, num_gpus=2, include_dashboard=False)
    yield
    ray.shutdown()


class Ours(verl_on_cpu.Observed, ours.IPSRLTrainerSync):
    pass


def trained(kind, folder, *changes, reward=even, yaml=""):
    """The parameters after training, and the trainer."""
    config = settings(folder, *changes)
    OmegaConf.set_struct(config, False)
    config = OmegaConf.merge(config, OmegaConf.create(yaml))
    transfer_queue.init(config.transfer_queue)
    trainer = kind(config)
    try:
        trainer.init()
        trainer.fit(verl_on_cpu.Answers(GROUP, reward))
    finally:
        for pool in trainer.resource_pool_manager.resource_pool_dict.values():
            for placed in pool.pgs:
                # Ends the workers.
                ray.util.remove_placement_group(placed)
        transfer_queue.close()
    return parameters(folder, trainer.global_steps - 1), trainer


def parameters(folder, step):
    # One file of each rank.
    files = sorted((folder / f"global_step_{step}" / "actor").glob("model_*.pt"))
    values = [value for file in files for value in torch.load(file, weights_only=False).values()]
    return torch.cat([getattr(value, "_local_tensor", value).flatten() for value in values])


def test_training_ends_with_the_parameters_of_verl(folder, cluster, monkeypatch):
    """Two steps of verl's trainer, whole but for the sampler: queue, workers, engine, loss and optimiser."""
    estimator, changes = ALIKE[OF_A_WHOLE_TRAINING]
    # On two processes; of two mini-batches of two groups, verl fills the second with rows that are none.
    shape = [
        "data.train_batch_size=3",
        f"{ACTOR}.ppo_mini_batch_size=2",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
        f"{ACTOR}.ppo_epochs=2",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2",
        "trainer.n_gpus_per_node=2",
    ]
    wanted, _ = trained(
        verl_on_cpu.Observed, folder / "theirs", f"algorithm.adv_estimator={estimator}", *changes, *shape
    )
    monkeypatch.setattr(ours, "GuestObjective", lambda text, *rest: GuestObjective(made(text), *rest))
    found, _ = trained(Ours, folder / "ours", *of_ours(OF_A_WHOLE_TRAINING), *shape)
    assert (wanted - parameters(folder / "theirs", 1)).abs().max() > 1e-3
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def test_the_lines_of_the_page_train_and_a_resumed_run_goes_on_with_the_state_of_the_objective(folder, cluster):
    page = (Path(ours.__file__).parents[2] / "docs" / "integrations.md").read_text()
    (lines,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    # As on the page, but with a state, and for rewards of several sizes.
    text = "ips_grpo(floor=0.2, probability=ema)"
    lines = lines.replace("ips_grpo(floor=0.2)", text).replace("last_number", "last_number, right_above: 0.0")
    whole, again = folder / "whole", folder / "again"
    wanted, trainer = trained(Ours, whole, yaml=lines)
    assert trainer.bridge.guest.objective == objectives.make(text)
    assert trainer.outcome_of("", "so it is 7") == 7
    logged = trainer.history[-1]
    for name in ("group_effective_outcomes", "degenerate_groups", "pass@1", "pass@4", "pcmd"):
        assert math.isfinite(logged[f"ipsrl/{name}"])
    assert "monitor/degenerate_groups" in logged
    assert "actor/ipsrl/importance_ratio" in logged

    shutil.copytree(whole / "global_step_1", again / "global_step_1")
    (again / "latest_checkpointed_iteration.txt").write_text("1")
    found, trainer = trained(Ours, again, yaml=lines)
    assert len(trainer.history) == 1
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-7)
    states = [load_file(run / "global_step_2" / ours.STATE_FILE) for run in (whole, again)]
    assert states[0]
    for name, values in states[0].items():
        np.testing.assert_array_equal(states[1][name], values)


def test_a_reward_that_is_no_number_ends_training_with_a_sentence(folder, cluster):
    with pytest.raises(ValueError, match="the reward of row 0 is nan"):
        trained(Ours, folder / "nan", *of_ours("grpo"), reward=lambda words: math.nan)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (of_ours("ips_grpo"), "the objective reads outcomes: give algorithm.ipsrl.outcome_of"),
        (of_ours("ips_grpo", "last_nomber"), "outcome_of is last_nomber, which cannot be loaded"),
        (of_ours("ips_grpo", "none.py:outcome_of"), r"outcome_of is none.py:outcome_of, which cannot be loaded"),
        (of_ours("grpo(correction=truncated)"), "corrects for the sampler, whose probabilities verl does not give"),
        (of_ours("grpo(correction=sequence_mask(0.1))"), "in the place of the sampler's: leave it out"),
        (of_ours("trajectory_balance", "exact_text"), "learns parameters of its own"),
        ([*of_ours("grpo"), "algorithm.adv_estimator=grpo"], "set algorithm.adv_estimator=ipsrl"),
        ([*of_ours("grpo"), f"{ACTOR}.clip_ratio_high=0.28"], "sets actor_rollout_ref.actor.clip_ratio_high, in whose"),
        ([*of_ours("grpo"), f"{ACTOR}.policy_loss.loss_mode=gspo"], "policy_loss.loss_mode, in whose place"),
        ([*of_ours("grpo"), f"{ACTOR}.shuffle=true", f"{ACTOR}.ppo_mini_batch_size=1"], "shuffle=false"),
        ([*of_ours("vargrad"), f"{ACTOR}.ppo_micro_batch_size_per_gpu=4"], "couples the answers of a group, and verl"),
        ([*of_ours("aer"), "algorithm.rollout_correction.bypass_mode=true"], "bypass_mode=false"),
        (["algorithm.adv_estimator=ipsrl"], "algorithm.ipsrl must have an objective"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_begins(tmp_path, lines, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ours.IPSRLTrainerSync(settings(tmp_path / "run", *lines))


def test_outcomes_are_found_in_files(tmp_path):
    (tmp_path / "words.py").write_text("def first(prompt, completion, **columns):\n    return completion[:1]\n")
    assert ours.outcome_function(f"{tmp_path}/words.py:first")("", "5 7") == "5"


def test_verl_finds_it_by_its_entry_point(tmp_path):
    root = Path(ours.__file__).parents[2]
    command = [sys.executable, "setup.py", "-q", "egg_info", f"--egg-base={tmp_path}"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    program = (
        "from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn; "
        "from verl.trainer.ppo.v1 import get_trainer_cls; "
        "print(get_trainer_cls('ipsrl'), get_adv_estimator_fn('ipsrl'), get_policy_loss_fn('ipsrl'))"
    )
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
    found = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    for name in ("IPSRLTrainerSync", "advantage_estimator", "policy_loss"):
        assert f"{name} " in found.stdout or f"{name}'" in found.stdout, found.stderr
