"""Which tests catch which faults: `python scripts/plant_faults.py`.

Plants 26 faults, one at a time, in a copy of the tree, and runs the tests that should catch it: those named beside
the fault, or with --all every test of the default run and, if these miss it, the slow ones. Prints a table and exits
with 1 if a fault was not caught. About ten seconds for each fault; with --all as long as the tests take.

    --only=a,b   only these faults; --list prints their names
    --all        runs all tests until the first failure, not only those named
"""

import argparse
import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.plant_faults")

from ipsrl.command.ending import Ending

ROOT = Path(__file__).resolve().parent.parent
PLANTED_IN = ("ipsrl", "experiments")
COPIED = ("ipsrl", "experiments", "tests", "scripts", "docs", "pyproject.toml", "setup.py", "README.md")


@dataclasses.dataclass(frozen=True)
class Fault:
    """A text that occurs once in ipsrl/ and experiments/, its replacement, and the tests that should notice.

    Attributes:
      name: as in the table.
      text, planted: before and after.
      tests: a test file, with its folder where another one has its name, too.
      chosen: which of its tests, in the syntax of pytest's -k.
      slow: whether only a slow test is expected to notice.
    """

    name: str
    text: str
    planted: str
    tests: str
    chosen: str = ""
    slow: bool = False


