"""Calls that are harmless and so must work, each with another one that has the same value."""

UPDATE = "expected_update(GRPO, jnp.array([0.0, 1.0]), REWARDS, 4)"
EQUAL = [
    ("expected_update(GRPO, [0.0, 1.0], [1.0, 0.5], 4)", UPDATE),
    ("expected_update(GRPO, (0, 1), np.array([1.0, 0.5]), np.int64(4))", UPDATE),
    ("expected_update(GRPO, jnp.array([0.0, 1.0], 'bfloat16'), REWARDS, 4)", UPDATE),
    ("expected_update(GRPO, jnp.array([0.0, 1.0], 'float16'), jnp.array([1, 0.5], 'float16'), 4)", UPDATE),
    ("expected_update(GRPO, np.array([0.0, 1.0]), REWARDS, 4, reference=[0, 0])", UPDATE),
    ("follow(FIELD, ((0.5, 0.5),), 1).log_probs[-1]", "follow(FIELD, np.full((1, 2), 0.5), 1.0).log_probs[-1]"),
    ("Field(GRPO, (-1.0, 0), 4)([[0, 0]])", "Field(GRPO, (0.0, 1.0), 4)(np.zeros((1, 2)))"),
    ("flows.flow_velocity((0, 1), REWARDS, 1)", "flows.flow_velocity(np.array([0.0, 1.0]), np.array([1.0, 0.5]), 1.0)"),
    ("survival.critical_alpha(np.float32(4), np.int32(16), 'group mean')", "np.log(4) / np.log(15)"),
    ("diversity.effective_outcomes([0, 1, 1, -1])", "diversity.effective_outcomes(jnp.array([0, 1, 1, -1]))"),
    ("expected_update(GRPO, [0, 1], [2e14, 1e14], 4)", UPDATE),
    ("distances.total_l1([0.5, 0.5], (1, 0))", "1.0"),
    ("jax.jit(distances.total_l1)(jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0]))", "1.0"),
    ("seeds.share_of_runs([1, 0, True, False]).mean", "0.5"),
    ("settings_of(learning_rate=np.float32(0.5)).learning_rate", "0.5"),
    ("Countdown().prompt_text(0, history=()) == Countdown().prompt_text(0)", "True"),
    ("pass_at_k.pass_at_k([1, 2], 4, np.int64(2))", "[0.5, 5 / 6]"),
    ("seeds.mean_over_seeds([1, 2, 3]).mean", "2.0"),
    ("answers.recovery((0, 0, 1), [1, 0, 1])", "0.5"),
    ("settings_of(steps=np.int64(3), learning_rate=1).steps", "3"),
    ("BOOLEAN.verify_texts((0,), (('x',),)).outcome_id", "[[-1]]"),
    ("begun(np.int64(3)).seed", "3"),
    ("begun(reward=rewards.RewardTable([[1.0, 0.5]])).seed", "0"),
    ("results.select(results.load(FOLDER / 'finished'), 'select reward from metrics')[1]", "[[0.5]]"),
]
