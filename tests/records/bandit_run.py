"""A training run of seconds that leaves everything that training leaves."""

from ipsrl import objectives
from ipsrl.distributed.mesh import make_mesh
from ipsrl.environments.graphs.bandit import Bandit
from ipsrl.policies.tabular import Tabular
from ipsrl.records.run_folder import RunFolder
from ipsrl.training.loop import TrainSettings, train


def train_bandit(path, evaluate, resume=False, rewards=(0.0, 0.5, 1.0), trackers=(), **settings):
    settings = {"prompts_per_step": 1, "group_size": 8, "learning_rate": 0.1, **settings}
    policy, mesh = Tabular(1, len(rewards)), make_mesh("replica:-1")
    with RunFolder.open(path, {"seed": 0}, resume) as folder:
        train(
            Bandit(rewards),
            policy,
            objectives.make("grpo"),
            TrainSettings(**settings),
            0,
            folder,
            mesh,
            evaluate=evaluate,
            trackers=trackers,
        )


def interrupted_at(stop, evaluate):
    """An evaluation during which, at step `stop`, the user presses control-C."""

    def evaluate_until(step, parameters):
        if step == stop:
            raise KeyboardInterrupt
        return evaluate(step, parameters)

    return evaluate_until
