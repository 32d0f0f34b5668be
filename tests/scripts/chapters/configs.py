"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from odradek.protocol.messages import alter_configs, incremental_alter_configs
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.scripts.talk import Talk, versions_of

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
NAME = "configs"

SOME_KEYS = ["cleanup.policy", "retention.ms", "max.message.bytes", "segment.bytes"]
BROKER_KEYS = ["broker.id", "num.partitions", "log.retention.hours", "message.max.bytes"]


def describe(
    resource_type: int, name: str, keys: list[str] | None, *, synonyms: bool = False
) -> DescribeConfigsRequest:
    """One resource."""
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)


def change(
    *steps: tuple[str, int, str | None], name: str = NAME, resource_type: int = TOPIC
) -> IncrementalAlterConfigsRequest:
    """Steps of (key, operation, value), on a topic unless the type says otherwise."""
    return IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in steps
                ],
            )
        ],
        validate_only=False,
    )


def replace(configs: dict[str, str | None], name: str = NAME) -> AlterConfigsRequest:
    """The whole configuration of a topic."""
    return AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        validate_only=False,
    )


def play(talk: Talk) -> None:
    """Look, change, look again."""
    talk.make_topic(NAME, 1, {"max.message.bytes": "20000"})
    for version in versions_of(DescribeConfigsRequest):
        talk.ask("some settings of a topic", describe(TOPIC, NAME, SOME_KEYS), version)
        if version >= 1:
            request = describe(TOPIC, NAME, SOME_KEYS, synonyms=True)
            talk.ask("with synonyms", request, version)
        talk.ask("some settings of the broker", describe(BROKER, "0", BROKER_KEYS), version)
    talk.ask("all settings of a topic", describe(TOPIC, NAME, None, synonyms=True), 4)
    for label, kind, name, keys in (
        ("an unknown topic", TOPIC, "never-made", SOME_KEYS),
        ("an impossible topic", TOPIC, "a/b", SOME_KEYS),
        ("another broker", BROKER, "7", BROKER_KEYS),
        ("a broker that is no number", BROKER, "seven", BROKER_KEYS),
        ("the defaults of all brokers", BROKER, "", BROKER_KEYS),
        ("an unknown kind", 77, "x", None),
        ("keys that are not there", TOPIC, NAME, ["no.such.key"]),
        ("no keys", TOPIC, NAME, []),
    ):
        talk.ask(f"settings of {label}", describe(kind, name, keys), 4)
    incremental(talk)
    whole(talk)
    loggers(talk)


def incremental(talk: Talk) -> None:
    """IncrementalAlterConfigs."""
    for version in versions_of(IncrementalAlterConfigsRequest):
        talk.ask("set", change(("segment.bytes", SET, str(2_000_000 + version))), version)
        talk.ask("delete", change(("max.message.bytes", DELETE, None)), version)
        look(talk, f"after set and delete in v{version}", "segment.bytes", str(2_000_000 + version))
    for label, steps in (
        ("append to a list", [("cleanup.policy", APPEND, "compact")]),
        ("subtract from a list", [("cleanup.policy", SUBTRACT, "delete")]),
        ("append to a number", [("retention.ms", APPEND, "5")]),
        ("an operation that is not there", [("retention.ms", 9, "5")]),
        ("an unknown key", [("no.such.key", SET, "5")]),
        ("a bad value", [("retention.ms", SET, "soon")]),
        ("a value out of its range", [("segment.bytes", SET, "1")]),
        ("a null value", [("retention.ms", SET, None)]),
        ("a key twice", [("retention.ms", SET, "5"), ("retention.ms", SET, "6")]),
        ("nothing", []),
    ):
        talk.ask(label, change(*steps), 1)
    look(talk, "after append and subtract", "cleanup.policy", "compact")
    talk.ask("an unknown topic", change(("retention.ms", SET, "5"), name="never-made"), 1)
    dry = change(("retention.ms", SET, "5"))
    dry.validate_only = True
    talk.ask("a dry run", dry, 1)


def loggers(talk: Talk) -> None:
    """Levels of loggers, by the names that runbooks have."""
    names = [
        "kafka.controller.KafkaController",
        "kafka.request.logger",
        "state.change.logger",
        "kafka.server.ReplicaManager",
        "kafka.log.LogCleaner",
        "kafka.coordinator.group.GroupCoordinator",
        "kafka.coordinator.transaction.TransactionCoordinator",
        "kafka.network.SocketServer",
        "kafka.zookeeper.ZooKeeperClient",
    ]

    def level_of(name: str, operation: int, level: str | None) -> IncrementalAlterConfigsRequest:
        return change((name, operation, level), name="0", resource_type=BROKER_LOGGER)

    for name in names:
        for level in ("ERROR", "DEBUG"):
            talk.ask(f"{name} becomes {level}", level_of(name, SET, level), 1)
            talk.ask(f"{name} is {level}", describe(BROKER_LOGGER, "0", [name]), 4)
        talk.ask(f"{name} is as before", level_of(name, DELETE, None), 1)
    for label, request in (
        ("a level that is not there", level_of(names[0], SET, "LOUD")),
        ("a logger that is not there", level_of("no.such.logger", SET, "DEBUG")),
        ("the root without a level", level_of("root", DELETE, None)),
        ("the root with a level", level_of("root", SET, "INFO")),
        ("a level that is appended", level_of(names[0], APPEND, "DEBUG")),
    ):
        talk.ask(label, request, 1)
    talk.ask("the level of the root", describe(BROKER_LOGGER, "0", ["root"]), 4)


def whole(talk: Talk) -> None:
    """AlterConfigs."""
    for version in versions_of(AlterConfigsRequest):
        new_configs: dict[str, str | None] = {
            "retention.ms": "-1",
            "segment.ms": str(7000 + version),
        }
        talk.ask("replace", replace(new_configs), version)
        look(talk, f"after replace in v{version}", "segment.ms", str(7000 + version))
    talk.ask("replace with a bad value", replace({"retention.ms": "soon"}), 2)
    talk.ask("replace with an unknown key", replace({"no.such.key": "1"}), 2)
    talk.ask("replace with a null", replace({"retention.ms": None}), 2)
    talk.ask("replace of an unknown topic", replace({"retention.ms": "5"}, "never-made"), 2)


def look(talk: Talk, label: str, key: str, value: str) -> None:
    """Write down some settings as soon as the change has reached the broker."""
    talk.until(
        f"{key}={value}",
        lambda: talk.quiet(describe(TOPIC, NAME, [key]), 4).results[0].configs[0].value,
        lambda current: current == value,
    )
    keys = [*SOME_KEYS, "segment.ms"]
    talk.ask(label, describe(TOPIC, NAME, keys), 4)
