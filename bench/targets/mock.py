"""The mock cluster inside librdkafka, in a process of its own: the yardstick written in C.

It stores nothing durable and keeps the newest 5 MB of a partition, so it serves as a ceiling for
producing and as nothing for consuming.
"""

from __future__ import annotations

import subprocess
import time

from bench import clients, cores, wire
from bench.targets.target import Target


class Mock(Target):
    """Speaks commands over its pipes, because it knows no CreateTopics."""

    key = "mock"
    label = "librdkafka mock"
    on_disk = False
    restart_each_round = True

    def version(self) -> str:
        return f"librdkafka {clients.librdkafka_version()}"

    def command(self) -> list[str]:
        return [str(clients.binary("mock"))]

    def spawn(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        with (self.directory / "broker.log").open("ab") as log:
            self.spawned_ns = time.monotonic_ns()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
            )
        cores.pin_broker(self.process.pid)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().decode().rsplit(":", 1)[1])

    def create_topic(self, name: str, partitions: int = 1) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"topic {name} {partitions}\n".encode())
        response = self.process.stdout.readline()
        assert response == b"ok\n", response
        with wire.Connection(self.address) as connection:
            wire.wait_for_leaders(connection, name, partitions)

    def delete_topic(self, name: str) -> None:
        """Nothing: the process ends with the round."""
