"""Supervised training: imitation of given answers."""

from ipsrl.objectives.advantages.baselines import NoBaseline
from ipsrl.objectives.aggregation import AggregationName, aggregated_by
from ipsrl.objectives.objective import Objective
from ipsrl.objectives.surrogates.likelihood import Likelihood


def supervised(prompts: bool = False, aggregation: AggregationName = "token_mean") -> Objective:
    """Supervised training on given answers (ours): loss -r log pi, the mean over tokens; with r = 1 maximum likelihood.

    Made for `StoredGroups`: demonstrations have the reward 1, and rewards of 0 leave answers out, as in rejection
    sampling. `prompts` adds the tokens of the prompts to the mean over tokens, with weight 1, as a language model is
    pretrained on questions and answers alike. On answers of the policy's own it is `reinforce`, but for the mean.

    Degenerate: answers without reward have no gradient, but their tokens count in the mean.
    Evidence: derived (closed form of the expected update).
    Peers: TRL, Tunix.
    """
    if prompts and aggregation != "token_mean":
        raise ValueError(f"aggregation={aggregation} is no mean over tokens: prompts=True needs token_mean")
    return Objective(advantages=NoBaseline(), surrogate=Likelihood(prompts), aggregation=aggregated_by(aggregation))
