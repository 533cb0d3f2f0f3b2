"""The loop learns, logs what it did, and ends at the same bits however often it was interrupted."""

import dataclasses
import math
import shutil
from pathlib import Path
from typing import ClassVar, NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh, own_device_mesh
from ipsrl.environments.environment import Environment
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.environments.graphs.hypergrid import Hypergrid
from ipsrl.policies.policy import Policy
from ipsrl.policies.tabular import Tabular
from ipsrl.records import metric_log
from ipsrl.records.evaluation import Evaluation
from ipsrl.records.run_folder import RunFolder
from ipsrl.records.run_log import NonFiniteLossError
from ipsrl.rollouts import tools
from ipsrl.rollouts.sampler import sample_groups
from ipsrl.training.loop import _Alone
from ipsrl.training.settings import TrainSettings
from ipsrl.training.step import Batching, TrainState
from ipsrl.training.storage import stored_tree
from ipsrl.training.storage.checkpoints import Checkpoints
from ipsrl.training.trainer import Trainer
from tests.records.bandit_run import interrupted_at
from tests.records.folder_bytes import contents
from tests.tiers import slow_after
from tests.training.compilations import compilations_of
from tests.training.first_token import FIRST_TOKEN, TRANSFORMER
from tests.training.in_the_loop import trained

pytestmark = pytest.mark.eight_devices

SETTINGS = TrainSettings(
    steps=7,
    prompts_per_step=16,
    group_size=4,
    learning_rate=0.01,
    batching=Batching(mini_batches=2),
    evaluate_every=3,
    checkpoint_every=2,
)


class Case(NamedTuple):
    environment: Environment
    policy: Policy
    objective: str
    mesh: Mesh
    settings: TrainSettings = SETTINGS


CASES = {
    # Carries a running mean in the objective's state.
    "hypergrid": Case(Hypergrid(2, side=4), Tabular(16, 3), "ips_grpo(probability=exact)", own_device_mesh()),
    # Verified on the host, with a reference policy, on eight devices.
    "text": Case(FIRST_TOKEN, TRANSFORMER, "ips_grpo(kl=0.1)", make_mesh("data:8")),
}


def sum_of_squares(step: int, parameters) -> Evaluation:
    """An evaluation that any change of the parameters changes."""
    return Evaluation(
        {"squares": float(sum(np.square(leaf).sum() for leaf in jax.tree.leaves(jax.device_get(parameters))))}
    )


def with_shares(step: int, parameters) -> Evaluation:
    """The same, and what is stored beside the metrics."""
    return dataclasses.replace(sum_of_squares(step, parameters), ranked_shares=(0.75, 0.25))


def run(path: Path, case: Case, evaluate=sum_of_squares, resume=False, initial_parameters=None) -> TrainState:
    given = {"initial_parameters": initial_parameters, "evaluate": evaluate}
    return trained(path, *case[:3], case.settings, 5, case.mesh, resume, **given)


def bits(tree) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def metrics(path: Path) -> bytes:
    return (path / "metrics.jsonl").read_bytes()


def checkpoint_steps(path: Path) -> list[str]:
    return sorted(entry.name for entry in (path / "checkpoints").glob("*"))


class Undisturbed(NamedTuple):
    case: Case
    path: Path
    state: TrainState


@pytest.fixture(scope="module", params=slow_after(1, list(CASES)))
def undisturbed(request, tmp_path_factory) -> Undisturbed:
    case, path = CASES[request.param], tmp_path_factory.mktemp(request.param) / "run"
    return Undisturbed(case, path, run(path, case))


only_hypergrid = pytest.mark.parametrize("undisturbed", ["hypergrid"], indirect=True)


def test_every_step_leaves_one_record_with_evaluations_where_they_are_due(undisturbed):
    records = metric_log.read(undisturbed.path / "metrics.jsonl")
    assert [record["step"] for record in records] == list(range(8))
    assert [record["step"] for record in records if "evaluation/squares" in record] == [0, 3, 6, 7]
    assert set(records[0]) == {"step", "evaluation/squares"}
    for record in records[1:]:
        assert {"reward", "loss", "gradient_norm", "degenerate_groups", "group_distinct_outcomes"} <= set(record)
        assert all(math.isfinite(value) for value in record.values())
        assert record["sampler_scorer_difference"] < 1e-5
    assert records[-1]["evaluation/squares"] == sum_of_squares(7, undisturbed.state.parameters).metrics["squares"]
    assert records[0]["evaluation/squares"] != records[-1]["evaluation/squares"]
    assert checkpoint_steps(undisturbed.path) == ["6", "7"]
    assert undisturbed.state.step == 7


def interrupted(path: Path, case: Case, step: int, resume: bool = False) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(path, case, interrupted_at(step, sum_of_squares), resume)


