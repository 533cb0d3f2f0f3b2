"""The training step, the training loop, and the files they write."""