FAULTS = (
    Fault("sign of the loss", "loss_sum=-total", "loss_sum=total", "test_enumeration.py", "mean_update and rloo"),
    Fault(
        "last token of an answer off by one",
        "is_last = jnp.arange(mask.shape[-1]) == mask.sum(axis=-1, keepdims=True) - 1",
        "is_last = jnp.arange(mask.shape[-1]) == mask.sum(axis=-1, keepdims=True)",
        "test_token_values.py",
        "balance",
    ),
    Fault(
        "horizon of the sampler off by one",
        "return (position < horizon).any() & ~idle(states",
        "return (position < horizon - 1).any() & ~idle(states",
        "test_sampler.py",
        "horizon",
    ),
    Fault(
        "no stop_gradient on weights",
        "weights = jax.lax.stop_gradient(Weights(values, tuple(coefficients)))",
        "weights = Weights(values, tuple(coefficients))",
        "test_catalog_properties.py",
        "constants and tsallis",
    ),
    Fault(
        "no stop_gradient on CISPO's weight",
        "weight = jax.lax.stop_gradient(jnp.clip(ratio, self.floor, self.cap))",
        "weight = jnp.clip(ratio, self.floor, self.cap)",
        "test_token_values.py",
        "cispo",
    ),
    Fault(
        "ratio of an answer over the wrong axis",
        "log_ratio = log_importance_ratio(scores, rollouts).sum(axis=-1, keepdims=True)",
        "log_ratio = log_importance_ratio(scores, rollouts).sum(axis=1, keepdims=True)",
        "test_token_values.py",
        "gspo",
    ),
    Fault(
        "statistics of a group over the prompts",
        "centred = values - compared.mean(axis=-1, keepdims=True)\n        std = compared.std(axis=-1",
        "centred = values - compared.mean(axis=0, keepdims=True)\n        std = compared.std(axis=-1",
        "test_enumeration.py",
        "mean_update and f_grpo",
    ),
    Fault(
        "population and sample deviation swapped",
        "std = compared.std(axis=-1, keepdims=True, ddof=1 if self.unbiased else 0)",
        "std = compared.std(axis=-1, keepdims=True, ddof=0 if self.unbiased else 1)",
        "test_enumeration.py",
        "mean_update and f_grpo",
    ),
    Fault(
        "log-probabilities through float16",
        'now["behaviour_log_probs"] = jnp.where(silent, 0.0, chosen)',
        'now["behaviour_log_probs"] = jnp.where(silent, 0.0, chosen.astype(jnp.float16))',
        "test_step.py",
        "disagreement",
    ),
    Fault(
        "resume from fresh parameters",
        "step, state, records = checkpoints.restore(self.stored, lost) or (0, self.stored, {})",
        "step, _, records = checkpoints.restore(self.stored, lost) or (0, self.stored, {})\n        state = self.state",
        "test_loop.py",
        "interrupted",
    ),
    Fault(
        "DAPO's default clip",
        "def dapo(\n    clip: Clip = (0.2, 0.28),",
        "def dapo(\n    clip: Clip = (0.2, 0.2),",
        "test_token_values.py",
        "dapo",
    ),
    Fault(
        "clip sides swapped",
        "jnp.clip(ratio, 1.0 - low, 1.0 + high) * advantages",
        "jnp.clip(ratio, 1.0 - high, 1.0 + low) * advantages",
        "test_token_values.py",
        "gspo or dapo",
    ),
    Fault(
        "clip on the wrong sides of the advantage",
        "values = jnp.minimum(plain, jnp.clip(ratio, 1.0 - low, 1.0 + high) * advantages)",
        "values = jnp.maximum(plain, jnp.clip(ratio, 1.0 - low, 1.0 + high) * advantages)",
        "test_token_values.py",
        "gspo or grpo",
    ),
    Fault(
        "length weights inverted",
        "values - masked_sum(values, mask) / tokens, 0.0)\n        std",
        "values - (values[..., 0] / mask.sum(axis=-1)).sum() / (1.0 / mask.sum(axis=-1)).sum(), 0.0)\n        std",
        "test_token_values.py",
        "lengths and reinforce",
    ),
    Fault(
        "mask dropped in the mean over tokens",
        "return masked_sum(values, mask), mask.sum(dtype=jnp.float32)",
        "return values.sum(), mask.sum(dtype=jnp.float32)",
        "test_token_values.py",
        "dapo or cispo",
    ),
    Fault(
        "the same noise at every token",
        "jax.random.fold_in(sampling.key, passes)",
        "jax.random.fold_in(sampling.key, 0)",
        "test_sampler.py",
        "frequent",
    ),
    Fault(
        "the same noise in every step",
        "jax.random.fold_in(jax.random.key(seed), step), number)",
        "jax.random.key(seed), number)",
        "test_randomness.py",
    ),
    Fault(
        "last micro-batch alone",
        "(jnp.add, jnp.maximum), so_far, found)",
        "(lambda total, new: new, jnp.maximum), so_far, found)",
        "test_step.py",
        "micro_batches",
    ),
    Fault(
        "KL in the other direction",
        "jnp.where(rollouts.token_mask, log_probs - rollouts.reference_log_probs, 0.0)",
        "jnp.where(rollouts.token_mask, rollouts.reference_log_probs - log_probs, 0.0)",
        "test_reference_divergence.py",
        "estimators",
    ),
    Fault(
        "ranks of negative numbers in the wrong order",
        "jnp.where(bits >= HIGHEST_BIT, ~bits, bits | HIGHEST_BIT)",
        "jnp.where(bits >= HIGHEST_BIT, bits, bits | HIGHEST_BIT)",
        "test_ranks.py",
    ),
    Fault(
        "the same directions of noise in every step",
        'paired_noise(request.key("noise"), state.parameters, size)',
        'paired_noise(stream(state.seed, 0, "noise"), state.parameters, size)',
        "evolution/test_strategies.py",
        "every_step",
    ),
    Fault(
        "one buffered group for all silent ones",
        "place = jnp.argsort(~taken, stable=True)[jnp.cumsum(~informative) - 1]",
        "place = jnp.argsort(~taken, stable=True)[jnp.zeros_like(informative, int)]",
        "test_sources.py",
        "replayed_groups",
    ),
    Fault(
        "an outcome that is only called wrong counts as found",
        "right = jnp.where(outcomes.right, outcomes.outcome_id, -1)",
        "right = outcomes.outcome_id",
        "test_sources.py",
        "replayed_answers",
    ),
    Fault(
        "stored answers scored without temperature",
        "sharded(self._answers(rows, None)), self.temperature)",
        "sharded(self._answers(rows, None)), 1.0)",
        "test_sources.py",
        "scored_once",
    ),
    Fault(
        "a queue that grows by what is left of a budget",
        "jnp.maximum(0.0, owed) if self.queues",
        "jnp.abs(owed) if self.queues",
        "test_exp4.py",
        "one_round",
    ),
    Fault(
        "a baseline that holds its own draw",
        "(costs - costs.mean(axis=-1, keepdims=True)) * (draws / (draws - 1))",
        "costs - costs.mean(axis=-1, keepdims=True)",
        "test_perturbed.py",
        "two_items",
    ),
)


