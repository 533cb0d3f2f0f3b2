import re
from pathlib import Path

import pytest

from ipsrl import objectives

README = (Path(__file__).parents[2] / "README.md").read_text()
PROMISED = re.findall(r"^    (\w+) += (.*->.*)$", README, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        *PROMISED,
        ("grpo(kl=0.04)", "group mean and std -> clip 0.2 -> sequence mean; KL 0.04"),
        ("ips_grpo(alpha=0.5, floor=0.2)", re.search(r"print\(objective\)  # (.+)", README)[1]),
        (
            "grpo(dual_clip=3, unbiased_std=True)",
            "group mean and std, unbiased -> clip 0.2, dual clip 3 -> sequence mean",
        ),
        (
            "ar_lopti",
            "group mean and std -> probability weight, alpha 0.3 -> clip 0.2/0.24 -> sequence mean; in two "
            "steps, low probability first",
        ),
        (
            "dr_grpo(correction=truncated(3.0))",
            "group mean -> clip 0.2 -> sequence sum, no length; corrected by truncated, cap 3",
        ),
        ("degrpo", "group mean -> control and response, clip (clip 0.2) -> sequence mean; KL 0.001"),
    ],
)
def test_sentences(text, sentence):
    assert str(objectives.make(text)) == sentence


def test_the_readme_promises_some():
    assert [name for name, _ in PROMISED] == ["grpo", "ips_grpo", "dapo", "progrpo"]


def test_different_objectives_have_different_sentences():
    more = ["grpo(kl=k3(0.04, target=6))", "grpo(kl=0.04)", "grpo(kl=k2(0.04))", "ips_grpo(probability=exact)"]
    made = {objectives.make(text) for text in (*objectives.names(), *more)}
    sentences = [str(objective) for objective in made]
    assert sorted(set(sentences)) == sorted(sentences)
    assert not [sentence for sentence in sentences if re.search(r"None|True|False|[A-Z]\w+\(|<", sentence)]
