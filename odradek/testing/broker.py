"""A broker in a process of its own, which ends with the process that started it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from odradek.launcher import module_command
from odradek.testing.connected import ConnectedBroker
from odradek.testing.control import ControlClient
from odradek.testing.faults import Disk
from odradek.testing.handle import KafkaHandle
from odradek.testing.security import PLAINTEXT, Security

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity

READY_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
"""After it a broker is killed; its data are to be removed anyway."""
PAUSE_S: Final = 0.002
FOLDER_PREFIX: Final = "odradek-testing-"
POISON_VARIABLE: Final = "ODRADEK_POISON_LENT_MEMORY"
"""With 1 a broker overwrites memory that its requests have lent; the environment may say 0."""
LOG_FILE: Final = "broker.log"
SETTINGS_FILE: Final = "broker.properties"
TAIL_BYTES: Final = 16 << 10


class BrokerFailed(Exception):
    """A broker did not become ready; the text has the end of its log."""


class Broker(KafkaHandle):
    """A broker on a free port of 127.0.0.1 with data of its own, as a context manager.

    Its standard input is a pipe of this process: however this process ends, the broker stops and
    removes its data.  After a `with` block that an exception leaves, its log is kept.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        as_release: str | None = None,
        snapshot: str | os.PathLike[str] | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        security: Security | None = None,
    ) -> None:
        """
        settings    as in server.properties
        as_release  "2.8", "3.9" or "4.3": serve the APIs and versions of this release of Kafka
        snapshot    a file of `save`, whose topics, records and offsets the broker begins with, and
                    whose settings and time it has where `settings` does not give others
        security    protocol of the listener and its users; None: PLAINTEXT, for every client
        """
        super().__init__()
        self._keeps_log = False
        self._settings = dict(settings or {})
        self._as_release = as_release
        self._snapshot = snapshot
        self._ready_timeout_s = ready_timeout_s
        self._security = Security(protocol=PLAINTEXT) if security is None else security
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._ready: dict[str, str] = {}
        """The contents of the ready file of the last start."""
        self._has_data = False
        """Whether it was stopped or killed, and the next start continues."""
        self._last_ahead_ms = 0

    @staticmethod
    def connect(bootstrap_servers: str, control: str, token: str | None = None) -> ConnectedBroker:
        """A broker that runs elsewhere; closing it does not stop that broker.

        bootstrap_servers  host:port, for clients
        control            host:port, or URL, of its control channel (`odradek start --control`)
        token              of the control channel, if it has one
        """
        return ConnectedBroker(bootstrap_servers, control, token)

    @property
    def bootstrap_servers(self) -> str:
        """host:port; the broker is running."""
        return self._ready["bootstrap_servers"]

    @property
    def pid(self) -> int:
        """The process id; the broker is running."""
        return int(self._ready["pid"])

    @property
    def data(self) -> Path:
        """The log directory; the broker is running."""
        return Path(self._ready["data"])

    @property
    def control(self) -> ControlClient:
        """Its control channel; the broker is running."""
        return ControlClient(self._ready["control"])

    @property
    def disk(self) -> Disk:
        """Its disk, as far as it can fail."""
        return Disk(self)

    @property
    def controls(self) -> Sequence[ControlClient]:
        """That of this broker."""
        return (self.control,)

    @property
    def log_path(self) -> Path:
        """The file of its output; the broker was started."""
        assert self._folder is not None, "the broker was not started"
        return self._folder / LOG_FILE

    def log(self, position: int = 0) -> str:
        """The broker's output from a byte on; at most the last 16 KiB."""
        try:
            with open(self.log_path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(position, size - TAIL_BYTES))
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def log_bytes(self) -> int:
        """How long the log is."""
        return self.log_path.stat().st_size

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped, killed or closed."""
        return self._process is not None

    def start(self) -> Self:
        """Start, and wait until clients are served.

        After `stop` or `kill`: on the same port, with the data and the time that it had.

        raises  BrokerFailed
        """
        is_again = self._has_data
        if is_again:
            self._before_restart()
        self.launch()
        self.wait_until_ready()
        if self._security.has_sasl and not is_again:
            self.with_client(self._security.store_users)
        if is_again and (behind_ms := self._ahead_ms_of_restart()):
            self.control.post("/clock/advance", ms=behind_ms, grid_ms=behind_ms)
        return self

    def client_security(self) -> ClientSecurity | None:
        """Its admin, where clients log in."""
        return self._security.connection()

    def _before_restart(self) -> None:
        """Prepare a start of a broker that was stopped or killed."""

    def _ahead_ms_of_restart(self) -> int:
        """How far the clock is advanced with which a further start continues."""
        return self._last_ahead_ms

    def launch(self) -> None:
        """Start the process without waiting for it."""
        assert self._process is None, "the broker was started"
        if not self._has_data:
            self._folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        assert self._folder is not None, "of the first start"
        (self._folder / "ready").unlink(missing_ok=True)
        command = module_command("odradek", "start", "--ephemeral")
        command += ["--ready-file", str(self._folder / "ready"), "--stop-at-end-of-input"]
        port, data = "0", self._folder / "data"
        if self._has_data:
            port, data = self.bootstrap_servers.rpartition(":")[2], self.data
        else:
            data.mkdir()
        if self._security.protocol == PLAINTEXT:
            command += ["--port", port]
        else:
            # Imported for a secured broker only: the others load nothing of the product.
            from odradek.runtime.java_properties import properties_text
            from odradek.tools.private_files import write_private

            # A file for its owner to read, since the arguments of a process can be seen by others.
            file = self._folder / SETTINGS_FILE
            write_private(file, properties_text(self._security.broker_settings(int(port))))
            command.append(str(file))
        command += ["--control", "--data", str(data)]
        if self._snapshot is not None and not self._has_data:
            command += ["--from", os.path.abspath(self._snapshot)]
        if self._as_release is not None:
            command += ["--as", self._as_release]
        for name, value in self._settings.items():
            command += ["--override", f"{name}={value}"]
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                command,
                # Its temporary folder is in this one, whatever becomes of the process.
                env={POISON_VARIABLE: "1", **os.environ, "TMPDIR": str(self._folder)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the tests, whose end is that of the broker.
                process_group=0,
            )

    def wait_until_ready(self) -> None:
        """Until clients are served.

        raises  BrokerFailed
        """
        assert self._process is not None, "the broker was not started"
        assert self._folder is not None, "likewise"
        deadline_s = time.monotonic() + self._ready_timeout_s
        while True:
            try:
                text = (self._folder / "ready").read_text(encoding="utf-8")
                break
            except FileNotFoundError:
                pass
            code = self._process.poll()
            if code is not None or time.monotonic() >= deadline_s:
                how = f"was not ready after {self._ready_timeout_s:g} s"
                if code is not None:
                    how = f"ended with exit code {code} before it was ready"
                log = self.log()
                self.close()
                raise BrokerFailed(f"the broker {how}:\n{log}")
            time.sleep(PAUSE_S)
        self._ready = dict(line.split("=", 1) for line in text.splitlines())

    def stop(self) -> None:
        """Stop as SIGTERM does, with the data kept for `start`; the broker is running."""
        self._stop()

    def _stop(self) -> int | None:
        """The exit code; None when it was killed, as it had not stopped in time."""
        self._has_data = True
        self._last_ahead_ms = self.clock.ahead_ms()
        self.control.post("/broker/keep-data")
        return self._end(is_killed=False)

    def kill(self) -> None:
        """End the process at once, as a crash does, with the data as they are for `start`."""
        self._has_data = True
        self._last_ahead_ms = self.clock.ahead_ms()
        self._end(is_killed=True)

    def stop_to_save(self) -> None:
        """Stop, if it runs, with the data of a clean stop.

        raises  BrokerFailed
        """
        if self._process is not None and (code := self._stop()) != 0:
            raise BrokerFailed(f"the broker ended with exit code {code}:\n{self.log()}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Stop the broker and write its state into a file, for `Broker(snapshot=path)`.

        A broker that was stopped or killed is saved as it is.  Afterwards it is closed: `start`
        begins without data.  After a failure it has its data still.
        raises  BrokerFailed; OSError
        """
        check_snapshot_target(path)
        self.check_has_data()
        self.stop_to_save()
        save([self], path, self._settings, self._snapshot)
        self.close()

    def check_has_data(self) -> None:
        """raises  BrokerFailed for a broker that was never started, or is closed"""
        if self._process is None and not self._has_data:
            raise BrokerFailed("the broker has no data: it was not started, or is closed")

    @property
    def last_ahead_ms(self) -> int:
        """How far its clock was advanced when it was stopped or killed."""
        return self._last_ahead_ms

    def _end(self, *, is_killed: bool) -> int | None:
        """End the process, and wait for it; its exit code, None when there is none."""
        super().close()
        process, self._process = self._process, None
        if process is None:
            return None
        if is_killed:
            process.kill()
        else:
            process.terminate()
        code: int | None = None
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None, "it is a pipe"
        process.stdin.close()
        return code

    def keep_log(self) -> None:
        """Have the log file stay after `close`."""
        self._keeps_log = True

    def close(self) -> None:
        """Stop the broker, remove its data, and its log unless `keep_log` was called."""
        self._end(is_killed=False)
        self._has_data = False
        folder = self._folder
        if folder is None:
            return
        if not self._keeps_log:
            shutil.rmtree(folder, ignore_errors=True)
            return
        for entry in os.scandir(folder):
            if entry.is_dir():
                shutil.rmtree(entry.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self.keep_log()
            error.add_note(f"broker log, kept in {self.log_path}:\n{self.log()}")
        self.close()


def check_snapshot_target(path: str | os.PathLike[str]) -> None:
    """Check, before anything is stopped, that a file can be written.

    raises  OSError
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"the snapshot {os.fspath(path)}: {folder} is not a writable folder")


def save(
    brokers: Sequence[Broker],
    path: str | os.PathLike[str],
    settings: Mapping[str, str],
    begin: str | os.PathLike[str] | None,
) -> None:
    """Write the state of stopped brokers into one file.

    settings  that all were started with
    begin     the snapshot that they began with, whose settings they had as well
    raises    OSError
    """
    from odradek.tools import snapshot

    before = {} if begin is None else snapshot.describe(os.fspath(begin)).settings
    snapshot.save(
        [str(broker.data) for broker in brokers],
        os.fspath(path),
        settings={**before, **settings},
        ahead_ms=max(broker.last_ahead_ms for broker in brokers),
    )
