"""Values of tokens in losses, in NumPy's float64: `tokens` and `lengths` of a `Row` are put together from these.

`tokens(log_ratio, advantages, mask)`, all `[P, G, T]`, gives the values of tokens whose sum is minus the loss, the
division by answers or tokens included. Their derivative by the log-probabilities is the gradient; where it is not,
because a weight is a constant, a pair is given: values (None where they depend on more) and slopes.

The answers are sampled by a policy that gives every token the probability `BEHAVIOUR`, the reference gives it
`REFERENCE` and the environment's backward policy `BACKWARD`; the rewards of a group are 0, 1, 2, ... and its first
answer comes from elsewhere. The mean log-probability of all tokens rises by `MEANS_MOVED` times a token's place.
"""

import itertools

import numpy as np

BEHAVIOUR, REFERENCE, BACKWARD = 0.4, 0.3, 0.5
MEANS_MOVED = 0.1


# Aggregations: what becomes of the values of tokens.


def token_mean(values):
    return _weighted(values, lambda mask: 1.0 / mask.sum())


def sequence_mean(values):
    """The mean over answers of the mean over the tokens of each."""
    return _weighted(values, lambda mask: 1.0 / (mask.sum(axis=-1, keepdims=True) * mask[..., 0].size))


def sequence_sum(values):
    """The mean over answers of the sum over the tokens of each."""
    return _weighted(values, lambda mask: 1.0 / mask[..., 0].size)


def constant_length(values):
    """The mean over answers of the sum over tokens divided by the longest possible answer."""
    return _weighted(values, lambda mask: 1.0 / mask.size)


def _weighted(values, weight):
    def tokens(log_ratio, advantages, mask):
        def placed(array):
            return None if array is None else np.where(mask, array, 0.0) * weight(mask)

        found = values(log_ratio, advantages, mask)
        return tuple(map(placed, found)) if isinstance(found, tuple) else placed(found)

    return tokens


# Surrogates.


def clipped(low, high, dual_clip=np.inf):
    def values(log_ratio, advantages, mask):
        ratio = np.exp(log_ratio)
        up, down = np.minimum(ratio, 1 + high), np.clip(ratio, 1 - low, dual_clip)
        return advantages * np.where(advantages > 0, up, down)

    return values


PPO = sequence_mean(clipped(0.2, 0.2))


def clipped_sequence(low, high, mean, per_token=False):
    """One ratio for each answer: the geometric mean of those of its tokens, or their product."""

    def values(log_ratio, advantages, mask):
        total = np.where(mask, log_ratio, 0.0).sum(axis=-1, keepdims=True)
        whole = np.broadcast_to(total / mask.sum(axis=-1, keepdims=True) if mean else total, mask.shape)
        value = clipped(low, high)(whole, advantages, mask)
        inside = np.where(advantages > 0, np.exp(whole) < 1 + high, np.exp(whole) > 1 - low)
        return (value, np.where(inside, np.exp(whole) * advantages, 0.0)) if per_token else value

    return values


def geometric_mean(low, high):
    """GMPO: the tokens' log-ratios are clipped one by one, and then averaged."""

    def values(log_ratio, advantages, mask):
        limited = np.where(advantages > 0, np.minimum(log_ratio, high), np.maximum(log_ratio, -low))
        mean = np.where(mask, limited, 0.0).sum(axis=-1, keepdims=True) / mask.sum(axis=-1, keepdims=True)
        return advantages * np.exp(mean)

    return values


def mirror_descent(tau, whole=True):
    """The square of the answer's log-ratio, in equal parts at its tokens, or those of its tokens."""

    def values(log_ratio, advantages, mask):
        square = log_ratio**2
        if whole:
            total = np.where(mask, log_ratio, 0.0).sum(axis=-1, keepdims=True)
            square = total**2 / mask.sum(axis=-1, keepdims=True)
        return policy_gradient(log_ratio, advantages, mask) - tau / 2 * square

    return values


def policy_gradient(log_ratio, advantages, mask):
    return advantages * (log_ratio + np.log(BEHAVIOUR))


