"""The arms and the flags of searches for molecules."""

import dataclasses
import math

from experiments.molecules.prior import GROUPS, Pretraining
from experiments.molecules.search import MoleculeSearch, SearchArm
from ipsrl import study
from ipsrl.checking.fields import accepted_by, at_least, between, one_of, positive
from ipsrl.distributed.start_up import cores
from ipsrl.environments.molecules import rewards
from ipsrl.environments.molecules.chemistry import IDENTITIES
from ipsrl.environments.molecules.data import MOSES, check_source

ARMS = {
    "prior": SearchArm(""),
    "reinvent": SearchArm(
        "reinvent", "scaffold", "best_answers(size=100, drawn=5), diversity_filter(bucket=10)"
    ),
    "reinvent_alone": SearchArm("reinvent"),
    "grpo": SearchArm("grpo"),
    "ips_canonical": SearchArm("ips_grpo"),
    "ips_scaffold": SearchArm("ips_grpo", "scaffold"),
    "ips_class": SearchArm("ips_grpo", "scaffold_class"),
    "ips_exact": SearchArm("ips_grpo(alpha=0.0625, probability=exact)"),
    "mara": SearchArm("mara(beta=0.0078125, threshold=0.8)"),
    "trajectory_balance": SearchArm(
        "trajectory_balance(log_reward_floor=-40, reward_exponent=16, learning_rate=1.0)"
    ),
    "darling": SearchArm("darling", "scaffold"),
}


@dataclasses.dataclass(frozen=True)
class Settings(study.Settings):
    """`arms` are those above, or objectives, whose outcomes are `identity`: canonical, scaffold, scaffold_class.

    `reward` is one of `ipsrl.environments.molecules.rewards`, such as "all_amide"; `data` a set of molecules.

    `evaluations` is the budget, `records` the number of its parts that are recorded, `samples` the strings by which the
    last policy is measured. A step samples two groups of `group_size` strings. `rate_scale` multiplies the learning
    rates of all arms. The prior, of `hidden_size` and so on, reads `prior_molecules` at the rate `prior_rate`.
    """

    arms: tuple[str, ...] = study.selecting(study.objectives(tuple(ARMS), also=tuple(ARMS)))
    seeds: tuple[int, ...] = study.seeds((0, 1, 2, 3, 4))
    identity: str = one_of(*IDENTITIES, default="canonical")
    reward: str = accepted_by(rewards.make, "synth")
    evaluations: int = positive(2000)
    records: int = positive(20)
    samples: int = positive(1000)
    group_size: int = between(2, 2**16, 32)
    rate_scale: float = positive(1.0)
    data: str = accepted_by(check_source, MOSES)
    prior_molecules: int = positive(40_000)
    prior_rate: float = positive(5e-3)
    prior_batch: int = at_least(GROUPS, 32)
    max_tokens: int = positive(60)
    hidden_size: int = positive(128)
    num_layers: int = positive(4)
    state_size: int = positive(8)

    def __post_init__(self):
        super().__post_init__()
        if self.records > self.evaluations:
            raise ValueError(
                f"--records is {self.records}, which must be at most --evaluations, {self.evaluations}"
            )

    @property
    def host_devices(self) -> int:
        return math.gcd(cores(), GROUPS)

    def search(self) -> MoleculeSearch:
        prior = Pretraining(
            self.data,
            self.prior_molecules,
            self.prior_batch,
            self.prior_rate,
            self.max_tokens,
            self.hidden_size,
            self.num_layers,
            self.state_size,
        )
        return MoleculeSearch(
            prior,
            rewards.make(self.reward),
            self.group_size,
            self.evaluations,
            self.records,
            self.samples,
            self.rate_scale,
        )
