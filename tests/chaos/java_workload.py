"""Clients of the Java library, which write down what they do and see, beside those of `Workload`.

The program prints a line for each event, with times of the clock that Python's `monotonic_ns` has:

    s PRODUCER PARTITION VALUE NS TRANSACTION|-     a send
    o VALUE OFFSET NS                               it is acknowledged
    e VALUE NS                                      it ended with an error
    p CONSUMER SESSION NS TRANSACTION|- PARTITION:OFFSET:VALUE:EPOCH...     a poll
    c GROUP NS OUTCOME PARTITION:OFFSET...          a commit of offsets
    f GROUP NS PARTITION:OFFSET...                  committed offsets that were found
    b TRANSACTION, m TRANSACTION NS, t TRANSACTION OUTCOME    begun, commit asked for, ended
    w                                               the producers have ended
    x TEXT                                          an error, after which a client goes on or not
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.chaos.history import Commit, Outcome, Poll, Seen, Send, Transaction
from tests.chaos.transactional_workload import TIMEOUT_MS, TransactionalWorkload
from tests.chaos.workload import DELIVERY_MS, PARTITIONS, READ_S, Workload
from tests.support import maven, tool_cache
from tests.support.apache import JUDGE_VERSION
from tests.support.processes import die_with_parent

SOURCE: Final = Path(__file__).parent / "java" / "ChaosClients.java"
NO_TRANSACTION: Final = "-"
PRODUCERS: Final = 2
ENDED_S: Final = 3 * DELIVERY_MS / 1000


def java_clients() -> list[str]:
    """The command line of the program, without its arguments."""
    libraries = maven.client_libraries(JUDGE_VERSION)

    def make(folder: Path) -> None:
        tool_cache.run_tool(
            ["javac", "-proc:none", "-cp", f"{libraries}/*", "-d", str(folder), str(SOURCE)],
            folder=folder,
        )

    classes = tool_cache.build_once(
        tool_cache.TOOLS / "programs" / "chaos-clients",
        tool_cache.fingerprint([JUDGE_VERSION, SOURCE]),
        make,
    )
    options = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    address = "-Djava.net.preferIPv4Stack=true"
    return ["java", *options, address, "-cp", f"{classes}:{libraries}/*", SOURCE.stem]


class JavaClients:
    """The running program; what it prints becomes part of the history of a workload."""

    def __init__(self, workload: Workload, kind: str, seed: int) -> None:
        self._workload = workload
        self._sends: dict[int, Send] = {}
        self._have_written = threading.Event()
        self._errors: list[str] = []
        self._child = subprocess.Popen(
            [
                *java_clients(),
                *(workload._bootstrap, workload._topic, str(PARTITIONS), kind, str(PRODUCERS)),
                *(str(seed), str(TIMEOUT_MS)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=die_with_parent,
        )
        self._pump = threading.Thread(target=self._note_all, name="java", daemon=True)
        self._pump.start()

    def end_writing(self) -> None:
        """Until all that was sent is acknowledged, or has failed."""
        assert self._child.stdin is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        assert self._have_written.wait(ENDED_S), "the producers of the Java library have not ended"

    def end(self) -> None:
        """End it; a program that ended by itself has failed."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            code = self._child.wait(READ_S)
        finally:
            self._child.kill()
            self._pump.join(READ_S)
            assert self._child.stdout is not None
            self._child.stdout.close()
        assert code == 0, f"the Java clients ended with {code}: {self._errors[-1:]}"

    def _note_all(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            kind, *words = line.split()
            if kind == "w":
                self._have_written.set()
            elif kind == "x":
                self._errors.append(" ".join(words))
            else:
                with self._workload._lock:
                    self._note(kind, words)

    def _note(self, kind: str, words: Sequence[str]) -> None:
        history = self._workload.history
        match kind:
            case "s":
                producer, partition, value, invoked_ns = map(int, words[:4])
                send = Send(producer, partition, value, invoked_ns, transaction=_number(words[4]))
                self._sends[value] = send
                history.sends.append(send)
            case "o" | "e":
                self._note_end(kind, [int(word) for word in words])
            case "p":
                seen = [_seen(word) for word in words[4:]]
                consumer, session, ended_ns = map(int, words[:3])
                history.polls.append(Poll(consumer, session, ended_ns, seen, _number(words[3])))
            case "c":
                outcome, offsets = Outcome(words[2]), _offsets(words[3:])
                is_ok, is_aborted = outcome is Outcome.OK, outcome is Outcome.FAIL
                commit = Commit(words[0], offsets, int(words[1]), is_ok, is_aborted=is_aborted)
                history.commits.append(commit)
            case "f":
                offsets = _offsets(words[2:])
                history.commits.append(Commit(words[0], offsets, int(words[1]), True, True))
            case "b":
                history.transactions[int(words[0])] = Transaction(int(words[0]))
            case "m":
                history.transactions[int(words[0])].commit_invoked_ns = int(words[1])
            case "t":
                history.transactions[int(words[0])].outcome = Outcome(words[1])
                if words[1] == Outcome.OK.value:
                    self._workload._note_success()
            case _:
                raise AssertionError(f"unknown line: {kind} {words}")

    def _note_end(self, kind: str, numbers: Sequence[int]) -> None:
        send = self._sends.pop(numbers[0])
        send.ended_ns = numbers[-1]
        if kind == "o":
            send.outcome, send.offset = Outcome.OK, numbers[1]
            if send.transaction is None:
                self._workload._note_success()


def _number(word: str) -> int | None:
    return None if word == NO_TRANSACTION else int(word)


def _seen(word: str) -> Seen:
    partition, offset, value, epoch = map(int, word.split(":"))
    return Seen(partition, offset, value, None if epoch < 0 else epoch)


def _offsets(words: Sequence[str]) -> dict[int, int]:
    return {
        int(partition): int(offset) for partition, offset in (word.split(":") for word in words)
    }


@contextmanager
def _beside(workload: Workload, kind: str, seed: int) -> Iterator[None]:
    """The Java clients, until the block ends."""
    clients = JavaClients(workload, kind, seed)
    try:
        yield
        clients.end_writing()
    finally:
        clients.end()


class JavaWorkload(Workload):
    """Idempotent producers, a consumer and a group of the Java library; consumers of another."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        super().__init__(bootstrap, topic, seed)
        self._seed = seed

    @contextmanager
    def running(self, producers: int = 0, consumers: int = 1) -> Iterator[None]:
        """As that of `Workload`."""
        with super().running(producers, consumers), _beside(self, "records", self._seed):
            yield


class JavaTransactionalWorkload(TransactionalWorkload):
    """Producers of the Java library that consume in their transactions; consumers of another."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        super().__init__(bootstrap, topic, seed)
        self._seed = seed

    @contextmanager
    def running(self, producers: int = 1, consumers: int = 1) -> Iterator[None]:
        """As that of `Workload`."""
        with super().running(producers, consumers), _beside(self, "transactions", self._seed):
            yield
