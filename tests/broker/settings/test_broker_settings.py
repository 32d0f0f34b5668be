import ast
import os
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.checks import INEFFECTIVE
from odradek.broker.settings.definitions import BROKER
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.listeners import Listener
from odradek.broker.settings.load import load_settings, make_settings, with_dynamic
from odradek.broker.settings.types import ConfigType, InvalidValueError, SettingsError
from tests.repository.sources import product

CONFIG = Path(__file__).parents[3] / "config"

KAFKAS_SAMPLE = {
    # The names and values that are set, and not commented out, in Apache Kafka 3.9's own sample.
    "broker.id": "0",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kafka-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.retention.check.interval.ms": "300000",
    "zookeeper.connect": "localhost:2181",
    "zookeeper.connection.timeout.ms": "18000",
    "group.initial.rebalance.delay.ms": "0",
}


def test_sample_settings_of_kafka_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in KAFKAS_SAMPLE.items()))
    settings = load_settings(str(file), [])
    threads = "num.network.threads, num.io.threads, num.recovery.threads.per.data.dir"
    assert settings.warnings == (f"These settings have no effect: {threads}",)
    assert settings.zookeeper_connect == "localhost:2181"
    assert settings.log_dirs == ("/tmp/kafka-logs",)
    assert settings.listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert settings.static["num.io.threads"] == "8"


def test_own_sample_settings_listen_on_loopback_only() -> None:
    settings = load_settings(str(CONFIG / "server.properties"), [])
    assert settings.warnings == ()
    assert settings.zookeeper_connect is None
    assert settings.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert settings.log_dirs == (os.path.abspath("data/kafka-logs"),)
    assert settings.offsets_topic_replication_factor == 1
    assert settings.group_initial_rebalance_delay_ms == 0