def test_an_interrupted_run_ends_at_the_same_bits(undisturbed, tmp_path):
    """Before the first checkpoint, and twice behind one."""
    case = undisturbed.case
    with compilations_of("update") as programs:
        for stop, kept in ((0, []), (3, ["2"]), (6, ["2", "4"])):
            interrupted(tmp_path, case, stop, resume=stop > 0)
            assert checkpoint_steps(tmp_path) == kept
        state = run(tmp_path, case, resume=True)
    assert bits(state) == bits(undisturbed.state)
    assert metrics(tmp_path) == metrics(undisturbed.path)
    # A restored state has the type of a fresh one: nothing is compiled again.
    assert not programs


@only_hypergrid
def test_a_damaged_checkpoint_costs_steps_but_no_bits(undisturbed, tmp_path, warnings_logged):
    interrupted(tmp_path, undisturbed.case, 6)
    data = max((tmp_path / "checkpoints" / "4").rglob("*"), key=lambda path: path.stat().st_size * path.is_file())
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    state = run(tmp_path, undisturbed.case, resume=True)
    assert bits(state) == bits(undisturbed.state)
    assert metrics(tmp_path) == metrics(undisturbed.path)
    (line,) = warnings_logged
    assert "step 4 cannot be used" in line
    assert "step 2 is used instead" in line


def shortened(number):
    return lambda lines: lines[:number]


# A checkpoint knows the checksum of the records before it.
LOST = {
    "short": (shortened(4), 2),
    "another order": (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], 2),
    "shorter": (shortened(2), None),
    "a step below 0": (lambda lines: ['{"step": -1}\n', *lines], None),
}


@pytest.fixture(scope="module")
def with_outcomes(tmp_path_factory):
    """A case with both files of records, and the folders of a whole run and of one that was interrupted at step 6."""
    case, path = changed(CASES["hypergrid"], evaluate_every=1), tmp_path_factory.mktemp("outcomes")
    run(path / "whole", case, with_shares)
    with pytest.raises(KeyboardInterrupt):
        run(path / "interrupted", case, interrupted_at(6, with_shares))
    return case, path


@pytest.mark.parametrize("name", ["metrics.jsonl", "outcomes.jsonl"])
@pytest.mark.parametrize("damage", LOST)
def test_records_that_are_lost_are_noticed(with_outcomes, tmp_path, warnings_logged, damage, name):
    """Steps 0 to 5 and checkpoints of 2 and 4: the run goes back to a step that has both, or says what is lost."""
    harm, used = LOST[damage]
    (case, folders), path = with_outcomes, tmp_path / "run"
    shutil.copytree(folders / "interrupted", path)
    log = path / name
    log.write_text("".join(harm(log.read_text().splitlines(keepends=True))))
    if used is None:
        before = contents(path)
        reason = f"records in {name} are lost or changed"
        with pytest.raises(ValueError, match=rf"step 4: {reason}; step 2: {reason}\): .* delete the folder"):
            run(path, case, with_shares, resume=True)
        after = contents(path)
        assert after | {Path("environment.json"): before[Path("environment.json")]} == before
        return
    run(path, case, with_shares, resume=True)
    for file in ("metrics.jsonl", "outcomes.jsonl"):
        assert (path / file).read_bytes() == (folders / "whole" / file).read_bytes()
    (warning,) = warnings_logged
    assert f"The checkpoint of step 4 cannot be used (records in {name} are lost or changed)" in warning
    assert f"step {used} is used instead" in warning


@pytest.mark.parametrize("name", ["metrics.jsonl", "outcomes.jsonl"])
def test_a_finished_run_without_one_of_its_files_is_refused(with_outcomes, tmp_path, name):
    (case, folders), path = with_outcomes, tmp_path / "run"
    shutil.copytree(folders / "whole", path)
    shutil.rmtree(path / "checkpoints" / "7")
    (path / name).unlink()
    for _ in range(2):
        with pytest.raises(
            ValueError, match=rf"can be used \(step 6: {name} is missing\): restore the files, or delete"
        ):
            run(path, case, with_shares, resume=True)
        assert not (path / name).exists()


@only_hypergrid
def test_a_finished_run_with_a_gap_is_not_finished(undisturbed, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(undisturbed.path, path)
    log = path / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))
    run(path, undisturbed.case, resume=True)
    assert metrics(path) == metrics(undisturbed.path)
    log.write_text("".join(lines[:3] + lines[4:]))
    with pytest.raises(ValueError, match=r"records in metrics\.jsonl are lost or changed"):
        run(path, undisturbed.case, resume=True)


def test_a_finished_run_is_left_as_it_is(undisturbed):
    before = metrics(undisturbed.path)
    state = run(undisturbed.path, undisturbed.case, lambda *_: pytest.fail("evaluated again"), resume=True)
    assert bits(state) == bits(undisturbed.state)
    assert metrics(undisturbed.path) == before


