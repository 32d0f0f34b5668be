"""Command lines of the tools that measure and verify clients, and what Apache Kafka 3.9.2 prints.

`client_tools_conversation.txt` has one command line per line: the name of the tool, arguments, and
`@` for a prefix of topics.  Figures that differ from run to run are `9` in both outputs.
`python -m tests.odradek.client_tools_conversation` records the output of Apache's tools again.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.odradek.console_tools import Tool, stderr_lines
from tests.odradek.topics_tools import as_kafka_exits
from tests.support.apache import ToolResult, apache_node, run_tool

COMMAND_LINES = Path(__file__).with_name("client_tools_conversation.txt")
RECORDED = Path(__file__).with_name("client_tools_conversation_3_9_2.txt")
MAIN_CLASSES = {
    "producer-perf-test": "ProducerPerformance",
    "consumer-perf-test": "ConsumerPerformance",
    "e2e-latency": "EndToEndLatency",
    "verifiable-producer": "VerifiableProducer",
    "verifiable-consumer": "VerifiableConsumer",
}
FIGURE = re.compile(r"\d+(?=(?:\.\d+)?(?:[ ),]|$))(\.\d+)?")
REPORT = re.compile(r"(\d+ records sent)(.*)")
EVENT_FIGURE = re.compile(r'("timestamp"|"avg_throughput"):[\d.]+')
TIME = re.compile(r"\b(\d\d)?\d\d[/-]\d+[/-]\d+ (at )?\d\d:\d\d:\d\d[:.]\d{3}")
CONSUMED = re.compile(r"(TIME, TIME, [\d.]+, )([\d.]+)(, \d+, )(.*)")
LATENCY = re.compile(r"(\d+\t|Avg latency: |Percentiles: )(.*)")
USAGE_ERROR = re.compile(r"(?:\A|\n)([\w-]+): *error:(.*?)(?:\n\n.*)?\Z", re.DOTALL)


def as_figure(match: re.Match[str]) -> str:
    """A number without its value: `9` with as many decimals."""
    decimals = match[1] or ""
    return "9" + re.sub(r"\d", "9", decimals)


def output_line(line: str) -> str:
    """A line on stdout without what differs from run to run."""
    if line.startswith("{"):
        return EVENT_FIGURE.sub(r"\1:9", line)
    line = TIME.sub("TIME", line)
    consumed = CONSUMED.fullmatch(line)
    if consumed is not None:
        return f"{consumed[1]}9.9999{consumed[3]}{FIGURE.sub(as_figure, consumed[4])}"
    latency = LATENCY.fullmatch(line)
    if latency is not None:
        return latency[1] + re.sub(r"\b[\d.E-]+(?=$| ms|,)", "9", latency[2])
    report = REPORT.fullmatch(line)
    if report is not None:
        return report[1] + FIGURE.sub(as_figure, report[2])
    return line


def outcome(result: ToolResult) -> list[str]:
    """What two tools are compared by: lines on stdout, on stderr, and the exit code."""
    lines = result.output.splitlines()
    if result.output.startswith("usage: "):
        # The text of the help is each tool's own.
        lines = [" ".join(lines[0].split()[:2])]
    shown = [f"  {output_line(line)}" for line in lines]
    wrong = USAGE_ERROR.search(result.errors)
    if wrong is not None:
        # argparse4j breaks lines anywhere, and stretches them with blanks.
        shown.append(f"  ! {wrong[1]}: error: {''.join(wrong[2].split())}")
    else:
        shown += [f"  ! {line}" for line in stderr_lines(result.errors)]
    return [*shown, f"  exit code {as_kafka_exits(result.exit_code)}"]


def play(tool: Tool, address: str, prefix: str) -> str:
    """Run all command lines; returns each with its outcome, without prefix and address."""
    conversation = []
    for line in COMMAND_LINES.read_text("utf-8").splitlines():
        conversation.append(line if line.startswith("#") else f"$ {line}")
        if not line.startswith("#"):
            name, *arguments = shlex.split(line.replace("@", prefix).replace("ADDR", address))
            conversation += outcome(tool(name, arguments, ""))
    return "\n".join(conversation).replace(prefix, "@").replace(address, "ADDR") + "\n"


def main() -> None:
    """Record the output of Apache's tools with Apache's broker."""
    with tempfile.TemporaryDirectory() as name, apache_node(Path(name)) as broker:

        def apache_tool(tool: str, arguments: Sequence[str], _: str) -> ToolResult:
            main_class = f"org.apache.kafka.tools.{MAIN_CLASSES[tool]}"
            return run_tool(main_class, arguments, folder=Path(name))

        RECORDED.write_text(play(apache_tool, broker.address, "zz1zz"), "utf-8")


if __name__ == "__main__":
    main()
