"""From environments, as files of public images write them, to settings of a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.settings.checks import unknown_names
from odradek.broker.settings.definitions import BROKER
from odradek.broker.settings.types import ConfigType
from odradek.container.config_command import HIDDEN, shown
from odradek.container.environment import ContainerConfig, container_config, inputs
from odradek.container.names import (
    OWN,
    REFUSED,
    RENAMED,
    WITHOUT_EFFECT,
    EnvironmentRefused,
    setting_name,
)
from odradek.container.new_topics import NewTopic

DEFAULT: Final = {
    "broker.id": "1",
    "log.dirs": "/var/lib/odradek/kafka-logs",
    "listeners": "OUTSIDE://0.0.0.0:9092",
    "advertised.listeners": "OUTSIDE://localhost:9092",
    "listener.security.protocol.map": "OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "OUTSIDE",
    "num.partitions": "2",
}
STOP: Final = {"controlled.shutdown.retry.backoff.ms": "1000"}
ZOOKEEPER: Final = {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181"}
ONE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def config_of(
    environment: Mapping[str, str],
    texts: Mapping[str, str] | None = None,
    mounted: Mapping[str, str] | None = None,
) -> ContainerConfig:
    """The config, with the default settings above."""
    return container_config(
        environment, texts or {}, mounted=mounted, default=DEFAULT, hostname="c0ffee"
    )


CONFLUENT: Final = {
    "KAFKA_BROKER_ID": "1",
    **ZOOKEEPER,
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_HEAP_OPTS": "-Xmx512m",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
}
APACHE: Final = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
}
BITNAMI: Final = {
    "KAFKA_CFG_NODE_ID": "0",
    "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
    "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
    "ALLOW_PLAINTEXT_LISTENER": "yes",
    "KAFKA_ENABLE_KRAFT": "yes",
}
WURSTMEISTER: Final = {
    "KAFKA_ADVERTISED_HOST_NAME": "192.168.99.100",
    "KAFKA_ADVERTISED_PORT": "19092",
    **ZOOKEEPER,
    "KAFKA_CREATE_TOPICS": "one:1:3,two:2:1:compact",
}
WHOLE: Final = {
    "nothing": ({}, DEFAULT),
    "Confluent, ZooKeeper": (
        CONFLUENT,
        {
            **STOP,
            "broker.id": "1",
            "zookeeper.connect": "zookeeper:2181",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "listeners": "PLAINTEXT://0.0.0.0:29092,PLAINTEXT_HOST://0.0.0.0:9092",
            "offsets.topic.replication.factor": "1",
            "confluent.support.metrics.enable": "false",
            "log.dirs": "/var/lib/kafka/data",
        },
    ),
    "Apache, KRaft": (
        APACHE,
        {
            **STOP,
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.voters": "1@broker:29093",
            "listeners": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
            "log.dirs": "/tmp/kraft-combined-logs",
        },
    ),
    "Bitnami, KRaft": (
        BITNAMI,
        {
            **STOP,
            **ONE,
            "node.id": "0",
            "process.roles": "controller,broker",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/bitnami/kafka/data",
        },
    ),
    "wurstmeister": (
        WURSTMEISTER,
        {
            **STOP,
            **ONE,
            "zookeeper.connect": "zookeeper:2181",
            "listeners": "PLAINTEXT://:9092",
            "advertised.listeners": "PLAINTEXT://192.168.99.100:19092",
            "log.dirs": "/kafka/kafka-logs-c0ffee",
        },
    ),
    "a setting over those of a broker alone": (
        {"KAFKA_NUM_PARTITIONS": "5"},
        {**STOP, **DEFAULT, "num.partitions": "5"},
    ),
    "listeners of a broker alone": (
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://k:9092", "KAFKA_NODE_ID": "7"},
        {
            **STOP,
            "node.id": "7",
            "num.partitions": "2",
            "log.dirs": DEFAULT["log.dirs"],
            "advertised.listeners": "PLAINTEXT://k:9092",
            "listeners": "PLAINTEXT://0.0.0.0:9092",
        },
    ),
    "Bitnami alone": (
        {"ALLOW_PLAINTEXT_LISTENER": "yes"},
        {**STOP, **DEFAULT, **ONE, "log.dirs": "/bitnami/kafka/data"},
    ),
}


@pytest.mark.parametrize(("environment", "settings"), WHOLE.values(), ids=WHOLE)
def test_environment_of_an_image_gives_its_settings(
    environment: dict[str, str], settings: dict[str, str]
) -> None:
    config = config_of(environment)
    assert config.settings == settings
    assert config.warnings == ()


SCRAMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
HOST: Final = {"KAFKA_ADVERTISED_HOST_NAME": "h", **ZOOKEEPER}
RULES: Final = {
    "dots, underscores and dashes": (
        {"KAFKA_LISTENER_NAME_A__B_MAX_CONNECTIONS": "1", "KAFKA_AUTHORIZER_A___B": "2"},
        {"listener.name.a_b.max.connections": "1", "authorizer.a-b": "2"},
    ),
    "a name with capitals": (
        {"KAFKA_CFG_ZOOKEEPER_CLIENTCNXNSOCKET": "x"},
        {"zookeeper.clientCnxnSocket": "x"},
    ),
    "listeners of Bitnami with SASL": (
        {"KAFKA_CFG_LISTENER_NAME_SASL_SSL_MAX_CONNECTIONS": "1"},
        {"listener.name.sasl_ssl.max.connections": "1"},
    ),
    "an older name of Bitnami": ({"KAFKA_SEGMENT_BYTES": "1000"}, {"log.segment.bytes": "1000"}),
    "empty listeners": (
        {"KAFKA_LISTENERS": "", "KAFKA_ADVERTISED_LISTENERS": "A://h:1,B://[::1]:2"},
        {"listeners": "A://0.0.0.0:1,B://0.0.0.0:2"},
    ),
    "an empty setting": (
        {"KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": ""},
        {"ssl.endpoint.identification.algorithm": ""},
    ),
    "a key store": (
        {"KAFKA_SSL_KEYSTORE_FILENAME": "k.jks", "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds"},
        {"ssl.keystore.location": "/etc/kafka/secrets/k.jks", "ssl.keystore.password": "creds!"},
    ),
    "a value in a file": (
        {"KAFKA_CERTIFICATE_PASSWORD_FILE": "/run/secrets/p"},
        {"ssl.key.password": "/run/secrets/p!", "ssl.truststore.password": "/run/secrets/p!"},
    ),
    "stores of Bitnami": (
        {"KAFKA_TLS_TYPE": "JKS", "KAFKA_CERTIFICATE_PASSWORD": "x"},
        {
            "ssl.keystore.type": "JKS",
            "ssl.keystore.password": "x",
            "ssl.truststore.location": "/opt/bitnami/kafka/config/certs/kafka.truststore.jks",
        },
    ),
    "certificates of Bitnami": (
        {
            "KAFKA_TLS_TYPE": "PEM",
            "KAFKA_CFG_LISTENERS": "SASL_SSL://:9092",
            "KAFKA_CERTIFICATE_PASSWORD": "x",
            "KAFKA_TLS_TRUSTSTORE_FILE": "/trusted",
            "KAFKA_TLS_SASL_SSL_CLIENT_AUTH": "required",
        },
        {
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.key.password": "x",
            "ssl.keystore.password": None,
            "ssl.keystore.location": None,
            "ssl.truststore.location": None,
            "ssl.keystore.key": "/opt/bitnami/kafka/config/certs/kafka.keystore.key!\n",
            "ssl.keystore.certificate.chain": "/opt/bitnami/kafka/config/certs/"
            "kafka.keystore.pem!\n",
            "ssl.truststore.certificates": "/trusted!\n",
            "listener.name.sasl_ssl.ssl.client.auth": "required",
        },
    ),
    "PEM without a listener that needs it": (
        {"KAFKA_TLS_TYPE": "PEM", "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092"},
        {"ssl.keystore.key": None, "ssl.keystore.location": None},
    ),
    "a login module of a user": (
        {
            "KAFKA_CLIENT_USERS": "a",
            "KAFKA_CLIENT_PASSWORDS": "b",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "C:SASL_SSL",
            "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN",
            "KAFKA_CFG_LISTENER_NAME_C_PLAIN_SASL_JAAS_CONFIG": "module",
        },
        {"listener.name.c.plain.sasl.jaas.config": "module"},
    ),
    "the port of a host name": (
        {**HOST, "KAFKA_PORT": "19", "KAFKA_HOST_NAME": "b"},
        {"listeners": "PLAINTEXT://b:19", "advertised.listeners": "PLAINTEXT://h:19"},
    ),
    "a port that Kubernetes sets": (
        {**HOST, "KAFKA_PORT": "tcp://10.0.0.1:1", "KAFKA_SERVICE_PORT": "1"},
        {"advertised.listeners": "PLAINTEXT://h:9092"},
    ),
    "a command for the host": (
        {"HOSTNAME_COMMAND": "cmd", **ZOOKEEPER},
        {"advertised.listeners": "PLAINTEXT://cmd!:9092"},
    ),
    "commands within a value": (
        {
            "HOSTNAME_COMMAND": "cmd",
            "PORT_COMMAND": "p",
            "KAFKA_ADVERTISED_LISTENERS": "A://_{HOSTNAME_COMMAND}:_{PORT_COMMAND}",
        },
        {"advertised.listeners": "A://cmd!:p!"},
    ),
    "commands for id and rack": (
        {"BROKER_ID_COMMAND": "7", "RACK_COMMAND": "r"},
        {"broker.id": "7!", "broker.rack": "r!"},
    ),
    "users of Bitnami": (
        {
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:SASL_PLAINTEXT,C:SASL_SSL",
            "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN",
            "KAFKA_CLIENT_USERS": "a,b",
            "KAFKA_CLIENT_PASSWORDS": "x;y",
            "KAFKA_INTER_BROKER_USER": "i",
            "KAFKA_INTER_BROKER_PASSWORD": "z",
        },
        {
            "listener.name.c.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            'PlainLoginModule required user_a="x" user_b="y";',
            "listener.name.internal.plain.sasl.jaas.config": "org.apache.kafka.common.security."
            'plain.PlainLoginModule required username="i" password="z" user_a="x" user_b="y" '
            'user_i="z";',
        },
    ),
}


@pytest.mark.parametrize(("environment", "expected"), RULES.values(), ids=RULES)
def test_rule_for_a_variable_gives_its_settings(
    environment: dict[str, str], expected: dict[str, str]
) -> None:
    needed = inputs(environment)
    read = {**needed.files, **needed.commands}
    texts = {name: f"{text.removeprefix('/etc/kafka/secrets/')}!\n" for name, text in read.items()}
    config = config_of(environment, texts)
    assert {name: config.settings.get(name) for name in expected} == expected
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("mechanisms", "between", "expected"),
    [
        ("PLAIN", "PLAIN", []),
        (
            "PLAIN, SCRAM-SHA-256,SCRAM-SHA-512",
            "PLAIN",
            [(name, mechanism) for mechanism in SCRAMS for name in ("a", "b")],
        ),
        ("SCRAM-SHA-512", SCRAMS[0], [("a", SCRAMS[1]), ("b", SCRAMS[1]), ("own", SCRAMS[0])]),
    ],
)
def test_users_of_bitnami_are_stored_for_each_mechanism_of_scram(
    mechanisms: str, between: str, expected: list[tuple[str, str]]
) -> None:
    environment = {
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": mechanisms,
        "KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL": between,
        "KAFKA_CLIENT_USERS": "a,b",
        "KAFKA_CLIENT_PASSWORDS": "of-a,of-b",
        "KAFKA_INTER_BROKER_USER": "own",
        "KAFKA_INTER_BROKER_PASSWORD": "of-own",
    }
    users = config_of(environment).users
    assert [(user.name, user.mechanism) for user in users] == expected
    assert {user.password for user in users} <= {f"of-{user.name}" for user in users}


REFUSALS: Final = {
    "KAFKA_LISTENERS": {"KAFKA_CFG_LISTENERS": "A://:1", "KAFKA_LISTENERS": "A://:2"},
    "KAFKA_ADVERTISED_HOST": {"KAFKA_ADVERTISED_HOST": "h"},
    "KAFKA_ADVERTISED_PORT": {"KAFKA_ADVERTISED_PORT": "9092"},
    "KAFKA_PORT": {**HOST, "KAFKA_PORT": "http"},
    "KAFKA_ZOOKEEPER_PROTOCOL": {**ZOOKEEPER, "KAFKA_ZOOKEEPER_PROTOCOL": "SASL"},
    "KAFKA_ZOOKEEPER_USER": {**ZOOKEEPER, "KAFKA_ZOOKEEPER_USER": "u"},
    "KAFKA_CLIENT_USERS": {"KAFKA_CLIENT_USERS": "a,b", "KAFKA_CLIENT_PASSWORDS": "hush"},
    "CLUSTER_ID": {"CLUSTER_ID": "a", "KAFKA_KRAFT_CLUSTER_ID": "b"},
    "KAFKA_LOG4J_ROOT_LOGLEVEL": {"KAFKA_LOG4J_ROOT_LOGLEVEL": "LOUD"},
    "ALLOW_PLAINTEXT_LISTENER": {
        "ALLOW_PLAINTEXT_LISTENER": "no",
        "KAFKA_CFG_LISTENERS": "A://:1",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "A:PLAINTEXT",
    },
}


@pytest.mark.parametrize(("variable", "environment"), REFUSALS.items())
def test_refused_variable_is_named_in_one_line(variable: str, environment: dict[str, str]) -> None:
    with pytest.raises(EnvironmentRefused) as refusal:
        config_of(environment)
    assert refusal.value.variable == variable
    assert str(refusal.value).startswith(f"{variable} cannot be taken for ")
    assert "hush" not in str(refusal.value)


def test_two_conventions_with_the_same_value_are_taken_together() -> None:
    environment = {**BITNAMI, "KAFKA_NODE_ID": "0", "KAFKA_NUM_PARTITIONS": "3"}
    settings = config_of(environment).settings
    assert settings["node.id"] == "0"
    assert settings["num.partitions"] == "3"


def test_variables_take_precedence_over_a_mounted_file_and_nothing_is_below_it() -> None:
    mounted = {"listeners": "A://:1", "num.partitions": "7"}
    config = config_of({"KAFKA_NUM_PARTITIONS": "8"}, mounted=mounted)
    assert config.settings == {"listeners": "A://:1", "num.partitions": "8"}


def test_host_name_beside_listeners_has_no_effect_and_is_named() -> None:
    config = config_of({**HOST, "KAFKA_ADVERTISED_LISTENERS": "A://a:1"})
    assert config.settings["advertised.listeners"] == "A://a:1"
    expected = "KAFKA_ADVERTISED_HOST_NAME has no effect, because KAFKA_ADVERTISED_LISTENERS is set"
    assert config.warnings == (expected,)


TOPICS: Final = {
    "a:1:1": (NewTopic("a", 1, 1, ()),),
    "a:1:1, b:12:3:compact,": (
        NewTopic("a", 1, 1, ()),
        NewTopic("b", 12, 3, ("cleanup.policy=compact",)),
    ),
    "a:1:1:delete --config=retention.ms=5 --config segment.ms=6": (
        NewTopic("a", 1, 1, ("cleanup.policy=delete", "retention.ms=5", "segment.ms=6")),
    ),
    "a:1:1:--config=retention.ms=5": (NewTopic("a", 1, 1, ("retention.ms=5",)),),
    " \n ": (),
}


@pytest.mark.parametrize(("text", "topics"), TOPICS.items())
def test_topics_to_create_are_read(text: str, topics: tuple[NewTopic, ...]) -> None:
    assert config_of({"KAFKA_CREATE_TOPICS": text}).topics == topics
    lines = text.replace(",", "\n")
    multiline = {"KAFKA_CREATE_TOPICS": lines, "KAFKA_CREATE_TOPICS_SEPARATOR": "\n"}
    assert config_of(multiline).topics == topics


UNREADABLE: Final = (
    *("a", "a:1", "a:0:1", "a:1:-1", "a b:1:1", "a:1:1:shred", "a:x:1", "a:1:1:compact 'x"),
    *("..:1:1", "a:1:1:compact --replica 1", "a:1:99999999999", "a:1:1:--config"),
)


@pytest.mark.parametrize("text", UNREADABLE)
def test_unreadable_topic_to_create_is_refused(text: str) -> None:
    with pytest.raises(EnvironmentRefused, match="expected name:partitions:replicas"):
        config_of({"KAFKA_CREATE_TOPICS": text})


def variable_of(name: str) -> str:
    """A variable by Apache's rule."""
    return "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def test_every_setting_of_kafka_has_a_variable() -> None:
    """None of the other names of the images hides one."""
    variables = {variable_of(name): name for name in BROKER}
    assert len(variables) == len(BROKER)
    assert not variables.keys() & (OWN | WITHOUT_EFFECT | REFUSED.keys() | RENAMED.keys())
    for variable, name in variables.items():
        config = config_of({variable: "text"})
        assert config.settings[name] == "text", variable
        assert config.variables[name] == variable
        assert config.warnings == ()


