"""Combinatorial decisions: exact oracles, and the policy that an oracle with normally perturbed scores is."""
