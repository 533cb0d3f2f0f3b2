"""Small problems on which studies of claims train, each with its policy, its exact measures and its runs."""
