"""What is asked of Apache Kafka, and of us, about changing settings.

A scenario is (kind, resources): `alter` replaces all settings of a resource, `change` names
operations.  A resource is (type, name, settings); a setting of `change` is (name, operation,
value), of `alter` (name, value).  Nothing is changed: every request only validates.  (Naming a
resource twice in `alter` is left out: Apache Kafka 3.9.2 fails while it counts errors and never
responses.)
"""

from __future__ import annotations

from typing import Any, Final

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

TOPIC_VALUES: Final = (
    ("cleanup.policy", ("delete", " compact , delete ", "compact,foo", "", "DELETE")),
    ("compression.gzip.level", ("-1", "0", "1", "9", "10")),
    ("compression.lz4.level", ("0", "17", "18")),
    ("compression.type", ("zstd", "none", "GZIP", "")),
    ("compression.zstd.level", ("-131072", "-131073", "22", "23")),
    ("delete.retention.ms", ("0", "-1")),
    ("file.delete.delay.ms", ("-1",)),
    ("flush.messages", ("0", "1")),
    ("flush.ms", ("-1", "0")),
    ("follower.replication.throttled.replicas", ("0:1,1:2", "*", "", "0:a", "*,0:1", "0:1,")),
    ("index.interval.bytes", ("-1",)),
    ("local.retention.bytes", ("-3", "-2", "-1", "99")),
    ("local.retention.ms", ("-3", "-2", "99999999999")),
    ("max.compaction.lag.ms", ("0",)),
    ("max.message.bytes", ("-1", "2147483648", "1.5", "")),
    ("message.downconversion.enable", ("yes", "TRUE")),
    ("message.format.version", ("3.0", "2.8-IV1", "9.9", "2.8-IV7")),
    ("message.timestamp.after.max.ms", ("-1",)),
    ("message.timestamp.type", ("LogAppendTime", "logappendtime")),
    ("min.cleanable.dirty.ratio", ("0", "1", "1.01", "-0.1", "x", "1e-3", "0.5d", "NaN")),
    ("min.compaction.lag.ms", ("-1",)),
    ("min.insync.replicas", ("0", "1", "+2", " 3 ")),
    ("preallocate", ("1",)),
    ("remote.log.copy.disable", ("x", "true")),
    ("remote.storage.enable", ("true", "false")),
    ("retention.bytes", ("-5", "9223372036854775807", "9223372036854775808")),
    ("retention.ms", ("-1", "-2", "abc", "")),
    ("segment.bytes", ("13", "14")),
    ("segment.index.bytes", ("3", "4")),
    ("segment.jitter.ms", ("-1",)),
    ("segment.ms", ("0",)),
    ("unknown.config", ("1",)),
    ("log.retention.ms", ("1",)),
)  # fmt: skip

BROKER_VALUES: Final = (
    ("advertised.listeners", ("PLAINTEXT://0.0.0.0:9092", "OTHER://127.0.0.1:9092")),
    ("auto.create.topics.enable", ("false",)),
    ("background.threads", ("0", "4", "5", "20", "21")),
    ("compression.type", ("foo", "gzip")),
    ("leader.replication.throttled.rate", ("-1", "5", "x")),
    ("listener.name.plaintext.max.connections", ("-1", "7")),
    ("listener.name.plaintext.ssl.client.auth", ("none", "x")),
    ("listener.name.plaintext.ssl.keystore.location", ("/nowhere",)),
    ("listener.security.protocol.map", ("PLAINTEXT:FOO",)),
    ("listeners", ("PLAINTEXT", "FOO://:1")),
    ("log.cleaner.dedupe.buffer.size", ("1048576", "1048577")),
    ("log.cleaner.threads", ("0", "2", "3")),
    ("log.cleanup.policy", ("foo", "compact")),
    ("log.flush.interval.ms", ("-1", "x")),
    ("log.local.retention.bytes", ("-1", "-3")),
    ("log.local.retention.ms", ("-1", "86400001")),
    ("log.message.timestamp.type", ("x",)),
    ("log.retention.hours", ("5",)),
    ("log.retention.ms", ("0", "-1", "-2", "5", "x")),
    ("log.roll.jitter.ms", ("-1",)),
    ("log.roll.ms", ("0",)),
    ("log.segment.bytes", ("13",)),
    ("max.connections", ("-1", "5")),
    ("max.connections.per.ip", ("0",)),
    ("max.connections.per.ip.overrides", ("a", "127.0.0.1:5", "127.0.0.1:x")),
    ("message.max.bytes", ("abc", "-1")),
    ("metric.reporters", ("",)),
    ("min.insync.replicas", ("0",)),
    ("node.id", ("1",)),
    ("num.io.threads", ("1", "3", "4", "16", "17")),
    ("num.network.threads", ("0", "1", "2", "6", "7")),
    ("num.replica.fetchers", ("0", "2", "3")),
    ("principal.builder.class", ("",)),
    ("producer.id.expiration.ms", ("0", "1")),
    ("remote.fetch.max.wait.ms", ("0", "5")),
    ("sasl.enabled.mechanisms", ("PLAIN",)),
    ("some.unknown.setting", ("1", "")),
    ("ssl.client.auth", ("required", "x")),
    ("ssl.keystore.location", ("/nowhere",)),
    ("unclean.leader.election.enable", ("maybe", "true")),
)  # fmt: skip

COMPACTION_LAGS: Final = (("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8"))

