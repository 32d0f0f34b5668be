"""Apache Kafka itself, in ZooKeeper mode, and its command-line tools: the judge of our tests."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import class_archives, maven, programs
from tests.support.class_archives import SMALL
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess
from tests.support.zookeeper import zookeeper

JUDGE_VERSION = "3.9.2"
READY = r"started \(kafka\.server\.KafkaServer\)"
READY_TIMEOUT_S = 60.0
TOOL_TIMEOUT_S = 120.0
STACKS_TIMEOUT_S = 5.0

TOPICS_TOOL = "org.apache.kafka.tools.TopicCommand"
PRODUCER_PERFORMANCE_TOOL = "org.apache.kafka.tools.ProducerPerformance"
CONSOLE_PRODUCER_TOOL = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER_TOOL = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP_LOG_TOOL = "kafka.tools.DumpLogSegments"

LOG4J = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J_QUIET = (
    LOG4J.replace("INFO, stdout", "WARN, stderr")
    .replace(
        "log4j.appender.stdout=org.apache.log4j.ConsoleAppender\n",
        "log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.stderr.Target=System.err\n",
    )
    .replace("appender.stdout.", "appender.stderr.")
)

SMALL_NODE: Mapping[str, str] = {
    "broker.id": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.connection.timeout.ms": "18000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""What a broker of tests starts with; overrides come after."""


@dataclass(frozen=True, slots=True)
class ApacheBroker:
    """A running Apache broker."""

    address: str
    data: Path
    """Its only log directory."""
    process: LoggedProcess


def java_command(
    libraries: Path,
    main: str,
    arguments: Sequence[str],
    *,
    heap: str,
    sharing: Sequence[str] | None = None,
) -> list[str]:
    """A JVM that starts quickly and stays small.

    sharing  options in place of those that take the archive of the classes in `libraries`
    """
    return [
        "java",
        f"-Xmx{heap}",
        *SMALL,
        *(class_archives.options(libraries.parent.name) if sharing is None else sharing),
        "-Djava.net.preferIPv4Stack=true",
        "-cp",
        f"{libraries}/*",
        main,
        *arguments,
    ]


def program_command(source: Path, *, heap: str, version: str = JUDGE_VERSION) -> list[str]:
    """The command line of a program of one file beside the classes of a broker; compiled once."""
    libraries = maven.broker_libraries(version)
    classes = programs.java_classes(f"{source.stem}-{version}", [source], libraries)
    command = java_command(libraries, source.stem, [], heap=heap)
    # An archive of classes is taken if the class path begins as that of the JVM that wrote it.
    command[command.index("-cp") + 1] += f":{classes}"
    return command


def broker_command(
    folder: Path,
    settings: Mapping[str, str],
    *,
    version: str = JUDGE_VERSION,
    sharing: Sequence[str] | None = None,
) -> list[str]:
    """The command line of a broker; writes its files of settings into `folder`."""
    properties = folder / "server.properties"
    everything = {**SMALL_NODE, **settings}
    properties.write_text("".join(f"{key}={value}\n" for key, value in everything.items()))
    logging = folder / "log4j.properties"
    logging.write_text(LOG4J)
    libraries = maven.broker_libraries(version)
    arguments = [str(properties)]
    command = java_command(libraries, "kafka.Kafka", arguments, heap="256m", sharing=sharing)
    command.insert(1, f"-Dlog4j.configuration=file:{logging}")
    return command


@contextmanager
def apache_kafka(
    folder: Path,
    *,
    zookeeper_address: str,
    version: str = JUDGE_VERSION,
    port: int | None = None,
    overrides: Mapping[str, str] | None = None,
    sharing: Sequence[str] | None = None,
) -> Iterator[ApacheBroker]:
    """Start a broker on `folder/data` (which may hold a directory from before); stop it cleanly.

    zookeeper_address  `host:port`, with a chroot or without
    """
    port = free_port() if port is None else port
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{port}"
    settings = {
        "listeners": f"PLAINTEXT://{address}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "log.dirs": str(data),
        "zookeeper.connect": zookeeper_address,
        **(overrides or {}),
    }
    command = broker_command(folder, settings, version=version, sharing=sharing)
    with LoggedProcess(command, log=folder / "kafka.log") as process:
        process.wait_for_line(READY, timeout_s=READY_TIMEOUT_S)
        yield ApacheBroker(address, data, process)
        process.stop(timeout_s=60.0)


@contextmanager
def apache_node(
    folder: Path, *, version: str = JUDGE_VERSION, overrides: Mapping[str, str] | None = None
) -> Iterator[ApacheBroker]:
    """A broker together with a ZooKeeper of its own."""
    with (
        zookeeper(folder / "zookeeper") as coordinator,
        apache_kafka(
            folder, zookeeper_address=f"{coordinator}/kafka", version=version, overrides=overrides
        ) as broker,
    ):
        yield broker


class ToolHangs(AssertionError):
    """A tool of Apache Kafka has not ended."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a command-line tool of Apache Kafka printed."""

    exit_code: int
    output: str
    errors: str


def run_tool(
    main: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    version: str = JUDGE_VERSION,
    standard_input: bytes = b"",
) -> ToolResult:
    """Run one of the `*_TOOL` classes to its end (1 to 2 s).

    raises  ToolHangs with what it printed, and the stacks of its threads
    """
    logging = folder / "log4j-tools.properties"
    logging.write_text(LOG4J_QUIET)
    command = java_command(maven.broker_libraries(version), main, arguments, heap="128m")
    command.insert(1, f"-Dlog4j.configuration=file:{logging}")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            output, errors = process.communicate(standard_input, TOOL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # Java prints the stacks of its threads.
            process.send_signal(signal.SIGQUIT)
            try:
                output, errors = process.communicate(timeout=STACKS_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                output, errors = process.communicate()
            text = f"{output.decode(errors='replace')}\n{errors.decode(errors='replace')}"
            raise ToolHangs(f"{main} has not ended in {TOOL_TIMEOUT_S} s:\n{text}") from None
        except BaseException:
            process.kill()
            raise
    return ToolResult(
        process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")
    )


def main() -> None:
    """Fetch the jars of every version that tests use."""
    for version in (JUDGE_VERSION, "4.3.0"):
        print(maven.broker_libraries(version))


if __name__ == "__main__":
    main()
