"""Malformed calls about measures."""

REFUSED = [
    ("diversity.effective_outcomes(jnp.array([0.5, 1.2]))", "outcome_id .*integers"),
    ("diversity.effective_outcomes(3)", "outcome_id"),
    ("distances.total_l1([0.5, 0.5], [1.0, 0.0, 0.0])", "same number of outcomes"),
    ("distances.total_l1(0.5, 0.5)", "outcomes"),
    ("distances.total_variation([0.5, 0.7], [0.5, 0.5])", "is no distribution"),
    ("distances.forward_kl([0.5, 0.5], [1.5, -0.5])", "is no distribution"),
    ("pass_at_k.pass_at_k(3, 2, 1)", "correct"),
    ("pass_at_k.pass_at_k(1, 4, 8)", "pass@8"),
    ("seeds.mean_over_seeds([])", "seed"),
    ("seeds.mean_over_seeds([1.0, 2.0], level=1.5)", "level is 1.5"),
    ("seeds.mean_over_seeds([1e308, -1e308])", "values is .*of a size up to 1e\\+300"),
    ("seeds.share_of_runs([])", "run"),
    ("seeds.share_of_runs([0.5, 2])", "happened is .*True or False"),
    ("seeds.share_of_runs([True], level=2.0)", "level is 2.0"),
    ("answers.recovery([0, 1], [False, False])", "admissible"),
    ("answers.recovery([], [True])", "answers"),
    ("answers.recovery([0.5], [True])", "outcome_id"),
    ("answers.independent_ceiling(0, 1)", "admissible"),
    ("answers.measure_answers([0], [True], [True], 'independent')", "outcome_id"),
    ("rewarded.measures(jnp.ones((1, 2)) / 2, [[1.0, 2.0, 3.0]])", "rewards"),
]