def bounded(limit):
    return lambda log_ratio, advantages, mask: advantages * np.minimum(np.exp(log_ratio), limit)


def soft_gate(positive, negative):
    def values(log_ratio, advantages, mask):
        tau = np.where(advantages > 0, positive, negative)
        return advantages * 4 / tau / (1 + np.exp(-tau * (np.exp(log_ratio) - 1)))

    return values


def gradient_preserving(low, high, beta_low=1.0, beta_high=1.0, dual_clip=np.inf):
    def values(log_ratio, advantages, mask):
        ratio = np.exp(log_ratio)
        weight = np.where((advantages < 0) & (ratio < 1 - low), beta_low * (1 - low), ratio)
        weight = np.where((advantages > 0) & (ratio > 1 + high), beta_high * (1 + high), weight)
        stopped = (advantages < 0) & (ratio > dual_clip)
        weight = np.where(stopped, dual_clip, weight)
        return weight * advantages, np.where(stopped, 0.0, weight * advantages)

    return values


def gamma_weight(positive, negative):
    """VESPO: a weight of the product of an answer's ratios, by the sign of the advantage."""

    def values(log_ratio, advantages, mask):
        ratio = np.exp(np.where(mask, log_ratio, 0.0).sum(axis=-1, keepdims=True))
        of_good, of_bad = (np.exp(decay) * ratio**k * np.exp(-decay * ratio) for k, decay in (positive, negative))
        return None, np.where(advantages >= 0, of_good, of_bad) * advantages

    return values


def probability_clip(low, high, limit):
    """DCPO's clip, whose limits depend on the behaviour policy's probability."""
    lowest = (1 + np.sqrt(max(1 - 4 * low / BEHAVIOUR, 0))) / 2
    highest = min((1 + np.sqrt(1 + 4 * high / BEHAVIOUR)) / 2, limit)
    return clipped(1 - lowest, highest - 1, dual_clip=limit)


def truncated(cap, floor=0.0):
    return lambda log_ratio, advantages, mask: (None, np.clip(np.exp(log_ratio), floor, cap) * advantages)


def flipped(low, high, cap):
    """ASPO: the inverse ratio where the advantage is positive; what PPO clips has no gradient."""

    def values(log_ratio, advantages, mask):
        ratio, good = np.exp(log_ratio), advantages > 0
        kept = np.where(good, np.minimum(ratio, 1 + high), np.maximum(ratio, 1 - low))
        value = advantages * np.minimum(np.where(good, 1 / kept, kept), cap)
        return value, np.where(kept == ratio, value, 0.0)

    return values


def tapered(log_ratio, advantages, mask):
    """TOPR: good tokens have no ratio, that of bad ones is at most 1."""
    return None, np.where(advantages > 0, 1.0, np.exp(np.minimum(log_ratio, 0.0))) * advantages


def tapered_answer(log_ratio, advantages, mask):
    total = np.where(mask, log_ratio, 0.0).sum(axis=-1, keepdims=True)
    return tapered(np.broadcast_to(total, mask.shape), advantages, mask)


def total_variation(policy):
    return np.abs(BEHAVIOUR - policy)


def binary_kl(policy):
    """The KL divergence of two outcomes: a token, and all others together."""
    return BEHAVIOUR * np.log(BEHAVIOUR / policy) + (1 - BEHAVIOUR) * np.log(
        (1 - BEHAVIOUR + 1e-8) / (1 - policy + 1e-8)
    )


def divergence_mask(threshold, divergence=total_variation, cap=np.inf):
    def values(log_ratio, advantages, mask):
        ratio = np.exp(log_ratio)
        far = divergence(np.minimum(BEHAVIOUR * ratio, 1.0)) > threshold
        weight = np.where(far & (advantages * (ratio - 1) > 0), 0.0, np.minimum(ratio, cap))
        return weight * advantages, weight * advantages

    return values


