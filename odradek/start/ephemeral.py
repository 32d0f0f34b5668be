"""`odradek start --ephemeral` and `--ready-file`: a start of a broker for tests.

The data of an ephemeral broker is in a temporary folder that is removed at the end, also after
SIGTERM.  What SIGKILL leaves is that folder, whose name begins with `FOLDER_PREFIX`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from odradek.bounded_files import read_file

FOLDER_PREFIX: Final = "odradek-ephemeral-"
OWNED: Final = frozenset({"log.dir", "log.dirs"})
"""Settings that --ephemeral decides."""
SETTINGS: Final = (
    "broker.id=0",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.num.partitions=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "group.initial.rebalance.delay.ms=0",
    "controlled.shutdown.enable=false",
    "odradek.fsync.enable=false",
)
TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")
"""Environment variables, in the order in which `tempfile` reads them."""
TOKEN_BYTES: Final = 24
TOKEN_FILE_MAX: Final = 10_000
"""Characters."""
INPUT_BYTES: Final = 1 << 13
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StoppedEarly(BaseException):
    """SIGTERM or SIGINT came before the broker takes signals."""


class DataFolder:
    """The folder of an ephemeral broker."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_kept = False

    def keep(self) -> None:
        """Do not remove it at the end: the next start uses it."""
        self._is_kept = True

    def remove(self) -> None:
        """Remove it, unless it is kept."""
        if not self._is_kept:
            from shutil import rmtree

            rmtree(self.path, ignore_errors=True)


@contextmanager
def data_folder(former: str | None = None) -> Iterator[DataFolder]:
    """A folder that is removed at the end.

    former  the folder of an earlier broker, which was kept; None: a new one
    raises  StoppedEarly for a signal before the broker has set its own handlers; OSError
    """

    is_stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopped
        is_stopped = True
        raise StoppedEarly

    for number in SIGNALS:
        signal.signal(number, stop)
    folder = None
    try:
        if former is None:
            # A signal between the making of the folder and its name would leave it.
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                folder = DataFolder(_new_folder())
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        else:
            os.listdir(former)
            folder = DataFolder(former)
        yield folder
    except Exception as error:
        if is_stopped:
            # Python 3.11 makes another error of one in __set_name__, which data classes call.
            raise StoppedEarly from error
        raise
    finally:
        try:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
        finally:
            if folder is not None:
                folder.remove()


def _new_folder() -> str:
    """Make a temporary folder.  `tempfile.mkdtemp` takes 3 ms of a start with all that it imports.

    raises  OSError
    """
    parent = next(filter(None, map(os.environ.get, TEMPORARY)), "/tmp")
    path = os.path.join(os.path.abspath(parent), FOLDER_PREFIX + os.urandom(8).hex())
    try:
        os.mkdir(path, 0o700)
    except OSError:
        # It tries other folders.
        from tempfile import mkdtemp

        return mkdtemp(prefix=FOLDER_PREFIX)
    return path


def control_token(path: str) -> str:
    """The token in a file, which is made with a new one when it does not exist.

    raises  OSError
    """
    try:
        return read_file(path, TOKEN_FILE_MAX).decode("ascii", errors="replace").strip()
    except FileNotFoundError:
        token = os.urandom(TOKEN_BYTES).hex()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
        return token


def check_ready_file(path: str) -> None:
    """raises  OSError when a file cannot be written there"""
    check_written_file("the ready file", path)


def check_written_file(meaning: str, path: str) -> None:
    """Check at the start what is written at the end.

    raises  OSError
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"{meaning} cannot be written: {folder} is not a writable folder")
    if os.path.isdir(path):
        raise OSError(f"{meaning} cannot be written: {path} is a folder")


def remove_ready_file(path: str) -> None:
    """Remove what another start has left, or what this one wrote.

    raises  OSError
    """
    with suppress(FileNotFoundError):
        os.unlink(path)


def write_ready_file(
    path: str,
    address: str,
    log_dirs: tuple[str, ...],
    control: str | None,
    clients: str | None = None,
) -> None:
    """Write `key=value` lines: a reader finds all of them, or no file.

    control  URL of the control channel, or None
    clients  the folder of files for clients, or None
    raises   OSError
    """
    lines = [f"bootstrap_servers={address}", f"pid={os.getpid()}", f"data={','.join(log_dirs)}"]
    if control is not None:
        lines.append(f"control={control}")
    if clients is not None:
        lines.append(f"clients={clients}")
    partial = f"{path}.{os.getpid()}.tmp"
    try:
        with open(partial, "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        os.replace(partial, path)
    except OSError:
        with suppress(OSError):
            os.unlink(partial)
        raise


def stop_at_end_of_input() -> None:
    """Send this process SIGTERM when its standard input ends.

    The kernel closes a pipe when the process at its other end has ended in any way, SIGKILL
    included; unlike PR_SET_PDEATHSIG, this does not depend on the thread that started the broker.
    """

    def read() -> None:
        with suppress(OSError):
            while os.read(0, INPUT_BYTES):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=read, name="end of input", daemon=True).start()
