"""Environments whose outcomes can be enumerated, one token an action: bandit, tree, hypergrid, forks."""
