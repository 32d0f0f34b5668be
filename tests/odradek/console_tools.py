"""Runs the console tools: ours in processes, Apache Kafka's in one JVM."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from odradek import command
from tests.odradek.apache_tool import ApacheProgram
from tests.odradek.topics_tools import as_kafka_exits
from tests.support.apache import (
    CONSOLE_CONSUMER_TOOL,
    CONSOLE_PRODUCER_TOOL,
    DUMP_LOG_TOOL,
    JUDGE_VERSION,
    LOG4J_QUIET,
    TOPICS_TOOL,
    ToolResult,
)
from tests.support.processes import run_forked

JAVA_PROGRAM = Path(__file__).parent / "java" / "ConsoleTools.java"
TOOL_TIMEOUT_S = 90.0
PRODUCER, CONSUMER = "console-producer", "console-consumer"
MAIN_CLASSES = {
    PRODUCER: CONSOLE_PRODUCER_TOOL,
    CONSUMER: CONSOLE_CONSUMER_TOOL,
    "acls": "kafka.admin.AclCommand",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster-tool": "org.apache.kafka.tools.ClusterTool",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": DUMP_LOG_TOOL,
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "configs": "kafka.admin.ConfigCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "topics": TOPICS_TOOL,
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}

Tool = Callable[[str, Sequence[str], str], ToolResult]
"""(name, arguments, standard input) -> result."""


def our_command(name: str, arguments: Sequence[str]) -> list[str]:
    """The command line of one of our tools."""
    return [sys.executable, "-I", "-m", "odradek", name, *arguments]


def our_tool(name: str, arguments: Sequence[str], standard_input: str = "") -> ToolResult:
    """Run `odradek NAME` in a process, to its end."""
    done = run_forked([name, *arguments], standard_input.encode(), timeout_s=TOOL_TIMEOUT_S)
    return ToolResult(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def our_tool_here(name: str, arguments: Sequence[str], standard_input: str = "") -> ToolResult:
    """Run `odradek NAME` in this process, ten times as fast: for commands that print no records.

    Only in the main thread, where signal handlers can be set.
    """
    output, errors = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(standard_input.encode()))
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            exit_code = command.main([name, *arguments])
    finally:
        sys.stdin = before
    return ToolResult(exit_code, output.getvalue(), errors.getvalue())


class ApacheTools(ApacheProgram):
    """Runs Apache Kafka's tools."""

    def __init__(
        self, folder: Path, *, log4j: str = LOG4J_QUIET, version: str = JUDGE_VERSION
    ) -> None:
        log4j += "log4j.appender.stderr.Follow=true\n"
        super().__init__(folder, JAVA_PROGRAM, log4j=log4j, heap="160m", version=version)

    def __call__(self, name: str, arguments: Sequence[str], standard_input: str = "") -> ToolResult:
        """Run a tool to its exit."""
        return self.run(MAIN_CLASSES[name], arguments, standard_input)

    def run(self, main: str, arguments: Sequence[str], standard_input: str = "") -> ToolResult:
        """Run the tool of a class to its exit."""
        return self.ask({"main": main, "arguments": list(arguments), "input": standard_input})


STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] ")
CLOCK = re.compile(r"\b(CreateTime|LogAppendTime):\d+")
CLIENTS_OWN = (
    "NetworkClient)",
    "Sender)",
    "Coordinator)",
    "KafkaConsumer)",
    ".Metadata)",
    ".ClientUtils)",
    "(librdkafka)",
    "(Consumer)",
)
"""Ends of log lines of client libraries about brokers, which differ between the libraries."""
STACK = ("\tat ", "\t... ", "Caused by: ")


def play(producer: Tool, consumer: Tool, address: str, lines: Sequence[str], prefix: str) -> str:
    """Run command lines; returns each with its output and its exit code.

    lines    `p` (producer), `c` (consumer) or `t` (topics), arguments, and after <<< the standard
             input; words are quoted as for a shell
    prefix   replaces `@`, so that several runs can use one broker
    returns  a text that does not depend on prefix, time and address
    """
    conversation = []
    for line in lines:
        words, _, standard_input = line.partition(" <<< ")
        lexer = shlex.shlex(words.replace("@", prefix).replace("ADDR", address), posix=True)
        lexer.whitespace_split = True
        lexer.escape = lexer.commenters = ""
        kind, *arguments = lexer
        text = standard_input.encode().decode("unicode_escape")
        if kind == "t":
            result = our_tool("topics", ["--bootstrap-server", address, *arguments])
        elif kind == "p":
            result = producer(PRODUCER, arguments, text)
        else:
            result = consumer(CONSUMER, arguments, text)
        conversation.append(f"$ {line}")
        output = CLOCK.sub(r"\1:TIME", result.output)
        conversation += [f"  {line}" for line in output.split("\n")[:-1]]
        if not output.endswith("\n") and output:
            conversation.append(f"  {output.rpartition(chr(10))[2]}(no end of line)")
        conversation += [f"  ! {line}" for line in stderr_lines(result.errors)]
        conversation.append(f"  exit code {as_kafka_exits(result.exit_code)}")
    return "\n".join(conversation).replace(prefix, "@").replace(address, "ADDR") + "\n"


def stderr_lines(errors: str) -> list[str]:
    """The lines on stderr that both tools print: without help, times, stacks and client logs."""
    lines = []
    for line in errors.splitlines():
        if line.startswith(("Option  ", "--")):
            break
        if line.startswith(STACK) or line.endswith(CLIENTS_OWN):
            continue
        lines.append(STAMP.sub("[TIME] ", line).rstrip())
    return lines
