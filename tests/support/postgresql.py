"""A PostgreSQL server of Debian's package `postgresql` for the length of a test."""

from __future__ import annotations

import csv
import io
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

PROGRAMS = Path("/usr/lib/postgresql")
USER = "postgres"
READY_TIMEOUT_S = 60.0
MAKE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class PostgreSql:
    """A server that runs."""

    port: int
    programs: Path

    @property
    def url(self) -> str:
        """Its database, as JDBC names it."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{USER}?user={USER}"

    def run(self, sql: str) -> list[tuple[str, ...]]:
        """The rows of a statement, all values as text."""
        command = [str(self.programs / "psql"), "-h", "127.0.0.1", "-p", str(self.port)]
        command += ["-U", USER, "-q", "-t", "--csv", "-v", "ON_ERROR_STOP=1", "-c", sql]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise AssertionError(f"{sql}: {done.stderr}")
        return [tuple(row) for row in csv.reader(io.StringIO(done.stdout))]


@contextmanager
def postgresql(folder: Path) -> Iterator[PostgreSql]:
    """Start a server; nothing is synced to disk.

    folder  for its log; the data lie in a folder that its user may enter
    """
    programs = max(PROGRAMS.iterdir()) / "bin"
    home = Path(tempfile.mkdtemp(prefix="odradek-postgresql-"))
    data = home / "data"
    as_user: list[str] = []
    if os.getuid() == 0:
        # It refuses to run as root.
        os.chown(home, *pwd.getpwnam(USER)[2:4])
        as_user = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"]
    try:
        make = [*as_user, str(programs / "initdb"), "-D", str(data), "-U", USER, "-A", "trust"]
        subprocess.run(
            [*make, "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"],
            cwd=home,
            check=True,
            capture_output=True,
            timeout=MAKE_TIMEOUT_S,
        )
        port = free_port()
        command = [*as_user, str(programs / "postgres"), "-D", str(data), "-p", str(port), "-F"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        with LoggedProcess(command, log=folder / "postgresql.log", folder=home) as process:
            process.wait_for_line("ready to accept connections", timeout_s=READY_TIMEOUT_S)
            yield PostgreSql(port, programs)
            process.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
