"""Has a trainer that only knows how to run to its end do one step when it is told to."""

import queue
import sys
import threading
from typing import Any

from benchmarks import contender


class Gate:
    """Stands at one place of a trainer's loop, and keeps it there until somebody asks for a step.

    A step is all that the trainer does from one time there to the next: whatever it fetches, logs and tidies up counts.
    The trainer stays in the main thread; requests are read in another.
    """

    def __init__(self):
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def open(self, description: dict[str, Any]) -> None:
        """Says what this program is, and begins to listen. Call it right before the trainer starts."""
        threading.Thread(target=self._listen, args=(description,), daemon=True).start()

    def _listen(self, description: dict[str, Any]) -> None:
        try:
            contender.serve(description, self._step)
        finally:
            self._asked.put(False)

    def _step(self) -> dict[str, Any]:
        self._asked.put(True)
        return self._told.get()

    def wait(self, told: dict[str, Any] | None = None) -> None:
        """Ends the step before, and waits for the next.

        Args:
          told: of the step that ends here; None at the first time, before any.

        Raises:
          SystemExit: nobody will ask any more.
        """
        if told is not None:
            self._told.put(told)
        if not self._asked.get():
            sys.exit()
