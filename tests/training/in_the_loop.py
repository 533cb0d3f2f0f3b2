"""Runs of the loop in a folder."""

import jax

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.records.run_folder import RunFolder
from ipsrl.training.loop import train


def trained(path, environment, policy, objective, settings, seed=0, mesh="replica:-1", resume=False, **given):
    """Trains by an objective's text, or goes on with what the folder holds."""
    mesh = make_mesh(mesh) if isinstance(mesh, str) else mesh
    with RunFolder.open(path, {}, resume) as folder:
        return train(environment, policy, objectives.make(objective), settings, seed, folder, mesh, **given)


def records_of(trainer, seed=0, mesh="data:8"):
    """The metrics of each step of a run without a folder."""
    records = []
    with jax.set_mesh(make_mesh(mesh)):
        trainer.check()
        state = trainer.init(seed)
        for _ in range(trainer.settings.steps):
            state, metrics = trainer.step(state)
            records.append(jax.device_get(metrics))
    return records
