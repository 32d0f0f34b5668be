"""A MariaDB server of Debian's package `mariadb-server` for the length of a test."""

from __future__ import annotations

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

SERVER = "/usr/sbin/mariadbd"
DATABASE = "shop"
USER = "writer"
PASSWORD = "of-the-shop"
READY_TIMEOUT_S = 60.0
STATEMENT_TIMEOUT_S = 60.0
ACCOUNT = f"""\
CREATE DATABASE {DATABASE};
CREATE USER {USER}@127.0.0.1 IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON {DATABASE}.* TO {USER}@127.0.0.1;
"""


@dataclass(frozen=True, slots=True)
class MariaDb:
    """A server that runs."""

    port: int

    @property
    def url(self) -> str:
        """Its database, as JDBC names it."""
        account = f"user={USER}&password={PASSWORD}"
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{DATABASE}?{account}"

    def run(self, sql: str) -> list[tuple[str, ...]]:
        """The rows of a statement, all values as text."""
        command = ["mariadb", "-h", "127.0.0.1", "-P", str(self.port), "-u", USER, DATABASE]
        quotes = "SET sql_mode = 'ANSI_QUOTES'; "
        done = subprocess.run(
            [*command, f"-p{PASSWORD}", "--batch", "--skip-column-names", "-e", quotes + sql],
            capture_output=True,
            text=True,
            timeout=STATEMENT_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{sql}: {done.stderr}")
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


@contextmanager
def mariadb(folder: Path) -> Iterator[MariaDb]:
    """Start a server; nothing is synced to disk.

    folder  for its log
    """
    home = Path(tempfile.mkdtemp(prefix="odradek-mariadb-"))
    data = home / "data"
    user = pwd.getpwuid(os.getuid()).pw_name
    try:
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={user}"],
            check=True,
            capture_output=True,
            timeout=READY_TIMEOUT_S,
        )
        account = home / "account.sql"
        account.write_text(ACCOUNT)
        port = free_port()
        command = [SERVER, "--no-defaults", f"--datadir={data}", f"--port={port}"]
        command += ["--bind-address=127.0.0.1", f"--socket={home / 'socket'}", f"--user={user}"]
        command += [f"--init-file={account}", "--innodb-flush-log-at-trx-commit=0"]
        with LoggedProcess(command, log=folder / "mariadb.log", folder=home) as process:
            process.wait_for_line("ready for connections", timeout_s=READY_TIMEOUT_S)
            yield MariaDb(port)
            process.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
