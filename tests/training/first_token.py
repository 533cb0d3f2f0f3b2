"""A text task that fresh policies are sometimes right about, for tests that need rewards without a warm start."""

import dataclasses

import numpy as np

from ipsrl.environments.tasks.hypospace_causal import HypospaceCausal
from ipsrl.policies.transformer import Transformer
from ipsrl.structures import Outcomes, Trajectories


@dataclasses.dataclass(frozen=True)
class FirstToken(HypospaceCausal):
    """Prompts and answers of the causal task; only an answer's first token counts, and half of all tokens are right."""

    nodes: int = 2

    def verify(self, trajectories: Trajectories) -> Outcomes:
        first = np.asarray(trajectories.tokens)[:, :, 0]
        said = super().verify(trajectories)
        return dataclasses.replace(
            said, rewards=(first % 2).astype(np.float32), outcome_id=(first % 3).astype(np.int32)
        )


FIRST_TOKEN = FirstToken()
TRANSFORMER = Transformer(
    FIRST_TOKEN.vocabulary_size, hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1, intermediate_size=16
)
