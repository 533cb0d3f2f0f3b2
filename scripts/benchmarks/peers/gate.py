"""Lets a trainer that can only run to its end do one step on request."""

import queue
import sys
import threading
from typing import Any

from benchmarks import contender


class Gate:
    """Blocks one place of a trainer's loop until the next step is requested.

    A step is everything that the trainer does from one pass of this place to the next, including fetching, logging and
    cleaning up. The trainer stays in the main thread; requests are read in another.
    """

    def __init__(self):
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def open(self, description: dict[str, Any]) -> None:
        """Describes this program, and starts to listen. Call it right before the trainer starts."""
        threading.Thread(target=self._listen, args=(description,), daemon=True).start()

    def _listen(self, description: dict[str, Any]) -> None:
        try:
            contender.serve(description, self._step)
        finally:
            self._requests.put(False)

    def _step(self) -> dict[str, Any]:
        self._requests.put(True)
        return self._reports.get()

    def wait(self, report: dict[str, Any] | None = None) -> None:
        """Ends the previous step, and waits for the next.

        Args:
          report: of the step that ends here; None the first time.

        Raises:
          SystemExit: there are no more requests.
        """
        if report is not None:
            self._reports.put(report)
        if not self._requests.get():
            sys.exit()
