"""Theory and sampled training of one softmax over outcomes: flows, groups of finite size, survival, time scales."""
