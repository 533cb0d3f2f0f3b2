"""Malformed calls about policies and training."""

REFUSED = [
    # policies
    ("MLP(len, 4, 2, hidden=(0,))", "hidden"),
    ("Transformer(8, hidden_size=33)", "hidden_size 33"),
    # training
    ("settings_of(learning_rate=np.array(1e-3))", "learning_rate is array\\(0.001\\), it must be hashable"),
    ("TrainSettings(1, 1)", "group_size"),
    ("trainer(environment=MathAnswers())", "environment is .*it must be an Environment"),
    ("trainer().init(0)", "no mesh is set"),
    ("begun(-1)", "seed is -1"),
    ("begun(2**70)", "seed is 1180591620717411303424"),
    ("begun(initial_parameters=3)", "initial_parameters|parameters"),
    ("begun(initial_parameters={'nope': jnp.zeros(2)})", "parameters"),
    ("begun(initial_parameters={'logits': jnp.zeros((3, 3))})", "parameters"),
    ("trainer(policy=Tabular(3, 7)).check()", "policy"),
    ("loop.train_vmapped(BANDIT, Tabular(1, 2), GRPO, [], [], [])", "nothing to run"),
    ("train_ensemble(trainer(), jnp.arange(2), jnp.sum, record_every=3)", "steps is 1"),
    ("train_ensemble(trainer(), [0, 1], jnp.sum, record_every=0)", "record_every is 0"),
    # decoding
    ("Decoding.read('temprature=0.7')", "no argument 'temprature'"),
    ("Decoding.read('penalty=tip(())')", "tokens is empty"),
    ("Decoding.read('penalty=tip((12), 3)')", r"write \(12,\)$"),
    ("Sampled(BANDIT, Tabular(1, 2), 1, 4, Decoding(penalty=TokenPenalty((7,))))", "penalty is on token 7, but tokens"),
    ("Shuffled(3).check(Sampled(BANDIT, Tabular(1, 2), 1, 4))", "needs a critic that is not shuffled"),
]
