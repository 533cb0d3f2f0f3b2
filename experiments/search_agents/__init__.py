"""Search agents in tables of logits: what studies of them share."""