@given(st.text(alphabet="abc._-", min_size=1).filter(lambda name: "--" not in name))
def test_name_of_a_setting_survives_its_variable(name: str) -> None:
    """Where two characters other than a dot are beside each other, the rule has no way back."""
    if not any(pair in name for pair in ("__", "_.", "._", "-.", ".-", "-_", "_-", "..")):
        assert setting_name(variable_of(name).removeprefix("KAFKA_")) == name


SECRETS: Final = frozenset(
    name for name, definition in BROKER.items() if definition.type is ConfigType.PASSWORD
)
NAMES: Final = st.one_of(
    st.sampled_from(sorted({*OWN, *WITHOUT_EFFECT, *RENAMED, *map(variable_of, BROKER)})),
    st.sampled_from(["CLUSTER_ID", "ALLOW_PLAINTEXT_LISTENER", "HOSTNAME_COMMAND", "PATH"]),
    st.text(alphabet="AB_", min_size=1, max_size=8).map(lambda rest: f"KAFKA_{rest}"),
)
TEXTS: Final = st.one_of(
    st.text(max_size=20), st.sampled_from(["1", "A://h:1", "yes", "t:1:1", "PLAINTEXT", "INFO"])
)


def taken(environment: dict[str, str]) -> ContainerConfig | EnvironmentRefused:
    """The config of an environment, or why there is none."""
    texts = {name: "text" for part in inputs(environment) for name in part}
    try:
        return config_of(environment, texts)
    except EnvironmentRefused as refusal:
        return refusal


@given(st.dictionaries(NAMES, TEXTS, max_size=8))
def test_any_environment_is_taken_or_refused_in_one_line(environment: dict[str, str]) -> None:
    result = taken(environment)
    if isinstance(result, EnvironmentRefused):
        assert result.variable in environment
        assert "\n" not in result.line
    else:
        assert not unknown_names(result.settings)
        named = [warning.partition(": Unknown setting ")[0] for warning in result.warnings]
        assert len(set(named)) == len(named)
        assert [HIDDEN] * len(SECRETS & result.settings.keys()) == [
            text for name, text in shown(result) if name in SECRETS
        ]


@pytest.mark.parametrize("name", [*sorted(SECRETS), "listener.name.a.plain.sasl.jaas.config"])
def test_value_of_a_secret_is_not_shown(name: str) -> None:
    config = config_of({variable_of(name): "hush"})
    assert config.settings[name] == "hush"
    assert dict(shown(config))[name] == HIDDEN
