"""The clients under test, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.clients.aiokafka_client import AioKafka
from tests.clients.confluent_client import Confluent
from tests.clients.contract import NO_ZSTD, Abilities, Client
from tests.clients.kafka_python_client import KafkaPython
from tests.clients.kcat_client import Kcat
from tests.clients.program_client import ProgramClient
from tests.support.programs import JAVA_CLIENT_VERSIONS, go_program, java_program, node_program

PYTHON_CLIENTS: dict[str, Callable[[str], Client]] = {
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
    "confluent-kafka": Confluent,
    "kcat": Kcat,
}

PROGRAMS: dict[str, tuple[Callable[[], list[str]], Abilities]] = {
    **{
        f"java-{version}": (
            partial(java_program, version),
            Abilities(codecs=NO_ZSTD) if version == "1.1.1" else Abilities(),
        )
        for version in JAVA_CLIENT_VERSIONS
    },
    "franz-go": (partial(go_program, "franz"), Abilities()),
    "sarama": (partial(go_program, "sarama"), Abilities()),
    "kafka-go": (partial(go_program, "kafkago"), Abilities(idempotent=False, keeps_empty=False)),
    "kafkajs": (node_program, Abilities(null_headers=False)),
}

NAMES = (*PYTHON_CLIENTS, *PROGRAMS)


def connect(name: str, bootstrap: str, folder: Path) -> Client:
    """A client library by name; nothing is sent before its first use."""
    if name in PYTHON_CLIENTS:
        return PYTHON_CLIENTS[name](bootstrap)
    command, abilities = PROGRAMS[name]
    return ProgramClient(name, command, abilities, bootstrap=bootstrap, folder=folder)
