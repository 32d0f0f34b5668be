"""The console tools as processes: signals, closed pipes, a terminal, many lines, no library."""

from __future__ import annotations

import ctypes
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from odradek.protocol.stored.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from odradek.tools.console.library import MISSING
from odradek.tools.console.properties import CONSUMER as CONSUMER_KIND
from odradek.tools.console.properties import (
    KNOWN,
    SECURITY_PROPERTIES,
    Number,
    check_properties,
    for_library,
)
from odradek.tools.console.properties import PRODUCER as PRODUCER_KIND
from tests.odradek.console_tools import CONSUMER, PRODUCER, ApacheTools, our_command, our_tool
from tests.support.broker_process import odradek_broker
from tests.support.processes import take_interrupts
from tests.support.reference_codec import encode
from tests.support.watermarks import watermarks

pytestmark = pytest.mark.client

LINES = 100_000
LINES_SECONDS_MAX = 30.0
WAIT_S = 90.0
NO_TOPICS = "allow.auto.create.topics=false"
STORED = "org.apache.kafka.tools.consumer."
WITHOUT_LIBRARY = """
import sys
sys.modules["confluent_kafka"] = None
import odradek.broker.node.node
from odradek.command import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker."""
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with odradek_broker(tmp_path_factory.mktemp("odradek"), overrides=overrides) as process:
        yield process.address


