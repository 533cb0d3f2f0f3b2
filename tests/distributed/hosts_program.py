"""One process of a training run over several: started by `test_many_hosts`, and read by it for the same run alone.

python hosts_program.py '{"out": "folder", "mesh": "data:8", ..., "process": 0, "port": 12345}'
"""

import dataclasses
import faulthandler
import functools
import itertools
import json
import math
import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ipsrl.command.ending
from ipsrl import objectives
from ipsrl.command.ending import Ending
from ipsrl.distributed import hosts
from ipsrl.distributed.mesh import make_mesh, replicate, shard_prompts
from ipsrl.distributed.start_up import Cluster, start_up
from ipsrl.policies.transformer import Transformer
from ipsrl.records import run_folder
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.run_folder import RunFolder, RunFolderError
from ipsrl.rollouts.prompts import choose_prompts
from ipsrl.rollouts.sampled_answers import answers_with_history, independent_answers
from ipsrl.rollouts.sources.stored_groups import StoredGroups
from ipsrl.training.loop import TrainSettings, train
from ipsrl.training.settings import make_batch_filters
from ipsrl.training.step import Batching
from ipsrl.training.storage import stored_tree
from ipsrl.training.storage.checkpoints import Checkpoints
from ipsrl.training.storage.parameter_cache import cached
from tests.hangs import HANGS
from tests.look_up import LookUpOnHost
from tests.sampled_groups import collect
from tests.training.first_token import FirstToken

VERIFIED = []
LOST_AFTER = math.inf
"""Prompts that this process verifies before it is killed."""


@dataclasses.dataclass(frozen=True)
class FirstTokenVerified(FirstToken):
    """It says whom it has verified."""

    def verify(self, trajectories):
        VERIFIED.extend(np.asarray(trajectories.prompts.index).tolist())
        if len(VERIFIED) >= LOST_AFTER:
            # The one that the shell knows, which this process does not outlive.
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        return super().verify(trajectories)


@dataclasses.dataclass(frozen=True)
class LookUpOnFirstHost(LookUpOnHost):
    """Its tool is for the first process alone."""

    def call(self, prompt_index, answers, own):
        assert hosts.is_first()
        return super().call(prompt_index, answers, own)


TASK = FirstTokenVerified()
POLICY = Transformer(
    TASK.vocabulary_size, hidden_size=16, num_layers=1, num_heads=4, num_key_value_heads=4, intermediate_size=16
)
WITH_TOOL = LookUpOnFirstHost()
ON_TOOL = dataclasses.replace(POLICY, vocabulary_size=WITH_TOOL.vocabulary_size)
SEED = 5
# Prompts on either host; on both hosts; a model axis between hosts, so that both hold every prompt.
MESHES = ("data:8", "data:4,model:2", "model:2,data:4")


def sampled(mesh, parameters):
    """The first batch and its outcomes as the loop makes them, whole, and which prompts this process has verified."""
    with jax.set_mesh(mesh):
        prompts = shard_prompts(choose_prompts(TASK, SEED, 0, 16), mesh)
        VERIFIED.clear()
        trajectories, outcomes = collect(TASK, POLICY, replicate(parameters, mesh), prompts, SEED, 0, 4, 1.0)
        verified = list(VERIFIED)
        return hosts.to_host({"tokens": trajectories.tokens, "rewards": outcomes.rewards}), verified


def answered(step, parameters):
    """Answers under both protocols, as numbers that any change of an answer changes."""
    key = jax.random.key(step)
    verdicts = [ask(TASK, POLICY, parameters, key, 3).outcomes for ask in (independent_answers, answers_with_history)]
    place = np.arange(1, TASK.num_prompts * 3 + 1).reshape(-1, 3)
    totals = {f"answers_{i}": float((outcomes.outcome_id * place).sum()) for i, outcomes in enumerate(verdicts)}
    return Evaluation(totals)


def stored_groups():
    """Groups that the initial policy scores and the environment verifies; the third step begins another pass."""
    answers = [TASK.render(number % TASK.num_hypotheses) for number in range(6)]
    rows = [{"prompt": row % TASK.num_prompts, "answers": answers[row % 3 :][:4]} for row in range(40)]
    return StoredGroups.of(TASK, POLICY, 16, rows)


def run(
    out,
    mesh,
    steps,
    optimizer="sgd",
    evaluate_every=0,
    checkpoint_every=10,
    filters="",
    stored=False,
    tools=False,
    resume=False,
):
    """Trains in the folder `out`, and returns the final state; 0 is for no evaluation."""
    task, policy = (WITH_TOOL, ON_TOOL) if tools else (TASK, POLICY)
    settings = TrainSettings(
        steps=steps,
        prompts_per_step=16,
        group_size=4,
        learning_rate=0.05 if optimizer == "sgd" else 1e-3,
        optimizer=optimizer,
        batching=Batching(mini_batches=2),
        evaluate_every=evaluate_every or steps,
        checkpoint_every=checkpoint_every,
        wrappers=make_batch_filters(filters),
    )
    objective = objectives.make("ips_grpo(kl=0.1)")
    with RunFolder.open(out, {"seed": SEED}, resume) as folder:
        evaluate = answered if evaluate_every else None
        return train(
            task,
            policy,
            objective,
            settings,
            SEED,
            folder,
            make_mesh(mesh),
            evaluate=evaluate,
            source=stored_groups() if stored else None,
        )