def place_of(fault: Fault, tree: Path) -> Path:
    """The one file that holds the fault's text.

    Raises:
      ValueError: no file holds it, or it occurs more than once.
    """
    files = [path for package in PLANTED_IN for path in (tree / package).rglob("*.py")]
    found = [(path, path.read_text().count(fault.text)) for path in files]
    found = [(path, times) for path, times in found if times]
    if sum(times for _, times in found) != 1:
        where = ", ".join(f"{path.relative_to(tree)} ({times} times)" for path, times in found) or "nowhere"
        raise ValueError(
            f"the text of the fault {fault.name!r} must occur once in ipsrl/ and experiments/, but is found {where}"
        )
    return found[0][0]


def failures(tree: Path, arguments: list[str]) -> list[str]:
    """The test files that fail, or `collection` if tests cannot be collected; empty if all pass.

    Raises:
      ValueError: no test was chosen.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-rfE", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if done.returncode == 5:
        raise ValueError(f"no test was chosen by: pytest {' '.join(arguments)}")
    named = re.findall(r"^(?:FAILED|ERROR) \S*?(test_\w+\.py)", done.stdout, re.MULTILINE)
    return sorted(set(named)) or (["collection"] if done.returncode else [])


def caught_by(fault: Fault, tree: Path, all_tests: bool) -> tuple[str, str]:
    """The test files that caught a planted fault, and their run; two dashes if none did."""
    if all_tests:
        runs = {"default": ["-n", "auto", "--dist=loadfile"]}
        runs["slow"] = [*runs["default"], "-m", "slow"]
    else:
        [file] = (tree / "tests").rglob(fault.tests)
        chosen = [str(file.relative_to(tree)), *(["-k", fault.chosen] if fault.chosen else [])]
        runs = {"slow" if fault.slow else "default": [*chosen, "-m", "slow" if fault.slow else "not slow"]}
    for run, arguments in runs.items():
        if found := failures(tree, arguments):
            return ", ".join(found), run
    return "-", "-"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", default="", help="names of faults, separated by commas")
    made.add_argument("--list", action="store_true", help="print the names of the faults")
    made.add_argument("--all", action="store_true", help="run all tests, not only those named beside the fault")
    return made


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    only = {name.strip() for name in options.only.split(",") if name.strip()}
    if unknown := sorted(only - {fault.name for fault in FAULTS}):
        raise ValueError(f"--only names an unknown fault, {unknown[0]!r}: see --list")
    faults = [fault for fault in FAULTS if not only or fault.name in only]
    if options.list:
        print("\n".join(fault.name for fault in faults))
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, tree / name, ignore=ignored) if source.is_dir() else shutil.copy(source, tree)
        places = {fault: place_of(fault, tree) for fault in faults}
        print("| fault | caught by | run | s |\n|---|---|---|---|")
        for fault, path in places.items():
            sound, started = path.read_text(), time.monotonic()
            path.write_text(sound.replace(fault.text, fault.planted))
            files, run = caught_by(fault, tree, options.all)
            path.write_text(sound)
            missed += run == "-"
            print(f"| {fault.name} | {files} | {run} | {time.monotonic() - started:.0f} |", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults were caught")
    return 1 if missed else 0


if __name__ == "__main__":
    with Ending():
        sys.exit(main())
