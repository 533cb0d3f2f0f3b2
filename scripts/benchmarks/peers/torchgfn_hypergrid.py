"""Trajectory balance on torchgfn's hypergrid, with the settings of its own benchmark, as a contender.

An MLP of 2 x 256 whose trunk is shared with the learned backward policy, Adam with rate 0.001 and 0.1 for log Z,
trajectories of the policy itself; the environment's checks are off, as in that benchmark.
"""

import importlib.metadata
import sys

import torch
from gfn.estimators import DiscretePolicyEstimator
from gfn.gflownet import TBGFlowNet
from gfn.gym import HyperGrid
from gfn.preprocessors import KHotPreprocessor
from gfn.samplers import Sampler
from gfn.utils.common import set_seed
from gfn.utils.modules import MLP

from benchmarks.contender import serve
from benchmarks.peers.hypergrid_task import R0, R1, R2, Task, steps

HIDDEN, RATE, LOG_Z_RATE = 256, 1e-3, 0.1


def main() -> None:
    task = Task.read(sys.argv[1])
    set_seed(task.seed)
    environment = HyperGrid(
        ndim=task.dimensions,
        height=task.side,
        reward_fn_str="original",
        reward_fn_kwargs={"R0": R0, "R1": R1, "R2": R2},
        device=torch.device("cpu"),
        calculate_partition=False,
        store_all_states=False,
        debug=False,
    )
    features = KHotPreprocessor(height=task.side, ndim=task.dimensions)
    forward_module = MLP(features.output_dim, environment.n_actions, HIDDEN, n_hidden_layers=2)
    backward_module = MLP(features.output_dim, environment.n_actions - 1, trunk=forward_module.trunk)
    forward = DiscretePolicyEstimator(forward_module, environment.n_actions, preprocessor=features)
    backward = DiscretePolicyEstimator(backward_module, environment.n_actions, preprocessor=features, is_backward=True)
    gflownet = TBGFlowNet(pf=forward, pb=backward, init_logZ=0.0)
    optimizer = torch.optim.Adam(gflownet.pf_pb_parameters(), lr=RATE)
    optimizer.add_param_group({"params": gflownet.logz_parameters(), "lr": LOG_Z_RATE})
    sampler = Sampler(estimator=forward)
    one_hot = torch.nn.functional.one_hot(torch.as_tensor(task.coordinates), task.side).flatten(1).float()

    def train():
        for _ in range(task.updates):
            walks = sampler.sample_trajectories(
                environment, n=task.batch, save_logprobs=False, save_estimator_outputs=False
            )
            optimizer.zero_grad()
            gflownet.loss_from_trajectories(environment, walks, recalculate_all_logprobs=True).backward()
            optimizer.step()

    def logits():
        with torch.no_grad():
            return forward_module(one_hot).numpy()

    serve(
        {
            "version": importlib.metadata.version("torchgfn"),
            "torch": torch.__version__,
            "parameters": sum(leaf.numel() for leaf in gflownet.parameters()),
        },
        steps(task, train, logits),
    )


if __name__ == "__main__":
    main()
