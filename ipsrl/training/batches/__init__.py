"""WHERE the batches of a run come from: groups of trajectories, chosen, sampled, verified and filtered."""