def start_consumer(address: str, topic: str, *more: str) -> subprocess.Popen[bytes]:
    """Start a consumer, and wait until it has printed the only record of its topic."""
    at = ["--bootstrap-server", address, "--topic", topic]
    assert our_tool(PRODUCER, at, "first\n").exit_code == 0
    child = subprocess.Popen(
        our_command(CONSUMER, [*at, "--from-beginning", *more]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"first\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_consumer_with_the_record_count(
    broker: str, number: signal.Signals
) -> None:
    child = start_consumer(broker, f"signals-{number}", "--group", f"signals-{number}")
    child.send_signal(number)
    output, errors = child.communicate(timeout=WAIT_S)
    assert (child.returncode, output) == (128 + number, b"")
    assert errors == b"Processed a total of 1 messages\n"
    # It has left the group, and the offsets of printed records are committed.
    at = ["--bootstrap-server", broker, "--topic", f"signals-{number}"]
    assert our_tool(PRODUCER, at, "second\n").exit_code == 0
    group = ["--group", f"signals-{number}", "--max-messages", "1"]
    assert our_tool(CONSUMER, [*at, *group, "--from-beginning"]).output == "second\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--topic", "late-a"],
        ["--topic", "late-b", "--partition", "0", "--consumer-property", NO_TOPICS],
        ["--include", "late-[cd]", "--consumer-property", "metadata.max.age.ms=300"],
    ],
)
def test_consumer_of_a_missing_topic_waits_until_it_exists(broker: str, words: list[str]) -> None:
    at = ["--bootstrap-server", broker]
    more = ["--from-beginning", "--max-messages", "1", "--timeout-ms", "120000"]
    child = subprocess.Popen(
        our_command(CONSUMER, [*at, *words, *more]), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    topic = "late-d" if "--include" in words else words[1]
    assert our_tool(PRODUCER, [*at, "--topic", topic], "here\n").exit_code == 0
    output, errors = child.communicate(timeout=WAIT_S)
    assert (child.returncode, output) == (0, b"here\n")
    assert errors.endswith(b"Processed a total of 1 messages\n")


def test_consumer_ends_when_stdout_is_closed(broker: str) -> None:
    child = start_consumer(broker, "unread")
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    at = ["--bootstrap-server", broker, "--topic", "unread"]
    assert our_tool(PRODUCER, at, "second\n").exit_code == 0
    errors = child.stderr.read()
    assert child.wait(WAIT_S) == 0
    child.stderr.close()
    assert errors == (
        b"Unable to write to standard out, closing consumer.\nProcessed a total of 2 messages\n"
    )


@pytest.mark.parametrize("is_for_main_thread", [True, False])
def test_producer_on_a_terminal_prompts_and_delivers_lines_after_ctrl_c(
    broker: str, is_for_main_thread: bool
) -> None:
    ours, theirs = pty.openpty()
    at = ["--bootstrap-server", broker, "--topic", f"typed-{is_for_main_thread}"]
    child = subprocess.Popen(
        our_command(PRODUCER, [*at, "--timeout", "60000"]),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        preexec_fn=take_interrupts,
    )
    os.close(theirs)
    assert read_until(ours, b">") == b">"
    os.write(ours, b"hello\n")
    assert read_until(ours, b">") == b"hello\r\n>"
    if is_for_main_thread:
        child.send_signal(signal.SIGINT)
    else:
        interrupt_another_thread(child.pid)
    assert child.communicate(timeout=WAIT_S)[1] == b""
    assert child.returncode == 130
    os.close(ours)
    consumed = our_tool(CONSUMER, [*at, "--from-beginning", "--max-messages", "1"])
    assert consumed.output == "hello\n"


def interrupt_another_thread(process: int) -> None:
    """Deliver SIGINT to a thread other than the main one, as the system may do."""
    for folder in Path(f"/proc/{process}/task").iterdir():
        kept_out = re.search(r"^SigBlk:\s*(\w+)$", (folder / "status").read_text(), re.MULTILINE)
        assert kept_out is not None
        is_open = not int(kept_out[1], 16) >> (signal.SIGINT - 1) & 1
        if int(folder.name) != process and is_open:
            assert ctypes.CDLL(None).tgkill(process, int(folder.name), signal.SIGINT) == 0
            return
    raise AssertionError("no other thread takes it")


def read_until(descriptor: int, end: bytes) -> bytes:
    """Read until `end` has been read."""
    data = b""
    deadline = time.monotonic() + WAIT_S
    while not data.endswith(end):
        assert select.select([descriptor], [], [], deadline - time.monotonic())[0], data
        data += os.read(descriptor, 4096)
    return data


def test_hundred_thousand_lines_pass_producer_and_consumer(broker: str) -> None:
    lines = "".join(f"line {number} {'x' * 90}\n" for number in range(LINES))
    at = ["--bootstrap-server", broker, "--topic", "many"]
    start = time.monotonic()
    assert our_tool(PRODUCER, [*at, "--compression-codec", "lz4"], lines).exit_code == 0
    consumed = our_tool(CONSUMER, [*at, "--from-beginning", "--max-messages", str(LINES)])
    assert time.monotonic() - start < LINES_SECONDS_MAX
    assert consumed.output == lines
    assert consumed.errors == f"Processed a total of {LINES} messages\n"


@pytest.mark.judge
@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_committed_offsets_and_groups_are_printed_as_apache_prints_them(
    broker: str, apache_tools: ApacheTools, formatter: str
) -> None:
    at = ["--bootstrap-server", broker, "--topic", f"grouped-{formatter}"]
    assert our_tool(PRODUCER, at, "one\ntwo\n").exit_code == 0
    group = ["--group", f"a-{formatter}", "--max-messages", "1", "--from-beginning"]
    assert our_tool(CONSUMER, [*at, *group]).output == "one\n"
    at = ["--bootstrap-server", broker, "--topic", "__consumer_offsets", "--partition", "0"]
    words = [*at, "--offset", "earliest", "--formatter", STORED + formatter]
    reader = Consumer({"bootstrap.servers": broker, "group.id": "unused"})
    _, end = watermarks(reader, "__consumer_offsets", 0, timeout_s=WAIT_S)
    reader.close()
    words += ["--max-messages", str(end)]
    ours, apaches = our_tool(CONSUMER, words), apache_tools(CONSUMER, words, "")
    assert ours.output == apaches.output
    assert f'"group":"a-{formatter}"' in ours.output
    assert ours.exit_code == apaches.exit_code == 0


@pytest.mark.judge
def test_transactional_ids_are_printed_as_apache_prints_them(
    broker: str, apache_tools: ApacheTools
) -> None:
    key = (0).to_bytes(2, "big") + encode(TransactionLogKey(transactional_id="tä"), 0)
    state = TransactionLogValue(
        producer_id=7,
        producer_epoch=2,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=12_345,
        transaction_start_timestamp_ms=-1,
    )
    values = [version.to_bytes(2, "big") + encode(state, version) for version in (0, 1)]
    producer = Producer({"bootstrap.servers": broker})
    for value in (*values, None, (9).to_bytes(2, "big")):
        producer.produce("transactions", value=value, key=key)
    producer.produce("transactions", value=values[0], key=b"\0\x05")
    producer.produce("transactions", value=values[0])
    assert producer.flush(WAIT_S) == 0
    at = ["--bootstrap-server", broker, "--topic", "transactions", "--max-messages", "6"]
    words = [*at, "--from-beginning", "--formatter", f"{STORED}TransactionLogMessageFormatter"]
    ours, apaches = our_tool(CONSUMER, words), apache_tools(CONSUMER, words, "")
    assert ours.output == apaches.output
    assert ours.output.count('"version":0') == 7
    assert ours.errors == apaches.errors == "Processed a total of 6 messages\n"


def test_batch_of_a_synchronous_producer_does_not_wait_for_the_timeout(broker: str) -> None:
    at = ["--bootstrap-server", broker, "--topic", "synchronous"]
    began = time.monotonic()
    words = [*at, "--sync", "--timeout", f"{int(WAIT_S)}000"]
    assert our_tool(PRODUCER, words, "one\ntwo\n").exit_code == 0
    assert time.monotonic() - began < WAIT_S
    words = [*at, "--from-beginning", "--max-messages", "2"]
    assert our_tool(CONSUMER, words).output == "one\ntwo\n"


@pytest.mark.parametrize("name", [PRODUCER, CONSUMER])
def test_missing_library_is_reported_in_one_line(name: str) -> None:
    words = [name, "--bootstrap-server", "127.0.0.1:1", "--topic", "t"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARY, *words],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{MISSING}\n"


def test_properties_without_effect_are_logged(broker: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("nope.nothing = 1\nlinger.ms=5\nfetch.max.wait.ms=9\n")
    at = ["--bootstrap-server", broker, "--topic", "properties"]
    sent = our_tool(PRODUCER, [*at, "--producer.config", str(file)], "one\n")
    assert sent.exit_code == 0
    lines = [line.partition("] ")[2] for line in sent.errors.splitlines()]
    assert lines == [
        "WARN The configuration 'nope.nothing' is unknown and has no effect (Producer)",
        "WARN The configuration 'fetch.max.wait.ms' is unknown and has no effect (Producer)",
    ]
    words = ["--from-beginning", "--max-messages", "1", "--command-config", str(file)]
    got = our_tool(CONSUMER, [*at, *words, "--consumer-property", "client.id=me"])
    assert (got.exit_code, got.output) == (0, "one\n")
    assert [line.partition("] ")[2] for line in got.errors.splitlines()[:-1]] == [
        "WARN The configuration 'nope.nothing' is unknown and has no effect (Consumer)",
        "WARN The configuration 'linger.ms' is unknown and has no effect (Consumer)",
    ]


@pytest.mark.parametrize(("kind", "build"), [(PRODUCER_KIND, Producer), (CONSUMER_KIND, Consumer)])
def test_librdkafka_accepts_every_known_property(
    kind: str, build: type[Producer] | type[Consumer]
) -> None:
    values = {
        "bootstrap.servers": "127.0.0.1:1",
        "client.id": "me",
        "group.id": "g",
        "group.protocol": "classic",
        "enable.idempotence": "true",
        "enable.auto.commit": "true",
        "allow.auto.create.topics": "false",
        "check.crcs": "false",
        "exclude.internal.topics": "false",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p";',
        "client.rack": "r",
        "group.instance.id": "i",
    }
    numbers = {
        "delivery.timeout.ms": "9",
        "session.timeout.ms": "20000",
        "max.poll.interval.ms": "30000",
    }
    of_security = [name for name in SECURITY_PROPERTIES if name not in values]
    for name, rule in KNOWN[kind].items():
        if isinstance(rule, Number):
            values[name] = numbers.get(name, "5")
        elif rule is not None:
            values[name] = rule[0]
    given = {name: values[name] for name in KNOWN[kind] if name not in of_security}
    given["security.protocol"] = "SASL_PLAINTEXT"
    check_properties(kind, given)
    configs = for_library(kind, given)
    assert configs["sasl.username"] == "u"
    client = build({**configs, "log_level": 0})
    assert client is not None
