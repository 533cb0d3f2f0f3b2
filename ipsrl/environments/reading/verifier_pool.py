"""Processes that read the answers of language models, with a time limit for each answer.

Reading is the part of verification that handles unchecked text: it runs in other processes, and a process that takes
too long, or dies, is replaced. The calling process looks parsed answers up in tables. No text is evaluated as code.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from pebble import ProcessExpired

from ipsrl.checking.fields import Checked, non_negative, positive
from ipsrl.distributed.cpu_processes import cpu_processes

# Large enough that sending a chunk costs less than reading it.
LARGEST_CHUNK = 64
CHUNKS_FOR_EACH_WORKER = 4


class UnreadableAnswers(RuntimeWarning):
    """Some answers exceeded the limits of time, memory or recursion; they count as answers without an outcome."""


@dataclasses.dataclass(frozen=True)
class VerifierPool(Checked):
    """Settings for reading answers.

    The processes, see `cpu_processes`, are started by the first batch and serve every pool with the same number of
    workers. As they import the main module, a script must start its work under `if __name__ == "__main__":`.

    Attributes:
      workers: number of processes; 0 reads in this process, without a time limit.
      seconds: time limit for one answer.

    Raises:
      ValueError: a field is out of its range.
    """

    workers: int = non_negative(2, called="workers of the verifier pool")
    seconds: float = positive(5.0, called="seconds of the verifier pool")

    def read(self, reader: Callable[[str], Any], texts: Sequence[str]) -> list[Any]:
        """Result of `reader` for each text; equal texts are read once.

        An answer that exceeds the limit, or kills its process, is None; a warning (`UnreadableAnswers`) counts them.

        Args:
          reader: picklable, as is its result; None means that a text holds no answer.
          texts: any number.

        Raises:
          RuntimeError: no process can be started.
          Exception: errors raised by `reader` itself; it must not raise for any text.
        """
        distinct = list(dict.fromkeys(texts))
        read = self._read_elsewhere(reader, distinct) if self.workers else _read_each(reader, distinct)
        answer_of = dict(zip(distinct, read, strict=True))
        failed = sum(isinstance(answer_of[text], _Failure) for text in texts)
        if failed:
            why = next(answer.why for answer in read if isinstance(answer, _Failure))
            warnings.warn(
                f"{failed} of {len(texts)} texts could not be read and count as no answer; the first: {why}",
                UnreadableAnswers,
                stacklevel=2,
            )
        return [None if isinstance(answer_of[text], _Failure) else answer_of[text] for text in texts]

    def _read_elsewhere(self, reader: Callable[[str], Any], texts: list[str]) -> list[Any]:
        size = min(LARGEST_CHUNK, max(1, math.ceil(len(texts) / (CHUNKS_FOR_EACH_WORKER * self.workers))))
        chunks = [texts[start : start + size] for start in range(0, len(texts), size)]
        read = self._results(reader, chunks)
        # A chunk has the time of one answer. If that is too short, each of its answers gets that time.
        late = [i for i, answers in enumerate(read) if isinstance(answers, _Failure)]
        alone = iter(self._results(reader, [[text] for i in late for text in chunks[i]]))
        for i in late:
            answers = [next(alone) for _ in chunks[i]]
            read[i] = [answer if isinstance(answer, _Failure) else answer[0] for answer in answers]
        return [answer for answers in read for answer in answers]

    def _results(self, reader: Callable[[str], Any], chunks: list[list[str]]) -> list[Any]:
        """The results of each chunk, or the failure of its process."""
        pool = cpu_processes(self.workers)
        try:
            futures = [pool.schedule(_read_each, args=(reader, chunk), timeout=self.seconds) for chunk in chunks]
            return [self._result(future) for future in futures]
        except BrokenProcessPool:
            cpu_processes.cache_clear()
            raise RuntimeError(
                "the processes that read answers have died before they read any: start the work of a script under "
                'if __name__ == "__main__":, since these processes import it'
            ) from None

    def _result(self, future) -> Any:
        try:
            return future.result()
        except TimeoutError:
            return _Failure(f"it took more than {self.seconds:g} seconds")
        except ProcessExpired as error:
            return _Failure(f"its process ended with exit code {error.exitcode}")


@dataclasses.dataclass(frozen=True)
class _Failure:
    why: str


def _read_each(reader: Callable[[str], Any], texts: Sequence[str]) -> list[Any]:
    return [_read(reader, text) for text in texts]


def _read(reader: Callable[[str], Any], text: str) -> Any:
    try:
        return reader(text)
    except (MemoryError, RecursionError) as error:
        return _Failure(type(error).__name__)
