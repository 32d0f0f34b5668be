"""The clients under test, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
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
    "kafka-go": (
        partial(go_program, "kafkago"),
        Abilities(idempotent=False, transactional=False, keeps_empty=False),
    ),
    "kafkajs": (node_program, Abilities(null_headers=False)),
}

NAMES = (*PYTHON_CLIENTS, *PROGRAMS)


def connect(name: str, bootstrap: str, folder: Path) -> Client:
    """Create a client library by name; it connects at its first use."""
    if name in PYTHON_CLIENTS:
        return PYTHON_CLIENTS[name](bootstrap)
    command, abilities = PROGRAMS[name]
    return ProgramClient(name, command, abilities, bootstrap=bootstrap, folder=folder)


@dataclass(frozen=True, slots=True)
class GroupAbilities:
    """The features of a library as a member of a group."""

    assignors: tuple[str, ...] = ("range", "roundrobin")
    static: bool = True
    """It supports group.instance.id."""
    sends_instance: bool = True
    """It sends group.instance.id in every request, so it gets FENCED_INSTANCE_ID when fenced."""
    leaves_while_joining: bool = True
    """It can leave during a join; without this it reports that it has left and stays a member."""
    commits_as_it_was: bool = True
    """It sends a commit with the generation at the time of the call, or not at all."""

    @property
    def is_cooperative(self) -> bool:
        """It can keep partitions during a rebalance."""
        return COOPERATIVE in self.assignors


COOPERATIVE = "cooperative-sticky"
ALL_ASSIGNORS = ("range", "roundrobin", COOPERATIVE)

GROUP_LIBRARIES: dict[str, GroupAbilities] = {
    "java-3.9.2": GroupAbilities(ALL_ASSIGNORS),
    "confluent-kafka": GroupAbilities(ALL_ASSIGNORS),
    "kafka-python": GroupAbilities(ALL_ASSIGNORS),
    "java-4.3.0": GroupAbilities(ALL_ASSIGNORS),
    "java-2.8.2": GroupAbilities(ALL_ASSIGNORS),
    "franz-go": GroupAbilities(ALL_ASSIGNORS),
    "sarama": GroupAbilities(),
    "aiokafka": GroupAbilities(sends_instance=False, commits_as_it_was=False),
    "kafka-go": GroupAbilities(static=False),
    "kafkajs": GroupAbilities(static=False, leaves_while_joining=False),
}


def member_command(library: str) -> list[str]:
    """The command of a member with this library, without the broker's address."""
    if library in PYTHON_CLIENTS:
        return [sys.executable, "-m", "tests.clients.group_member", library]
    return PROGRAMS[library][0]()