def test_empty_file_gives_kafkas_defaults(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("")
    settings = load_settings(str(file), [])
    assert settings.broker_id == -1
    assert settings.log_dirs == ("/tmp/kafka-logs",)
    assert settings.listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert settings.inter_broker_listener_name == "PLAINTEXT"
    assert settings.advertised_listeners == settings.listeners
    assert settings.log_cleanup_policy == ("delete",)
    assert settings.max_connections_per_ip_overrides == {}


def test_without_a_file_broker_listens_on_loopback_and_stores_in_the_working_directory() -> None:
    settings = load_settings(None, [])
    assert settings.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert settings.log_dirs == (os.path.abspath("data"),)


@pytest.mark.parametrize("override", ["log.dirs=/a", "log.dir=/a"])
def test_without_a_file_overrides_take_precedence(override: str) -> None:
    settings = load_settings(None, [override, "listeners=PLAINTEXT://127.0.0.1:1"])
    assert settings.log_dirs == ("/a",)
    assert settings.listeners[0].port == 1


def test_override_takes_precedence_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlog.dirs=a\n")
    settings = load_settings(str(file), ["num.partitions=5", "listeners=PLAINTEXT://127.0.0.1:0"])
    assert settings.num_partitions == 5
    assert settings.log_dirs == (os.path.abspath("a"),)
    assert settings.listeners[0].port == 0


LISTENERS = ("listeners", "advertised.listeners")


@pytest.mark.parametrize("override", ["num.partitions", "=5", " =5", ""])
def test_override_without_key_or_value_is_refused(override: str) -> None:
    with pytest.raises(SettingsError, match="Expected key=value"):
        load_settings(None, [override])


def test_unreadable_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Cannot read the settings in"):
        load_settings(str(tmp_path / "missing.properties"), [])
    bad = tmp_path / "bad.properties"
    bad.write_text("a=\\u12")
    with pytest.raises(SettingsError, match="hexadecimal") as raised:
        load_settings(str(bad), [])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("key", ["log.dirs", "broker.rack", "zookeeper.connect", "no.such.key"])
@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\udce9"])
@pytest.mark.parametrize("is_file", [True, False])
def test_text_that_nothing_can_contain_is_refused_in_one_line(
    tmp_path: Path, key: str, text: str, is_file: bool
) -> None:
    path = tmp_path / "server.properties"
    escaped = "".join(f"\\u{ord(character):04x}" for character in text)
    path.write_text(f"{key}={escaped}\n" if is_file else "")
    with pytest.raises(InvalidValueError, match=re.escape(key)) as raised:
        load_settings(str(path), [] if is_file else [f"{key}={text}"])
    assert "without NUL" in raised.value.line
    assert raised.value.line.isprintable()
    assert raised.value.line.encode()


def test_pair_of_surrogates_in_a_file_is_one_character(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.rack=\\ud83d\\ude00\n")
    assert load_settings(str(path), []).raw["broker.rack"] == "\U0001f600"


def test_secret_is_not_shown_when_it_is_refused() -> None:
    with pytest.raises(InvalidValueError) as raised:
        load_settings(None, ["ssl.key.password=secret\0"])
    assert "secret" not in f"{raised.value}{raised.value.line}"


HOSTS = ["a..b", ".a", f"{'x' * 64}.org", "y" * 300, f"{'x.' * 130}org"]


@pytest.mark.parametrize(
    "override",
    [
        *(f"{key}=PLAINTEXT://{host}:1" for key in LISTENERS for host in HOSTS),
        *(f"{key}=PLAINTEXT://h:{'9' * 5_000}" for key in LISTENERS),
        *(f"zookeeper.connect={host}:2181" for host in [*HOSTS, "\xe4..b", "\xe4" * 64]),
        f"zookeeper.connect=h,a..b:2181,{'z' * 1_000}/chroot",
        f"zookeeper.connect=h:{'9' * 5_000}",
        f"broker.id={'9' * 5_000}",
        f"num.partitions={'x' * 5_000}",
        f"log.retention.ms=a\nb{'9' * 5_000}",
        f"log.cleaner.io.buffer.load.factor={'x' * 5_000}",
        f"max.connections.per.ip.overrides=h:{'9' * 5_000}",
    ],
    ids=lambda override: override[:60],
)
def test_odd_value_is_refused_in_one_short_line(override: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        load_settings(None, [override])
    line = raised.value.line
    name, _, value = override.partition("=")
    assert line.startswith(f"Invalid value {value[:1]}")
    assert f" for configuration {name}: " in line
    assert len(line) < 700
    assert line.isprintable()


@pytest.mark.parametrize("host", ["h", "a_b.c.", "h.example.org", "127.0.0.1", "x" * 63])
def test_host_that_a_resolver_can_be_asked_for_is_taken(host: str) -> None:
    listener = f"PLAINTEXT://{host}:1"
    taken = load_settings(None, [f"zookeeper.connect={host}:1", f"advertised.listeners={listener}"])
    assert [str(advertised) for advertised in taken.advertised_listeners] == [listener]


def test_unknown_names_cause_a_warning_and_are_kept() -> None:
    settings = load_settings(
        None,
        [
            "num.partitons=3",
            "own.name=x",
            "super.users=User:a",
            "group.consumer.assignment.interval.ms=0",
            "rsm.config.bucket=b",
            "listener.name.internal.ssl.client.auth=none",
            "listener.name.internal.no.such.key=none",
        ],
    )
    assert settings.warnings == (
        "Unknown setting num.partitons has no effect; did you mean num.partitions?",
        "Unknown setting own.name has no effect",
        "Unknown setting listener.name.internal.no.such.key has no effect",
    )
    assert settings.static["own.name"] == "x"


@pytest.mark.parametrize(
    ("written", "name", "value"),
    [
        ({}, "log_retention_ms", 168 * 3_600_000),
        ({"log.retention.hours": "1"}, "log_retention_ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "log_retention_ms", 120_000),
        (
            {"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"},
            "log_retention_ms",
            3,
        ),
        ({"log.retention.hours": "-1"}, "log_retention_ms", -1),
        ({"log.retention.ms": "-7"}, "log_retention_ms", -1),
        ({"log.roll.hours": "2"}, "log_roll_ms", 7_200_000),
        ({"log.roll.hours": "2", "log.roll.ms": "5"}, "log_roll_ms", 5),
        ({"log.roll.jitter.hours": "1"}, "log_roll_jitter_ms", 3_600_000),
        ({"log.roll.jitter.hours": "1", "log.roll.jitter.ms": "0"}, "log_roll_jitter_ms", 0),
        ({"log.flush.scheduler.interval.ms": "9"}, "log_flush_interval_ms", 9),
        ({"log.flush.interval.ms": "8"}, "log_flush_interval_ms", 8),
        (
            {"log.message.timestamp.difference.max.ms": "9"},
            "log_message_timestamp_before_max_ms",
            9,
        ),
        (
            {
                "log.message.timestamp.difference.max.ms": "9",
                "log.message.timestamp.after.max.ms": "8",
            },
            "log_message_timestamp_after_max_ms",
            8,
        ),
        ({"zookeeper.session.timeout.ms": "7"}, "zookeeper_connection_timeout_ms", 7),
        ({"zookeeper.connection.timeout.ms": "6"}, "zookeeper_connection_timeout_ms", 6),
        ({"zookeeper.connect": ""}, "zookeeper_connect", None),
        ({"log.dirs": " /a , /b ,"}, "log_dirs", ("/a", "/b")),
        ({"log.dir": "/c"}, "log_dirs", ("/c",)),
        ({"log.dir": "/c", "log.dirs": "/d"}, "log_dirs", ("/d",)),
        ({"node.id": "4"}, "broker_id", 4),
        ({"broker.id": "4"}, "node_id", 4),
        (
            {"max.connections.per.ip.overrides": "a:1,127.0.0.1:2"},
            "max_connections_per_ip_overrides",
            {"a": 1, "127.0.0.1": 2},
        ),
    ],
)
def test_synonyms_are_combined_into_one_value(
    written: dict[str, str], name: str, value: object
) -> None:
    assert getattr(make_settings(written), name) == value


TWO_LISTENERS = {
    "listeners": "CLIENT://0.0.0.0:9092,INTERNAL://10.0.0.1:9093",
    "advertised.listeners": "CLIENT://broker.example:9092,INTERNAL://10.0.0.1:9093",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "internal",
}


def test_named_listeners_have_their_protocols() -> None:
    settings = make_settings(TWO_LISTENERS)
    assert settings.listeners == (
        Listener("CLIENT", "0.0.0.0", 9092, "PLAINTEXT"),
        Listener("INTERNAL", "10.0.0.1", 9093, "PLAINTEXT"),
    )
    assert settings.advertised_listeners[0] == Listener(
        "CLIENT", "broker.example", 9092, "PLAINTEXT"
    )
    assert settings.inter_broker_listener_name == "INTERNAL"


def test_listener_prefix_overrides_a_setting() -> None:
    settings = make_settings(
        {**TWO_LISTENERS, "listener.name.client.max.connections": "7", "max.connections": "9"}
    )
    assert settings.of_listener("CLIENT", "max.connections") == 7
    assert settings.of_listener("INTERNAL", "max.connections") == 9
    with pytest.raises(KeyError):
        settings.of_listener("CLIENT", "no.such.setting")


REFUSED = [
    ({"num.partitions": "0"}, "num.partitions", "at least 1"),
    ({"num.partitions": "many"}, "num.partitions", "Not a number of type INT"),
    ({"listener.name.a.max.connections": "x"}, "listener.name.a.max.connections", "INT"),
    ({"broker.id": "1001"}, "broker.id", "between -1 and reserved.broker.max.id (1000)"),
    ({"broker.id": "-2"}, "broker.id", "between -1"),
    ({"broker.id.generation.enable": "false"}, "broker.id", "at least 0"),
    ({"broker.id": "1", "node.id": "2"}, "node.id", "must equal broker.id (1)"),
    ({"group.consumer.assignment.interval.ms": "-1"}, "group.consumer.assignment", "from 0 to"),
    ({"group.consumer.assignment.interval.ms": "x"}, "group.consumer.assignment", "a number"),
    ({"controller.listener.names": "C"}, "controller.listener.names", "without process.roles"),
    ({"zookeeper.metadata.migration.enable": "true"}, "zookeeper.metadata", "not served"),
    ({"remote.log.storage.system.enable": "true"}, "remote.log.storage", "not served"),
    ({"authorizer.class.name": "a.B"}, "authorizer.class.name", "Java classes"),
    (
        {"authorizer.class.name": "odradek.AclAuthorizer", "super.users": "User:a;b"},
        "super.users",
        "principals such as User:alice",
    ),
    (
        {"authorizer.class.name": "odradek.AclAuthorizer", "allow.everyone.if.no.acl.found": "1"},
        "allow.everyone.if.no.acl.found",
        "true or false",
    ),
    ({"create.topic.policy.class.name": "a.B"}, "create.topic.policy", "Java classes"),
    ({"alter.config.policy.class.name": "a.B"}, "alter.config.policy", "Java classes"),
    ({"client.quota.callback.class": "a.B"}, "client.quota.callback", "Java classes"),
    (
        {"group.coordinator.rebalance.protocols": "consumer"},
        "group.coordinator.rebalance.protocols",
        "classic cannot be left out",
    ),
    (
        {"group.coordinator.rebalance.protocols": "classic,share"},
        "group.coordinator.rebalance.protocols",
        "only classic and consumer",
    ),
    ({"group.consumer.session.timeout.ms": "6000"}, "group.consumer.session.timeout.ms", "between"),
    (
        {"group.consumer.heartbeat.interval.ms": "60000"},
        "group.consumer.heartbeat.interval.ms",
        "between",
    ),
    (
        {"group.consumer.assignors": "org.example.Own"},
        "group.consumer.assignors",
        "uniform or range",
    ),
    ({"log.roll.ms": "0"}, "log.roll.ms", "at least 1"),
    ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms", "at least 0"),
    ({"log.retention.ms": "0"}, "log.retention.ms", "at least 1 or -1"),
    ({"log.dirs": " , "}, "log.dirs", "at least one directory"),
    ({"log.dirs": "/a,/a/"}, "log.dirs", "may be listed once"),
    ({"log.cleaner.threads": "0"}, "log.cleaner.threads", "at least 1"),
    ({"log.cleaner.dedupe.buffer.size": "1048576"}, "log.cleaner.dedupe", "more than 1048576"),
    (
        {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
        "log.cleaner.min.compaction.lag.ms",
        "no more than log.cleaner.max.compaction.lag.ms (8)",
    ),
    (
        {"replica.fetch.wait.max.ms": "30001"},
        "replica.fetch.wait.max.ms",
        "no more than replica.socket.timeout.ms (30000)",
    ),
    (
        {"replica.fetch.wait.max.ms": "500", "replica.lag.time.max.ms": "499"},
        "replica.fetch.wait.max.ms",
        "no more than replica.lag.time.max.ms (499)",
    ),
    ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes", "socket.request.max.bytes"),
    ({"max.connections.per.ip": "0"}, "max.connections.per.ip", "overrides"),
    (
        {"connections.max.idle.ms": "100"},
        "connection.failed.authentication.delay.ms",
        "less than connections.max.idle.ms (100)",
    ),
    ({"log.cleanup.policy": ""}, "log.cleanup.policy", "Expected delete, compact, or both"),
    ({"log.retention.ms": "0"}, "log.retention.ms", "at least 1 or -1"),
    ({"log.retention.minutes": "0"}, "log.retention.minutes", "at least 1 or -1"),
    ({"log.retention.hours": "0"}, "log.retention.hours", "at least 1 or -1"),
    (
        {"log.retention.hours": "0", "log.retention.minutes": "0"},
        "log.retention.minutes",
        "at least 1 or -1",
    ),
    ({"log.roll.hours": "0"}, "log.roll.hours", "at least 1"),
    ({"log.roll.jitter.hours": "-1"}, "log.roll.jitter.hours", "at least 0"),
    (
        {"num.partitions": "many"},
        "num.partitions",
        "Not a number of type INT; allowed: a number in [1,...]",
    ),
    ({"broker.id": "x"}, "broker.id", "in [-2147483648,...,2147483647]"),
    ({"log.cleaner.min.cleanable.ratio": "x"}, "log.cleaner.min.cleanable.ratio", "in [0,...,1]"),
    ({"listeners": ""}, "listeners", "at least one listener"),
    ({"zookeeper.connect": ","}, "zookeeper.connect", "'' is not host:port"),
    ({"zookeeper.connect": "/kafka"}, "zookeeper.connect", "'' is not host:port"),
    ({"zookeeper.connect": "a:1, h:x"}, "zookeeper.connect", "'h:x' is not host:port"),
    ({"zookeeper.connect": "h:1:2"}, "zookeeper.connect", "'h:1:2' is not host:port"),
    ({"zookeeper.connect": "h:65536"}, "zookeeper.connect", "'h:65536' is not host:port"),
    ({"zookeeper.connect": "[::1"}, "zookeeper.connect", "'[::1' is not host:port"),
    ({"zookeeper.connect": "a b:1"}, "zookeeper.connect", "'a b:1' is not host:port"),
    (
        {"max.connections.per.ip.overrides": "[::1]:5"},
        "max.connections.per.ip.overrides",
        "'[::1]' is not a host",
    ),
    ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners", "set advertised"),
    ({"advertised.listeners": "SSL://a:9093"}, "advertised.listeners", "a name out of listeners"),
    ({"inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name", "protocol.map"),
    ({"inter.broker.listener.name": "SSL"}, "inter.broker.listener.name", "advertised.listeners"),
    ({"security.inter.broker.protocol": "SSL"}, "inter.broker.listener.name", "advertised"),
    (
        {**TWO_LISTENERS, "security.inter.broker.protocol": "PLAINTEXT"},
        "inter.broker.listener.name",
        "together with security.inter.broker.protocol",
    ),
    (
        {**TWO_LISTENERS, "control.plane.listener.name": "INTERNAL"},
        "control.plane.listener.name",
        "must differ",
    ),
    (
        {**TWO_LISTENERS, "control.plane.listener.name": "OTHER"},
        "control.plane.listener.name",
        "a name out of advertised.listeners",
    ),
]


@pytest.mark.parametrize(("written", "name", "allowed"), REFUSED)
def test_invalid_setting_is_refused_with_a_reason_in_one_line(
    written: dict[str, str], name: str, allowed: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        make_settings(written)
    message = raised.value.line
    assert message.startswith("Invalid value ")
    assert f" for configuration {name}" in message
    assert allowed in message
    assert "\n" not in message


PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.STRING: str,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
    ConfigType.LIST: tuple[str, ...],
}
COMPLETED = {
    # Attributes with another type than their setting, because they are more than its text.
    "listeners",
    "advertised_listeners",
    "max_connections_per_ip_overrides",
    "inter_broker_listener_name",
    "log_dirs",
    "zookeeper_connection_timeout_ms",
    "metadata_log_dir",
    "log_retention_ms",
    "log_roll_ms",
    "log_roll_jitter_ms",
}
OWN = {"static", "dynamic", "written", "raw", "warnings", "quorum"}


def test_declared_attributes_have_the_types_of_their_settings() -> None:
    names = {name.replace(".", "_"): name for name in BROKER}
    for attribute, hint in get_type_hints(BrokerSettings).items():
        if attribute in OWN or attribute in COMPLETED:
            continue
        definition = BROKER[names[attribute]]
        expected: object = PYTHON_TYPES[definition.type]
        if definition.default is None:
            expected = PYTHON_TYPES[definition.type] | None
        assert hint == expected, attribute


def test_every_declared_attribute_is_there() -> None:
    settings = make_settings({})
    for attribute in get_type_hints(BrokerSettings):
        assert hasattr(settings, attribute), attribute


def test_every_declared_attribute_is_read() -> None:
    read = {
        node.attr
        for file in product()
        for node in file.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert not [name for name in get_type_hints(BrokerSettings) if name not in read]


def test_dynamic_settings_take_precedence_level_by_level() -> None:
    settings = make_settings({"num.io.threads": "8", "log.retention.hours": "5"})
    changed = with_dynamic(
        settings,
        DynamicSettings(
            {"num.io.threads": "9", "compression.type": "gzip", "log.retention.ms": "77"},
            {"num.io.threads": "10"},
        ),
    )
    assert (changed.raw["num.io.threads"], changed.raw["compression.type"]) == (10, "gzip")
    assert changed.log_retention_ms == 77
    assert changed.raw["log.retention.hours"] == 168
    assert changed.static == settings.static
    assert settings.raw["num.io.threads"] == 8
    back = with_dynamic(changed, DynamicSettings({}, {}))
    assert (back.raw["num.io.threads"], back.log_retention_ms) == (8, 5 * 3_600_000)


@pytest.mark.parametrize(
    ("default", "broker"),
    [
        ({"num.partitions": "3"}, {}),
        ({"num.io.threads": "many"}, {}),
        ({"ssl.keystore.location": "/a"}, {}),
        ({"ssl.client.auth": "none"}, {}),
        ({"listener.name.a.ssl.client.auth": "none"}, {}),
        ({}, {"ssl.keystore.location": "/a"}),
        ({}, {"num.io.threads": "0"}),
        ({"log.retention.ms": "0"}, {}),
        ({}, {"listeners": "nonsense"}),
    ],
)
def test_stored_setting_that_cannot_be_used_is_left_out_with_a_warning(
    default: dict[str, str], broker: dict[str, str]
) -> None:
    settings = make_settings({"num.partitions": "2"})
    changed = with_dynamic(settings, DynamicSettings(default, broker))
    assert changed.raw == settings.raw
    (name,) = [*default, *broker]
    assert changed.warnings
    assert all(name in warning for warning in changed.warnings)


def test_valid_stored_settings_apply_beside_an_invalid_one() -> None:
    settings = make_settings({})
    dynamic = DynamicSettings({"num.io.threads": "x", "compression.type": "zstd"}, {})
    assert with_dynamic(settings, dynamic).raw["compression.type"] == "zstd"


def test_only_the_level_that_contradicts_the_rest_is_left_out() -> None:
    settings = make_settings({})
    default = {"compression.type": "zstd"}
    changed = with_dynamic(settings, DynamicSettings(default, {"log.roll.ms": "0"}))
    assert changed.dynamic == DynamicSettings(default, {})
    assert changed.raw["compression.type"] == "zstd"
    changed = with_dynamic(settings, DynamicSettings({"log.roll.ms": "0"}, default))
    assert changed.dynamic == DynamicSettings({}, default)


def test_settings_without_effect_are_named_in_one_warning(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.io.threads=8\nnum.partitions=2\nqueued.max.requests=500\n")
    settings = load_settings(str(path), ["listener.name.internal.sasl.kerberos.kinit.cmd=x"])
    assert settings.warnings == (
        "These settings have no effect: num.io.threads, queued.max.requests, "
        "listener.name.internal.sasl.kerberos.kinit.cmd",
    )
    # NOT_DONE.md names the same, Kerberos apart.
    text = Path("NOT_DONE.md").read_text()
    listed = text.partition("accepted and have no effect\n")[2].partition("\n### ")[0]
    kerberos = {name for name in INEFFECTIVE if "kerberos" in name}
    assert set(re.findall(r"`([\w.]+)`", listed)) == INEFFECTIVE - kerberos