def main(process, port, meshes=(), forever=None, then=(), lost=None, **arguments):
    """Joins the other process, and runs.

    Args:
      process, port: which of the two this is, and where they meet.
      meshes: where to try `sampled`, after a check of what hosts do together.
      forever: a folder to write checkpoints to instead, until this process is killed.
      then: the arguments of other runs, one after the other, after this one.
      lost: which process is killed in the 11th step.
      arguments: of `run_and_save`.
    """
    global LOST_AFTER
    if lost == process:
        LOST_AFTER = 11 * 8
    # On a slow machine seconds may lie between the last words of a process and its end.
    ipsrl.command.ending.HELD_BACK_SECONDS = HANGS
    cluster = Cluster(f"127.0.0.1:{port}", num_processes=2, process_id=process, heartbeat_timeout=20)
    with Ending() as ending:
        ending.supervise()
        # Where both wait for ever, they say where, before the test loses patience. Not before the fork, which the
        # thread that waits would not survive.
        faulthandler.dump_traceback_later(HANGS - 60, exit=True)
        start_up(host_devices=4, cluster=cluster)
        with hosts.on_all_hosts():
            if forever:
                save_for_ever(forever)
            if meshes:
                check_hosts(process, arguments["out"])
                check_cache(process, arguments["out"])
            run_and_save(process, meshes, **arguments)
            for each in then:
                run_and_save(process, **each)


def run_and_save(process, meshes=(), save=None, **arguments):
    """Runs; final parameters, and what `sampled` finds on `meshes`, go to a file, `save` followed by the process."""
    state = run(**arguments)
    if save:
        found = {}
        for mesh in meshes:
            arrays, verified = sampled(make_mesh(mesh), POLICY.init(jax.random.key(0)))
            found |= {f"{mesh} {name}": value for name, value in (arrays | {"verified": verified}).items()}
        np.savez(f"{save}{process}.npz", **found, **by_name(state.parameters))


def check_hosts(process, folder):
    """Checks the functions of `hosts` with several hosts, and a folder that not all of them see."""
    assert hosts.is_first() == (process == 0)
    assert hosts.broadcast({"who": process, "long": "x" * 5000}) == {"who": 0, "long": "x" * 5000}
    assert hosts.first_does(lambda: f"done by {process}") == (None if process else "done by 0")
    assert hosts.all_hosts(True)
    assert not hosts.all_hosts(process == 0)
    hosts.require_same([1, {"a": None}], "list")
    with pytest.raises(ValueError, match="the number is not the same on all hosts"):
        hosts.require_same(process, "number")
    with pytest.raises(hosts.OtherHostError if process else FileNotFoundError, match="no such file as 0"):
        hosts.first_does(functools.partial(_fail, FileNotFoundError(f"no such file as {process}")))
    run_folder.LATE_SECONDS = 1
    with pytest.raises(RunFolderError, match="choose an --out that they share"):
        RunFolder.open(f"{folder}-of-{process}", {})
    mesh = make_mesh("data:8")
    with jax.set_mesh(mesh):
        spread = shard_prompts({"a": np.arange(16), "b": np.ones((8, 2), np.float16)}, mesh)
        assert len(spread["a"].addressable_shards) == 4
        np.testing.assert_array_equal(hosts.to_host(spread)["a"], np.arange(16))
        # Onto another layout, over the network.
        np.testing.assert_array_equal(replicate(spread["b"], mesh).addressable_data(0), np.ones((8, 2)))


def check_cache(process, folder):
    """The first host alone makes parameters and reads them again, which the checkpoints that follow must not notice."""
    made = []

    def make():
        made.append(process)
        return {"values": jnp.arange(3.0)}

    for _ in range(2):
        tree = cached({"of": folder}, make, {"values": jax.ShapeDtypeStruct((3,), jnp.float32)})
        np.testing.assert_array_equal(tree["values"], np.arange(3.0))
    assert made == [0] * (process == 0)


def _fail(error):
    raise error


def save_for_ever(folder):
    """Prints the number of every checkpoint when it has begun to write it."""
    mesh = make_mesh("data:8")

    def state(step):
        values = np.full((8, 100_000), step, np.float32)
        return {"spread": shard_prompts(values, mesh), "whole": replicate(np.float32(step), mesh)}

    with Checkpoints(folder, every=1) as checkpoints:
        found = checkpoints.restore(state(0))
        for step in itertools.count(found[0] + 1 if found else 1):
            checkpoints.save(step, state(step))
            print("saving", step, flush=True)


def by_name(parameters):
    return stored_tree.named_leaves(hosts.to_host(parameters))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
