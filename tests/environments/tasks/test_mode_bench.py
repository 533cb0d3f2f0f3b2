import pytest

from ipsrl.environments import catalog
from ipsrl.environments.tasks.factors import Factors
from ipsrl.environments.tasks.graph_coloring import GraphColoring
from ipsrl.environments.tasks.mode_bench import HELD_OUT, LEVELS, TRAINING, mode_bench


@pytest.mark.parametrize("domain", LEVELS)
@pytest.mark.parametrize("level", [1, 5])
def test_splits_are_disjoint(domain, level):
    training, held_out = mode_bench(domain, level), mode_bench(domain, level, split="held_out")
    assert (training.num_prompts, held_out.num_prompts) == (TRAINING, HELD_OUT) == (384, 128)
    texts = [{task.prompt_text(prompt) for prompt in range(task.num_prompts)} for task in (training, held_out)]
    assert [len(of_split) for of_split in texts] == [384, 128]
    assert not texts[0] & texts[1]
    assert training.vocabulary == held_out.vocabulary
    assert min(task.admissible.sum(axis=1).min() for task in (training, held_out)) >= 2


@pytest.mark.parametrize("domain", LEVELS)
def test_levels_have_more_and_more_solutions(domain):
    solutions = [mode_bench(domain, level).admissible.sum(axis=1).mean() for level in range(1, 6)]
    assert solutions == sorted(solutions)


def test_levels_are_made_by_name():
    assert catalog.make("mode_bench(domain=factors, level=2)") == Factors(largest=192, problems=384)
    named = catalog.make("mode_bench(split=held_out)")
    assert named == GraphColoring(6, 3, 0.4, problems=128, hidden=3, skip=384)
