"""Words from shared parameters: what studies of one update for many prompts share."""
