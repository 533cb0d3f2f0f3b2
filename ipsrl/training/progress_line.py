"""One line on the terminal that says how far a run is."""

from typing import Any, Self

from tqdm import tqdm

from ipsrl.distributed import hosts


class ProgressLine:
    """Steps done, rates, time left and chosen metrics, on stderr; silent where stderr is not a terminal, and on
    all hosts but the first.

    Args:
      total: steps of the whole run.
      done: steps done before this process started, for a resumed run; they do not count in the rates.
      trajectories_per_step: how many trajectories are sampled in each step.
      label: what is running.
    """

    def __init__(self, total: int, done: int = 0, trajectories_per_step: int = 0, label: str = ""):
        self._trajectories_per_step = trajectories_per_step
        # disable=None is tqdm's "not on a terminal".
        self._bar = tqdm(
            total=total,
            initial=done,
            disable=None if hosts.is_first() else True,
            dynamic_ncols=True,
            unit="step",
            desc=label,
            bar_format="{desc}{percentage:3.0f}% {n_fmt}/{total_fmt} "
            "[{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]",
        )

    def advance(self, **metrics: Any) -> None:
        """Counts one step and shows `name=value` for each metric; values are only looked at where they are shown."""
        if self._bar.disable:
            return
        rate = self._bar.format_dict["rate"]
        shown = [f"{rate * self._trajectories_per_step:,.0f} trajectories/s"] if rate else []
        shown += [f"{name.replace('_', ' ')} {float(value):.3g}" for name, value in metrics.items()]
        self._bar.set_postfix_str(", ".join(shown), refresh=False)
        self._bar.update()

    def close(self) -> None:
        self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
