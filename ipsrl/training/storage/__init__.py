"""What training stores on disk: checkpoints, expensive parameters, trees of arrays."""
