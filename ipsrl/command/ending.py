"""The end of every command: its results, or one sentence on stderr.

status 0     done, also if nobody reads its output to the end, as in `| head -1`
status 1     refused or failed: bad input, diverged training, too little memory, a disk that refuses
status 75    another host is lost: starting again on all hosts helps
status 130   interrupted by Ctrl-C
"""

import atexit
import errno
import io
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from logging import LogRecord
from types import FrameType
from typing import NoReturn, Self, TextIO

import jax
from absl import logging
from jax.errors import JaxRuntimeError

from ipsrl.distributed import hosts
from ipsrl.printable import printable

INTERRUPTED = 130
# The reader of a pipe, and the terminal.
HAS_GONE = (errno.EPIPE, errno.EIO)
# What a disk says that cannot be written. Libraries in C++ and Rust raise exceptions of their own, with these words.
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES)
# The words of XLA, before and while a program runs.
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")
# Further Ctrl-C within this time would only disturb the ending that the first has begun.
ONE_INTERRUPT_SECONDS = 5.0
# An interruption that was lost is repeated after this time.
AGAIN_SECONDS = 0.1
# Colours, as those of Python's tracebacks.
COLOUR = re.compile(r"(\x1b\[[\d;]*m)")
# How a progress line draws itself anew: from the beginning of its line, and of the lines above.
MOVES = re.compile(r"(?:[\r\n]|\x1b\[A)*")
# Native libraries abort the process after their last words, which are held back until they have been silent so long.
HELD_BACK_SECONDS = 5.0
# The interpreter waits for all threads at its end, those of a refused write never end.
LEFT_THREADS_SECONDS = 10.0


class RefusedWriteError(OSError):
    """A disk refuses what is written in the background; threads of the library that writes may never end."""


class Ending:
    """A context manager around the body of a command.

    A `ValueError` (bad input), a `FloatingPointError` (diverged training), an `OSError` (a disk that refuses, also in a
    library's own words), too little memory and a platform that JAX does not find end the command with one sentence and
    status 1, Ctrl-C with status 130. Other exceptions are faults of the program and pass. `--verbosity=1`, where a
    command has it, shows all tracebacks and what Orbax logs.

    Args:
      continues: a clause that says how to continue after an interruption; empty if there is nothing to continue.
      interrupts: the signals that interrupt like Ctrl-C.
    """

    def __init__(self, continues: str = "", interrupts: Sequence[signal.Signals] = (signal.SIGINT,)):
        self._continues = continues
        # Handlers of signals belong to the main thread.
        self._interrupts = interrupts if threading.current_thread() is threading.main_thread() else ()
        self._interrupted_at = -ONE_INTERRUPT_SECONDS
        self._supervisor: int | None = None

    def __enter__(self) -> Self:
        _open_standard_streams()
        # Orbax logs errors that it also raises, with a traceback for each of its threads.
        logging.get_absl_logger().addFilter(_is_for_users)
        # transformers, where it is imported, says that models need PyTorch; ours do not.
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
        # Its progress lines, as those of other libraries, could not move: see `_Stream`.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        if sys.unraisablehook is sys.__unraisablehook__:
            sys.unraisablehook = self._report_unraisable
        self._before = {number: signal.signal(number, self._interrupt) for number in self._interrupts}
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            sys.stdout.flush()
        except OSError as refusal:
            error = error or refusal
        interrupted = isinstance(error, KeyboardInterrupt)
        for number, handler in self._before.items():
            if interrupted:
                # Nor are the last functions of the interpreter to be interrupted.
                atexit.register(signal.signal, number, signal.SIG_IGN)
            else:
                signal.signal(number, handler)
        sentence = None if error is None else self._sentence(error)
        # It may quote what others have written.
        sentence = sentence and printable(sentence)
        if error is not None and sentence is None:
            return
        if self._supervisor is not None:
            os.write(self._supervisor, bytes([INTERRUPTED if interrupted else int(sentence is not None)]))
        if sentence is not None:
            logging.debug("the error came from here", exc_info=error)
            if isinstance(error, RefusedWriteError):
                threading.Thread(target=_leave, daemon=True).start()
            if not interrupted:
                sys.exit(sentence)
            print(sentence, file=sys.stderr)
            sys.exit(INTERRUPTED)

    def supervise(self) -> None:
        """Splits the process into a worker, which returns, and a supervisor, which waits for it and ends as it does.

        Call it before JAX looks for devices. Where another host is lost, native libraries may abort the worker at any
        moment, after many lines of their own. The supervisor reads these lines, and says `hosts.lost` instead.
        """
        sys.stdout.flush()
        words, says_words = os.pipe()
        status, says_status = os.pipe()
        alive, lives = os.pipe()
        worker = os.fork()
        if worker:
            for end in (says_words, says_status, alive):
                os.close(end)
            _supervise(worker, words, status)
        for end in (words, status, lives):
            os.close(end)
        threading.Thread(target=_end_after, args=(alive,), daemon=True).start()
        self._supervisor = says_status
        # What Python prints still goes straight to stderr.
        sys.stderr = _stream(os.dup(2), sys.stderr)
        logging.get_absl_handler().python_handler.stream = sys.stderr
        os.dup2(says_words, 2)
        os.close(says_words)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._interrupted_at >= ONE_INTERRUPT_SECONDS:
            self._interrupted_at = now
            raise KeyboardInterrupt

    def _report_unraisable(self, found: "sys.UnraisableHookArgs") -> None:
        """Shows an error that nothing could catch; not those of TensorStore's threads, many after a refused write.

        Ctrl-C while JAX is notified of a garbage collection is such an error; it interrupts a little later.
        """
        if isinstance(found.exc_value, KeyboardInterrupt):
            self._interrupted_at = -ONE_INTERRUPT_SECONDS
            again = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
            again.daemon = True
            again.start()
        elif found.object is None and threading.current_thread() is not threading.main_thread():
            logging.debug("a native thread has met an error", exc_info=found.exc_value)
        else:
            sys.__unraisablehook__(found)

    def _sentence(self, error: BaseException) -> str | None:
        """The sentence on an error for the user; None for a fault of the program, or an end that it chose."""
        if isinstance(error, KeyboardInterrupt):
            return f"interrupted: {self._continues}" if self._continues else "interrupted"
        if isinstance(error, ValueError | FloatingPointError):
            return f"error: {error}"
        if isinstance(error, OSError) or _is_refused_by_disk(error):
            fixed = f"; once that is fixed, {self._continues}" if self._continues else ""
            return f"error: {_first_line(error)}{fixed}"
        if isinstance(error, RuntimeError) and str(error).startswith("Unable to initialize backend"):
            return f"error: {_first_line(error)}"
        if isinstance(error, AssertionError) and _there_is_no_device():
            asked = jax.config.values["jax_platforms"]
            return f"error: JAX has found no device of JAX_PLATFORMS={asked}: leave it out for any"
        if isinstance(error, MemoryError) or (
            isinstance(error, JaxRuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)
        ):
            return f"error: out of memory: {_first_line(error) or 'choose a smaller model or batch'}"
        return None


