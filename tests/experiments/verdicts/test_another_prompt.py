import pytest

from experiments.verdicts.another_prompt import beside_another
from ipsrl import objectives
from tests.tiers import slow_after


@pytest.mark.parametrize(
    ("text", "beside"), slow_after(1, [("reinforce", "1.00 : 0 : 0"), ("ips_grpo", "0.50 : 0.50 : 0")])
)
def test_another_prompt_decides_only_what_nothing_restores(text, beside):
    assert beside_another(objectives.make(text), group_size=3).text == beside
