"""One of two processes that train by TRL, and then by an objective: started by `test_trl`, with torchrun."""

import sys

import torch
from trl import GRPOTrainer

from ipsrl.integrations.trl import IPSRLTrainer
from tests.integrations import alike, test_trl

TEXT = "dapo(overlong=0)"


def main(model: str, folder: str) -> None:
    """Writes the parameters at the end to `TRL.pt` and `ipsrl.pt` in the folder."""
    common = (model, folder, alike.even_and_large)
    # Two processes would need two accelerators.
    shape = {"per_device_train_batch_size": 4, "max_steps": 3, "use_cpu": True}
    for name, kind, which in (
        ("TRL", GRPOTrainer, test_trl.ALIKE[TEXT]),
        ("ipsrl", IPSRLTrainer, {"objective": alike.made(TEXT)}),
    ):
        made = test_trl.trainer(kind, *common, **which, **shape)
        after = test_trl.trained(made)
        assert made.accelerator.num_processes == 2
        if made.accelerator.is_main_process:
            torch.save(after, f"{folder}/{name}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