class _Stream(io.TextIOWrapper):
    """A standard stream that lets a command go on when nobody reads it any more, and shows control characters.

    Colours pass. Without room on the disk, stdout raises, because results would be missing, and stderr does not.
    """

    def write(self, text: str, /) -> int:
        # Every second part is a colour.
        parts = enumerate(COLOUR.split(text))
        self._write("".join(part if number % 2 else printable(part) for number, part in parts))
        return len(text)

    def draw(self, text: str) -> None:
        """Writes what a progress line does: it moves, and then shows a text."""
        moves = MOVES.match(text)
        assert moves is not None, "no moves at all match, too"
        self._write(moves[0] + printable(text[moves.end() :], kept=""))

    def _write(self, text: str) -> None:
        try:
            super().write(text)
        except OSError as error:
            self._forgive(error)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._forgive(error)

    def _forgive(self, error: OSError) -> None:
        raises = self.fileno() == 1 and error.errno not in HAS_GONE
        if raises or error.errno in HAS_GONE:
            # What is left in the buffer goes there; at its exit, Python would complain about it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        if raises:
            raise error


def _stream(descriptor: int, like: TextIO | None) -> TextIO:
    """A stream that writes to a descriptor, with the encoding and the buffering of another stream if there is one."""
    if like is None:
        return _Stream(open(descriptor, "wb", closefd=False), encoding="utf-8", line_buffering=True)
    at_once = bool(like.line_buffering or getattr(like, "write_through", False))
    return _Stream(
        open(descriptor, "wb", closefd=False), encoding=like.encoding, errors=like.errors, line_buffering=at_once
    )


def _open_standard_streams() -> None:
    """Makes stdout and stderr harmless where they are closed, or where their reader may go away."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Takes the lowest free descriptor, which a file of the run would get otherwise.
            os.open(os.devnull, os.O_RDWR)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        # Another object is someone's who captures what is printed.
        if stream is getattr(sys, f"__{name}__"):
            if stream is not None:
                stream.flush()
            setattr(sys, name, _stream(descriptor, stream))
            if name == "stderr":
                logging.get_absl_handler().python_handler.stream = sys.stderr


def _is_refused_by_disk(error: BaseException) -> bool:
    """Whether a library says, in an exception of its own, that the system has refused to write."""
    return isinstance(error, Exception) and any(os.strerror(number) in str(error) for number in REFUSALS)


def _there_is_no_device() -> bool:
    """Whether JAX's search for devices fails as it does for `cuda` without a GPU."""
    try:
        jax.devices()
    except AssertionError:
        return True
    return False


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _is_for_users(record: LogRecord) -> bool:
    return logging.get_verbosity() >= logging.DEBUG or "/orbax/" not in record.pathname


def _leave() -> None:
    """Ends a process that has failed, if it has not ended."""
    time.sleep(LEFT_THREADS_SECONDS)
    os._exit(1)


def _end_after(supervisor: int) -> None:
    """Ends this process when its supervisor has ended without waiting for it."""
    os.read(supervisor, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def _supervise(worker: int, words: int, status: int) -> NoReturn:
    """Waits for the worker, passes its words on if they were not its last, and ends as it did.

    `words` reads what native libraries write, `status` the command's exit status, if the worker has reached its end.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(worker, number))
    held, heard = b"", time.monotonic()
    ended = 0
    while not ended:
        ended, how = os.waitpid(worker, os.WNOHANG)
        while select.select([words], [], [], 0 if ended else 0.1)[0] and (more := os.read(words, 65536)):
            held, heard = held + more, time.monotonic()
        if time.monotonic() - heard > HELD_BACK_SECONDS and not ended:
            os.write(2, held)
            held = b""
    code, reached = os.waitstatus_to_exitcode(how), os.read(status, 1)
    if code == -signal.SIGABRT and reached:
        # It had ended, and was aborted while it waited for the other hosts to end.
        os._exit(reached[0])
    if code == -signal.SIGABRT and (loss := hosts.LAST_WORDS.search(held.decode(errors="replace"))):
        print(hosts.lost(loss.group()), file=sys.stderr)
        os._exit(os.EX_TEMPFAIL)
    if code not in (os.EX_TEMPFAIL, INTERRUPTED):
        os.write(2, held)
    if code < 0:
        if code != -signal.SIGKILL:  # It has no other handler, and cannot be given one.
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
