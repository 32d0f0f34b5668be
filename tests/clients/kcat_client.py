"""kcat of Debian: librdkafka 2.0 by its command line."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tests.clients.contract import EARLIEST, LATEST, WAIT_S, Abilities, How, Message

FORMAT = "%p %o %T %K %S %h\n%k%s\n"
"""Lengths, then bytes, so that keys and values may contain any bytes."""


def run_kcat(arguments: Sequence[str], standard_input: bytes = b"") -> bytes:
    """Run kcat to its end and return what it printed."""
    done = subprocess.run(
        ["kcat", *arguments], input=standard_input, capture_output=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def parse_messages(output: bytes) -> list[Message]:
    """The records that kcat printed in FORMAT."""
    gathered: list[Message] = []
    rest = output
    while rest:
        line, rest = rest.split(b"\n", 1)
        partition, offset, timestamp, key_size, value_size, tags = line.decode().split(" ", 5)
        sizes = [max(0, int(key_size)), max(0, int(value_size))]
        key, value = rest[: sizes[0]], rest[sizes[0] : sum(sizes)]
        rest = rest[sum(sizes) + 1 :]
        headers = [tag.split("=", 1) for tag in tags.split(",") if tag]
        gathered.append(
            Message(
                partition=int(partition),
                timestamp_ms=int(timestamp),
                key=None if int(key_size) < 0 else key,
                value=None if int(value_size) < 0 else value,
                headers=tuple((name, content.encode()) for name, content in headers),
                offset=int(offset),
            )
        )
    return gathered


class KcatReader:
    """A position in a partition; `messages` runs kcat."""

    def __init__(self, bootstrap: str, topic: str, partition: int, start: str, count: int) -> None:
        self._arguments = ["-b", bootstrap, "-C", "-q", "-t", topic, "-p", str(partition)]
        self._count = count
        kind, _, number = start.partition(":")
        if kind == "offset":
            self.position = int(number)
            return
        place = {EARLIEST: "-2", LATEST: "-1"}.get(start, number)
        query = ["-b", bootstrap, "-Q", "-t", f"{topic}:{partition}:{place}"]
        response = run_kcat(query).decode()
        self.position = int(response.rsplit(" ", 1)[1])
        if self.position < 0:
            self.position = KcatReader(bootstrap, topic, partition, LATEST, 0).position

    def messages(self) -> list[Message]:
        """Read the requested records."""
        if self._count == 0:
            return []
        output = run_kcat(
            [*self._arguments, "-o", str(self.position), "-c", str(self._count), "-f", FORMAT]
        )
        return parse_messages(output)


class Kcat:
    """kcat: one run of the program per distinct headers."""

    name = "kcat"
    abilities = Abilities(
        creates_topics=False,
        chooses_timestamps=False,
        tells_offsets=False,
        null_values=False,
        transactional=False,
    )

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        """kcat does not support this."""
        raise NotImplementedError

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """One run per distinct partition and headers, in the order of the messages."""
        runs: list[list[Message]] = []
        for message in messages:
            alike = runs and (runs[-1][0].partition, runs[-1][0].headers) == (
                message.partition,
                message.headers,
            )
            if alike:
                runs[-1].append(message)
            else:
                runs.append([message])
        for run in runs:
            self._produce_alike(topic, run, how)
        return [-1] * len(messages)

    def _produce_alike(self, topic: str, messages: Sequence[Message], how: How) -> None:
        headers: list[str] = []
        for name, value in messages[0].headers:
            assert value is not None
            headers += ["-H", f"{name}={value.decode()}"]
        lines = []
        for message in messages:
            assert message.key is not None
            assert message.value is not None
            lines.append(message.key + b"\x01" + message.value + b"\x02")
        run_kcat(
            [
                *("-b", self._bootstrap, "-P", "-t", topic, "-p", str(messages[0].partition)),
                *("-K", "\\x01", "-D", "\\x02", "-z", how.codec),
                *("-X", f"acks={how.acks}"),
                *("-X", f"enable.idempotence={str(how.idempotent).lower()}"),
                *headers,
            ],
            b"".join(lines),
        )

    def transact(self, transactional_id: str, topic: str, count: int, *, is_commit: bool) -> None:
        """kcat does not support this."""
        raise NotImplementedError

    def read(self, topic: str, partition: int, start: str, count: int) -> KcatReader:
        """By `-Q`, then `-C`."""
        return KcatReader(self._bootstrap, topic, partition, start, count)

    def close(self) -> None:
        """Nothing to close: nothing runs between calls."""