REQUESTS: Final = (
    ("change", ((TOPIC, "t", (("cleanup.policy", APPEND, "compact"),)),)),
    ("change", ((TOPIC, "t", (("cleanup.policy", SUBTRACT, "delete"),)),)),
    ("change", ((TOPIC, "t", (("cleanup.policy", SUBTRACT, "foo"),)),)),
    ("change", ((TOPIC, "t", (("cleanup.policy", APPEND, "foo"),)),)),
    ("change", ((TOPIC, "t", (("retention.ms", APPEND, "5"),)),)),
    ("change", ((TOPIC, "t", (("retention.ms", SUBTRACT, "5"),)),)),
    ("change", ((TOPIC, "t", (("unknown.config", APPEND, "5"),)),)),
    ("change", ((TOPIC, "t", (("unknown.config", SUBTRACT, "5"),)),)),
    ("change", ((TOPIC, "t", (("unknown.config", DELETE, None),)),)),
    ("change", ((TOPIC, "t", (("retention.ms", DELETE, None),)),)),
    ("change", ((TOPIC, "t", (("retention.ms", DELETE, "5"),)),)),
    ("change", ((TOPIC, "t", (("retention.ms", SET, None), ("segment.ms", APPEND, None))),)),
    ("change", ((TOPIC, "t", (("retention.ms", 4, "5"),)),)),
    ("change", ((TOPIC, "t", (("retention.ms", SET, "5"), ("retention.ms", DELETE, None))),)),
    ("change", ((TOPIC, "t", (("retention.ms", SET, "5"),)), (TOPIC, "t", ()))),
    ("change", ((TOPIC, "t", COMPACTION_LAGS),)),
    ("change", ((TOPIC, "t", ()),)),
    ("change", ((TOPIC, "", (("retention.ms", SET, "5"),)),)),
    ("change", ((TOPIC, "missing", (("retention.ms", SET, "5"),)),)),
    ("change", ((TOPIC, "missing", (("retention.ms", SET, "x"),)),)),
    ("change", ((TOPIC, "a b", (("retention.ms", SET, "5"),)),)),
    ("change", ((0, "t", (("retention.ms", SET, "5"),)),)),
    ("change", ((3, "t", (("retention.ms", SET, "5"),)),)),
    ("change", ((CLIENT_METRICS, "t", (("interval.ms", SET, "5"),)),)),
    ("change", ((GROUP, "t", (("a", SET, "5"),)),)),
    ("change", ((BROKER, "1", (("log.retention.ms", SET, "5"),)),)),
    ("change", ((BROKER, "x", (("log.retention.ms", SET, "5"),)),)),
    ("change", ((BROKER, "0", (("log.cleanup.policy", APPEND, "compact"),)),)),
    ("change", ((BROKER, "0", (("log.retention.ms", APPEND, "5"),)),)),
    ("change", ((BROKER, "0", (("some.unknown.setting", APPEND, "5"),)),)),
    ("change", ((BROKER, "0", (("some.unknown.setting", DELETE, None),)),)),
    ("change", ((BROKER, "0", (("log.retention.ms", 4, "5"),)),)),
    ("change", ((BROKER, "0", (("log.retention.ms", SET, None),)),)),
    ("change", ((BROKER, "0", (("log.retention.ms", SET, "5"), ("log.retention.ms", SET, "6"))),)),
    ("change", ((BROKER, "0", ()), (BROKER, "0", ()), (TOPIC, "t", ()))),
    ("alter", ((TOPIC, "t", (("retention.ms", "5"), ("cleanup.policy", "compact"))),)),
    ("alter", ((TOPIC, "t", ()),)),
    ("alter", ((TOPIC, "t", (("retention.ms", "x"),)),)),
    ("alter", ((TOPIC, "t", (("unknown.config", "x"),)),)),
    ("alter", ((TOPIC, "t", (("retention.ms", None),)),)),
    ("alter", ((TOPIC, "t", (("retention.ms", "5"), ("retention.ms", "6"))),)),
    ("alter", ((TOPIC, "t", (("retention.ms", "5"),)), (TOPIC, "missing", ()))),
    ("alter", ((TOPIC, "", (("retention.ms", "5"),)),)),
    ("alter", ((TOPIC, "missing", (("retention.ms", "5"),)),)),
    ("alter", ((BROKER_LOGGER, "0", (("kafka", "INFO"),)),)),
    ("alter", ((CLIENT_METRICS, "t", (("interval.ms", "5"),)),)),
    ("alter", ((0, "t", (("retention.ms", "5"),)),)),
    ("alter", ((BROKER, "0", (("log.retention.ms", "5"),)),)),
    ("alter", ((BROKER, "", (("log.retention.ms", "5"),)),)),
    ("alter", ((BROKER, "1", (("log.retention.ms", "5"),)),)),
    ("alter", ((BROKER, "0", (("num.partitions", "5"),)),)),
    ("alter", ((BROKER, "0", (("some.unknown.setting", "5"),)),)),
)  # fmt: skip

DESCRIPTIONS: Final = (
    (TOPIC, "missing"),
    (TOPIC, "a b"),
    (TOPIC, ""),
    (BROKER, "1"),
    (BROKER, "x"),
    (BROKER_LOGGER, ""),
    (BROKER_LOGGER, "1"),
    (CLIENT_METRICS, "m"),
    (CLIENT_METRICS, ""),
    (GROUP, "g"),
)


def scenarios() -> list[tuple[str, Any]]:
    """All requests: every value alone, then the ones that are about more than a value."""
    single: list[tuple[str, Any]] = []
    for name, values in TOPIC_VALUES:
        single += [("change", ((TOPIC, "t", ((name, SET, value),)),)) for value in values]
    for name, values in BROKER_VALUES:
        for broker in ("0", ""):
            single += [("change", ((BROKER, broker, ((name, SET, value),)),)) for value in values]
    return single + list(REQUESTS)