def balanced(target, low, low_end, low_step, high, high_end, high_step, dual_clip=np.inf):
    """BAPO's limits, one step after the other until the positive tokens have their share."""

    def values(log_ratio, advantages, mask):
        ratio, lower, upper = np.exp(log_ratio), low, high
        while True:
            sizes = np.where(mask, np.abs(clipped(1 - lower, upper - 1)(log_ratio, advantages, mask)), 0.0)
            if sizes[advantages > 0].sum() >= target * sizes.sum() or lower + low_step > low_end + 1e-9:
                break
            if upper + high_step <= high_end + 1e-9:
                upper += high_step
            else:
                lower += low_step
        inside = np.where(advantages > 0, ratio < upper, (ratio > lower) & (ratio < dual_clip))
        value = clipped(1 - lower, upper - 1, dual_clip)(log_ratio, advantages, mask)
        return value, np.where(inside, ratio * advantages, 0.0)

    return values


def shaped_elsewhere(gamma):
    """Critique-GRPO: tokens of the first answer of a group, which comes from elsewhere, have no ratio."""

    def values(log_ratio, advantages, mask):
        ratio = np.exp(log_ratio)
        shaped = BEHAVIOUR * ratio / (BEHAVIOUR * ratio + gamma)
        return advantages * np.where(np.arange(mask.shape[1])[:, None] == 0, shaped, ratio)

    return values


def likelihood_elsewhere(low, high):
    """Re:Max: the first answer of a group, which comes from elsewhere, is imitated."""

    def values(log_ratio, advantages, mask):
        first = np.arange(mask.shape[1])[:, None] == 0
        return np.where(
            first, policy_gradient(log_ratio, advantages, mask), clipped(low, high)(log_ratio, advantages, mask)
        )

    return values


def control_and_response(alpha, values):
    """DeGRPO: alpha times the first token, and the mean over the others, added up."""

    def tokens(log_ratio, advantages, mask):
        length = mask.sum(axis=-1, keepdims=True)
        first = np.arange(mask.shape[-1]) == 0
        weight = np.where(first, alpha, 1 / np.maximum(length - 1, 1)) / mask[..., 0].size
        return np.where(mask, values(log_ratio, advantages, mask) * weight, 0.0)

    return tokens


def squares(residual):
    """Minus the square of a residual of each answer, `residual(sum of log-probabilities, reward, number of tokens)`."""

    def values(log_ratio, advantages, mask):
        log_prob = np.where(mask, log_ratio + np.log(BEHAVIOUR), 0.0).sum(axis=-1)
        return np.broadcast_to(-(residual(log_prob, advantages[..., 0], mask.sum(axis=-1)) ** 2)[..., None], mask.shape)

    return values


def answer_residual(log_prob, log_reward, length):
    return log_prob - log_reward - length * np.log(BACKWARD)


def group_residual(log_prob, log_reward, length):
    found = answer_residual(log_prob, log_reward, length)
    return found - found.mean(axis=-1, keepdims=True)


def augmented_residual(sigma):
    """REINVENT's; the prior gives every token the probability `REFERENCE`."""
    return lambda log_prob, reward, length: length * np.log(REFERENCE) + sigma * reward - log_prob


def implicit_residual(beta, of=BEHAVIOUR):
    """GVPO's, so that minus its square is minus half the unbiased variance; each token had the probability `of`."""

    def residual(log_prob, reward, length):
        found = beta * (log_prob - length * np.log(of)) - reward
        group = found.shape[-1]
        return np.sqrt(group / (2 * (group - 1))) * (found - found.mean(axis=-1, keepdims=True))

    return residual


def regression_residual(beta):
    """A*-PO's."""
    return lambda log_prob, advantage, length: beta * (log_prob - length * np.log(REFERENCE)) - advantage


def bellman_errors(beta):
    """ROVER's, squared: the next token's place is one more, and after the last one nothing follows."""

    def values(log_ratio, advantages, mask):
        following = np.arange(1, mask.shape[-1] + 1)
        mean_after = np.where(following < mask.sum(axis=-1, keepdims=True), MEANS_MOVED * following, 0.0)
        return -((beta * log_ratio - advantages - beta * mean_after) ** 2)

    return values


