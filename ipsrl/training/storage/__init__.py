"""Files of training: checkpoints, expensive parameters, trees of arrays."""
