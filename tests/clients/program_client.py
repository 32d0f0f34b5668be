"""Java, Go and Node libraries, each in a program that stays alive for all tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients.contract import Abilities, How, Message
from tests.support.programs import Program


def word(content: bytes | None) -> str:
    """Bytes in the form of the protocol."""
    return "-" if content is None else "x" + content.hex()


def header_words(message: Message) -> str:
    """Headers in the form of the protocol."""
    return ",".join(f"{name}:{word(value)}" for name, value in message.headers) or "-"


def unhex(digits: str | None) -> bytes | None:
    """Parse bytes in a response of the program."""
    return None if digits is None else bytes.fromhex(digits)


class ProgramReader:
    """The remaining responses to one consume command."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.finished = False
        self.position: int = program.response()["position"]

    def messages(self) -> list[Message]:
        """Wait for the records of the command; a second call returns none."""
        if self.finished:
            return []
        responses = self._program.responses()
        self.finished = True
        return [
            Message(
                partition=response["partition"],
                timestamp_ms=response["timestamp"],
                key=unhex(response["key"]),
                value=unhex(response["value"]),
                headers=tuple((name, unhex(value)) for name, value in response["headers"]),
                offset=response["offset"],
            )
            for response in responses
        ]


class ProgramClient:
    """A library in a program of tests/support/programs.py, which is built at its first use."""

    def __init__(
        self,
        name: str,
        command: Callable[[], list[str]],
        abilities: Abilities,
        *,
        bootstrap: str,
        folder: Path,
    ) -> None:
        self.name = name
        self.abilities = abilities
        self._command = command
        self._bootstrap = bootstrap
        self._log = folder / f"{name}.log"
        self._running: Program | None = None
        self._reader: ProgramReader | None = None

    def _program(self) -> Program:
        """The program, ready for a command; it is restarted if records are outstanding."""
        if self._reader is not None and not self._reader.finished:
            self.close()
        if self._running is None:
            self._running = Program(self._command(), bootstrap=self._bootstrap, log=self._log)
        return self._running

    def create_topic(self, topic: str, partitions: int) -> None:
        """The library's own admin client."""
        program = self._program()
        program.send(f"create {topic} {partitions}")
        program.responses()

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """Use a producer for this call only."""
        program = self._program()
        program.send(
            f"produce {topic} {how.codec} {how.acks} {str(how.idempotent).lower()} {len(messages)}",
            *(
                f"{message.partition} {message.timestamp_ms} {word(message.key)} "
                f"{word(message.value)} {header_words(message)}"
                for message in messages
            ),
        )
        return [response["offset"] for response in program.responses()]

    def transact(self, transactional_id: str, topic: str, count: int, *, is_commit: bool) -> None:
        """Use a producer for this call only."""
        program = self._program()
        outcome = "commit" if is_commit else "abort"
        program.send(f"transact {transactional_id} {topic} {count} {outcome}")
        program.responses()

    def run(self, command: str) -> None:
        """A command that only some programs know."""
        program = self._program()
        program.send(command)
        program.responses()

    def read(self, topic: str, partition: int, start: str, count: int) -> ProgramReader:
        """Use a consumer for this call only; its records must be read before the next call."""
        program = self._program()
        program.send(f"consume {topic} {partition} {start} {count}")
        self._reader = ProgramReader(program)
        if count == 0:
            self._reader.messages()
        return self._reader

    def close(self) -> None:
        """End the program; the next call starts another."""
        self._reader = None
        if self._running is not None:
            self._running.close()
            self._running = None