def of_steps(log_ratio, advantages, mask):
    """Residuals of detailed balance, with flows that are all 1: the last step goes to the reward."""
    last = np.arange(mask.shape[-1]) == mask.sum(axis=-1, keepdims=True) - 1
    return np.where(mask, log_ratio + np.log(BEHAVIOUR) - np.log(BACKWARD) - last * advantages, 0.0)


def minus_squared_steps(log_ratio, advantages, mask):
    return -(of_steps(log_ratio, advantages, mask) ** 2)


def sub_trajectories(decay):
    """The values by definition: a mean over every part of every answer."""

    def values(log_ratio, advantages, mask):
        residuals, found = of_steps(log_ratio, advantages, mask), np.zeros(mask.shape)
        for answer in np.ndindex(mask.shape[:2]):
            parts = list(itertools.combinations(range(mask[answer].sum() + 1), 2))
            weights = [decay ** (end - start) for start, end in parts]
            sums = [residuals[answer][start:end].sum() ** 2 for start, end in parts]
            found[answer] = -np.dot(weights, sums) / np.sum(weights)
        return found

    return values


def tilt(beta, low, high):
    """FlowRL with log Z = 0; the weight, a constant, is the clipped ratio of the whole answer."""

    def values(log_ratio, advantages, mask):
        length = mask.sum(axis=-1)
        total = np.where(mask, log_ratio, 0.0).sum(axis=-1)
        residual = total / length + np.log(BEHAVIOUR / REFERENCE) - beta * advantages[..., 0]
        weight = np.clip(np.exp(total), 1 - low, 1 + high)
        value, slope = -weight * residual**2, -2 * weight * residual
        # Each token holds 1 / length of its answer's mean, and moves the residual by as much.
        return np.broadcast_to(value[..., None], mask.shape), np.broadcast_to(slope[..., None], mask.shape)

    return values


def pairs(beta, link=lambda u: u, imitation=0.0, of_mean=True):
    """The later answers of a group beat all before them; `link` of the logarithm of an answer's ratio.

    Imitated is the winner's mean log-probability, or their sum.
    """

    def values(log_ratio, advantages, mask):
        total = np.where(mask, log_ratio, 0.0).sum(axis=-1)
        length = mask.sum(axis=-1)
        implicit = beta * link(total + length * np.log(BEHAVIOUR / REFERENCE))
        found = np.zeros(total.shape)
        for winner in range(total.shape[1]):
            for loser in range(winner):
                found[:, winner] -= np.log1p(np.exp(implicit[:, loser] - implicit[:, winner]))
                log_prob = total + length * np.log(BEHAVIOUR)
                found[:, winner] += imitation * (log_prob / length if of_mean else log_prob)[:, winner]
        return advantages * found[..., None]

    return values


def squared_pairs(beta):
    """The later answers of a group beat all before them, by means over tokens."""

    def values(log_ratio, advantages, mask):
        mean = np.where(mask, log_ratio, 0.0).sum(axis=-1) / mask.sum(axis=-1)
        found = np.zeros(mean.shape)
        for winner in range(mean.shape[1]):
            for loser in range(winner):
                found[:, winner] -= (mean[:, winner] - mean[:, loser] - 1 / (2 * beta)) ** 2
        return advantages * found[..., None]

    return values


# Advantages that look at lengths: (rewards `[P, G]`, mask `[P, G, T]`) -> advantages `[P, G]` or `[P, G, T]`.


def standardised_rewards(rewards):
    return (rewards - rewards.mean(axis=-1, keepdims=True)) / rewards.std(axis=-1, keepdims=True)


def overlong(rewards, mask):
    """DAPO: the last fifth of the longest possible answer costs up to one."""
    longest = mask.shape[-1]
    return standardised_rewards(rewards - np.clip((mask.sum(axis=-1) - 0.8 * longest) / (0.2 * longest), 0, 1))


def whitened(values):
    """REINFORCE++: mean and standard deviation over all tokens, so that long answers count for more."""

    def of(rewards, mask):
        length, found = mask.sum(axis=-1), values(rewards)
        centre = found - (length * found).sum() / length.sum()
        return centre / np.sqrt((length * centre**2).sum() / length.sum())

    return of
