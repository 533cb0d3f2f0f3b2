"""The mode bandit and the paths of its policies: what studies of modes of thinking share."""
