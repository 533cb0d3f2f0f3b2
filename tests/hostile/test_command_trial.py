"""Bad input on the command line ends in one sentence that names it, in seconds, whatever the flag."""

import pytest
from tiers import slow_after

from ipsrl.study import catalog
from tests.hostile.command_trial import Trial, Trials, faults, of_flags


@pytest.fixture(scope="module")
def trials():
    run = Trials()
    # The first waits for the imports of the server.
    run.run(Trial(("experiments", "--list"), ""))
    return run


@pytest.mark.parametrize("name", slow_after(1, catalog.names()))
def test_no_text_of_another_type_gets_through(name, trials):
    found = {str(trial): faults(trial, trials.run(trial)) for trial in of_flags(name)}
    assert not {command: wrong for command, wrong in found.items() if wrong}


BY_HAND = [
    Trial(("experiments.hypospace", "--zzz=3"), "Unknown command line flag 'zzz'"),
    Trial(("experiments.hypospace", "--seed=3"), "Did you mean: seeds"),
    Trial(("experiments.hypospace", "smoke"), "unexpected argument 'smoke'"),
    Trial(("experiments.hypospace", "--host_devices=x"), "host_devices"),
    Trial(("experiments.hypospace", "--preset=smoke", "--host_devices=100000"), "host_devices must lie between 1 and"),
    Trial(
        ("experiments.hypospace", "--multihost", "--coordinator=nonsense", "--num_processes=2", "--process_id=0"),
        "the coordinator is 'nonsense', it must be address:port",
    ),
    Trial(("experiments.hypospace", "--preset=smoke", "--group_size=1000000000"), "the answers of a step take"),
    Trial(("experiments.hypospace", "--preset=smoke", "--hidden_size=1048576"), "parameters, gradients and"),
    Trial(("experiments.two_outcomes", "--preset=smoke", "--group_size=1000000000"), "the answers of a step take"),
    Trial(("experiments.path_multiplicity", "--depth=1000000"), "--depth is 1000000, it must lie between 1 and 60"),
    Trial(("experiments.survival_map", "--alphas=1000000000"), "--alphas is 1000000000, it must lie between 2 and"),
]


@pytest.mark.parametrize("trial", BY_HAND, ids=str)
def test_a_command_is_refused(trial, trials):
    assert not faults(trial, trials.run(trial))