def test_a_run_that_has_begun_can_be_restored(tmp_path):
    """A step deletes the buffers of the state before it, so nothing else may hold those of the reference."""
    environment, policy, _, mesh, settings = CASES["hypergrid"]
    trainer = Trainer(environment, policy, objectives.make("ips_grpo(kl=0.1)"), settings)
    with jax.set_mesh(mesh), RunFolder.open(tmp_path, {}, False) as folder, Checkpoints(tmp_path / "none", 1) as none:
        alone = _Alone(trainer, trainer.init(5))
        reference = bits(alone.state.reference)
        alone.step()
        assert alone.restore(none, folder) == 0
        assert bits(alone.state.reference) == reference
        alone.step()


@only_hypergrid
def test_the_devices_of_a_mesh_share_the_prompts(undisturbed, tmp_path, monkeypatch):
    sampled = []

    def spy(*arguments):
        sampled.append(sample_groups(*arguments))
        return sampled[-1]

    monkeypatch.setattr(tools, "sample_groups", spy)
    shared = run(tmp_path, undisturbed.case._replace(mesh=make_mesh("data:8")))
    np.testing.assert_allclose(shared.parameters["logits"], undisturbed.state.parameters["logits"], atol=1e-5)
    placed = [{shard.data.shape[0] for shard in trajectories.tokens.addressable_shards} for trajectories in sampled]
    assert placed == [{2}] * 7


def test_training_starts_from_the_given_parameters_and_leaves_them_alone(tmp_path):
    case = CASES["hypergrid"]
    start = {"logits": jax.random.normal(jax.random.key(0), (16, 3))}
    copy = np.array(start["logits"])
    state = run(tmp_path, case, initial_parameters=start)
    np.testing.assert_array_equal(start["logits"], copy)
    assert (
        metric_log.read(tmp_path / "metrics.jsonl")[0]["evaluation/squares"]
        == sum_of_squares(0, start).metrics["squares"]
    )
    assert np.abs(state.parameters["logits"] - copy).max() > 1e-3


def changed(case: Case, **settings) -> Case:
    return case._replace(settings=dataclasses.replace(case.settings, **settings))


BANDIT = Case(
    Bandit((0.0, 0.0, 1.0)),
    Tabular(1, 3),
    "grpo",
    own_device_mesh(),
    TrainSettings(steps=40, prompts_per_step=1, group_size=16, learning_rate=0.1, checkpoint_every=100),
)


@dataclasses.dataclass(frozen=True)
class Breaking(Bandit):
    """Gives rewards that are no numbers once it has verified `good` batches."""

    verifies_on_host: ClassVar[bool] = True
    good: int = 10**9
    bad: float = math.nan
    verified: list = dataclasses.field(default_factory=list, compare=False)

    def verify(self, trajectories):
        self.verified.append(None)
        outcomes = super().verify(trajectories)
        broken = len(self.verified) > self.good
        return dataclasses.replace(outcomes, rewards=outcomes.rewards + (self.bad if broken else 0.0))


@pytest.mark.parametrize(("bad", "objective"), [(math.inf, "grpo"), (math.nan, "ips_grpo(probability=exact)")])
def test_what_is_not_finite_stops_the_run_and_is_never_kept(tmp_path, bad, objective):
    case = changed(BANDIT, steps=8, checkpoint_every=1)._replace(
        environment=Breaking((0.0, 0.5, 1.0)), objective=objective
    )
    whole = run(tmp_path / "whole", case)

    path = tmp_path / "broken"
    broken = case._replace(environment=Breaking((0.0, 0.5, 1.0), good=5, bad=bad))
    with pytest.raises(NonFiniteLossError, match=rf"^step 6 has reward {bad}.*; last good checkpoint: step 5 in /.*"):
        run(path, broken)
    assert checkpoint_steps(path) == ["4", "5"]
    for step in ("4", "5"):
        kept = stored_tree.load(path / "checkpoints" / step, like=whole)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))
    assert [record["step"] for record in metric_log.read(path / "metrics.jsonl")] == list(range(6))

    # With the cause removed, the run goes on as if nothing had been.
    assert bits(run(path, case, resume=True)) == bits(whole)
    assert metrics(path) == metrics(tmp_path / "whole")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (BANDIT._replace(objective="progrpo"), "needs prompt_log_probs, .* as progrpo\\(reference=correct\\)"),
        (BANDIT._replace(mesh=make_mesh("data:8")), "^1 prompts cannot be split evenly over the 8 devices of "),
        (changed(CASES["text"], batching=Batching(micro_batches=8)), "^2 prompts cannot be split evenly over the 8 "),
        (changed(BANDIT, optimizer="adagrad"), "known: adam, sgd"),
    ],
)
def test_an_impossible_run_is_refused_before_anything_happens(tmp_path, case, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, case, lambda *_: pytest.fail("evaluated"))
    assert not (tmp_path / "metrics.jsonl").exists()
    assert not (tmp_path / "checkpoints").exists()
