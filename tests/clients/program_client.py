"""Java, Go and Node libraries, each in a program that stays alive for all tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients.contract import Abilities, How, Message
from tests.support.programs import Program


def word(content: bytes | None) -> str:
    """Bytes as the line protocol writes them."""
    return "-" if content is None else "x" + content.hex()


def header_words(message: Message) -> str:
    """Headers as the line protocol writes them."""
    return ",".join(f"{name}:{word(value)}" for name, value in message.headers) or "-"


def unhex(digits: str | None) -> bytes | None:
    """Bytes as the answers write them."""
    return None if digits is None else bytes.fromhex(digits)


class ProgramReader:
    """The rest of the answers to one consume command."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.finished = False
        self.position: int = program.answer()["position"]

    def messages(self) -> list[Message]:
        """Wait for the records of the command; none the second time."""
        if self.finished:
            return []
        answers = self._program.answers()
        self.finished = True
        return [
            Message(
                partition=answer["partition"],
                timestamp_ms=answer["timestamp"],
                key=unhex(answer["key"]),
                value=unhex(answer["value"]),
                headers=tuple((name, unhex(value)) for name, value in answer["headers"]),
                offset=answer["offset"],
            )
            for answer in answers
        ]


class ProgramClient:
    """A library behind tests/support/programs.py; built and started when first used."""

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
        """The program, ready for a command: one that still owes records is started anew."""
        if self._reader is not None and not self._reader.finished:
            self.close()
        if self._running is None:
            self._running = Program(self._command(), bootstrap=self._bootstrap, log=self._log)
        return self._running

    def create_topic(self, topic: str, partitions: int) -> None:
        """The library's own admin client."""
        program = self._program()
        program.send(f"create {topic} {partitions}")
        program.answers()

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """One producer for this call alone."""
        program = self._program()
        program.send(
            f"produce {topic} {how.codec} {how.acks} {str(how.idempotent).lower()} {len(messages)}",
            *(
                f"{message.partition} {message.timestamp_ms} {word(message.key)} "
                f"{word(message.value)} {header_words(message)}"
                for message in messages
            ),
        )
        return [answer["offset"] for answer in program.answers()]

    def begin_transactions(self, transactional_id: str) -> None:
        """One producer for this call alone."""
        program = self._program()
        program.send(f"transact {transactional_id}")
        program.answers()

    def read(self, topic: str, partition: int, start: str, count: int) -> ProgramReader:
        """One consumer for this call alone; its records are taken before the next call."""
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
