"""Molecules as SMILES strings: data, tokens, chemistry, rewards and the environment."""
