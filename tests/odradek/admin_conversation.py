"""Command lines of the tools that reset applications and describe client metrics and quorums.

`admin_conversation.txt` has one command line per line: the name of a tool and its arguments, `@`
for a prefix, ADDR for the address of the broker and FOLDER for the files of the scene.  `member`
lets a member join the group of the application, and `state` shows offsets and topics.
`python -m tests.odradek.admin_conversation` records the output of Apache's tools again, with
Apache's broker in ZooKeeper mode.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.odradek.console_tools import ApacheTools, Tool, stderr_lines
from tests.odradek.topics_tools import LOG4J_SILENT, as_kafka_exits
from tests.support.apache import apache_node
from tests.support.compacted import wait_until

COMMAND_LINES: Final = Path(__file__).with_suffix(".txt")
RECORDED: Final = COMMAND_LINES.with_stem(f"{COMMAND_LINES.stem}_3_9_2")
NEW_YEAR_MS: Final = 1_704_067_200_000
"""2024-01-01T00:00:00Z, the time of the first record of a partition; later ones follow hourly."""
HOUR_MS: Final = 3_600_000
TIMEOUT_S: Final = 60.0
TOPICS: Final = {
    "in": (10, 5),
    "between": (4,),
    "app-a-changelog": (1,),
    "app-b-repartition": (1,),
    "app-out": (2,),
}
"""Number of records in each partition."""
COMMITTED: Final = {("in", 0): 4, ("in", 1): 2}
JAVA_CLASS: Final = re.compile(r"^(ERROR: |)(?:[\w.$]+(?:Exception|Error): )+")
MEMBER: Final = re.compile(r"members: \[.*\]\. Make")
LIST: Final = re.compile(r"\[([^\]]*, [^\]]*)\]")
SORTED: Final = ("Topic: ", "New offset ", "Partition ")
"""Lines that Apache's tool prints in the order of a hash table."""


class Scene:
    """Topics with records, committed offsets, files, and members that join."""

    def __init__(self, address: str, prefix: str, folder: Path) -> None:
        self.address = address
        self.prefix = prefix
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self.group = f"{prefix}app"
        self._stack = ExitStack()

    def build(self) -> None:
        """Create the topics and write the files."""
        topics = [NewTopic(self.prefix + name, len(counts), 1) for name, counts in TOPICS.items()]
        for created in self.admin.create_topics(topics).values():
            created.result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 0})
        for name, counts in TOPICS.items():
            for partition, count in enumerate(counts):
                for number in range(count):
                    time_ms = NEW_YEAR_MS + number * HOUR_MS
                    producer.produce(
                        self.prefix + name, b"x", partition=partition, timestamp=time_ms
                    )
        assert producer.flush(TIMEOUT_S) == 0
        offsets = [
            TopicPartition(self.prefix + name, partition, offset)
            for (name, partition), offset in COMMITTED.items()
        ]
        row = ConsumerGroupTopicPartitions(self.group, offsets)
        self.admin.alter_consumer_group_offsets([row])[self.group].result(TIMEOUT_S)
        topic = f"{self.prefix}in"
        (self.folder / "plan.csv").write_text(f"{topic},0,7\n{topic},1,99\n")
        (self.folder / "words.csv").write_text(f"{topic},0\n")
        (self.folder / "short.csv").write_text(f"{topic},0,x\n")
        (self.folder / "empty.csv").touch()
        (self.folder / "client.properties").write_text("client.id=resetter\n")

    def join(self) -> None:
        """Let a member join the group, which stays until it is removed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": self.group,
                "client.id": "member",
                "enable.auto.commit": False,
                "log_level": 0,
                # It is removed, and must not join again.
                "session.timeout.ms": 300_000,
                "max.poll.interval.ms": 300_000,
            }
        )
        self._stack.callback(consumer.close)
        consumer.subscribe([f"{self.prefix}between"])

        def is_assigned() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_until("the member is assigned a partition", is_assigned, timeout_s=TIMEOUT_S)

    def state(self) -> list[str]:
        """Committed offsets and topics."""
        row = ConsumerGroupTopicPartitions(self.group)
        described = self.admin.list_consumer_group_offsets([row])[self.group].result(TIMEOUT_S)
        partitions = sorted(
            described.topic_partitions, key=lambda partition: (partition.topic, partition.partition)
        )
        topics = self.admin.list_topics(timeout=TIMEOUT_S).topics
        names = sorted(name for name in topics if name.startswith(self.prefix))
        return [f"{row.topic}-{row.partition}: {row.offset}" for row in partitions] + names

    def close(self) -> None:
        """Let the members leave."""
        self._stack.close()


def shown(line: str) -> str:
    """A line without what differs between the tools, or from run to run."""
    line = MEMBER.sub("members: [...]. Make", JAVA_CLASS.sub(r"\1", line))
    line = re.sub(r"[A-Za-z0-9_-]{22}(?=\.$)", "UUID", line)
    return LIST.sub(lambda match: f"[{', '.join(sorted(match[1].split(', ')))}]", line)


def error_lines(errors: str) -> list[str]:
    """The lines on stderr, without the help and without the first line of a stack trace."""
    lines: list[str] = []
    # A message may begin as an option of the help does.
    for line in map(shown, errors.splitlines()[:1] + stderr_lines(errors)[errors[:2] != "--" :]):
        if line.startswith("Option (*"):
            break
        if line and line not in (*lines, *(row.removeprefix("ERROR: ") for row in lines)):
            lines.append(line)
    return lines


def sorted_lines(lines: list[str]) -> list[str]:
    """The lines, those after one another with the same beginning of SORTED sorted."""
    ordered: list[str] = []
    run: list[str] = []
    for line in [*lines, ""]:
        if run and not (line.startswith(SORTED) and line.split()[0] == run[0].split()[0]):
            ordered += sorted(run)
            run = []
        if line.startswith(SORTED):
            run.append(line)
        else:
            ordered.append(line)
    return ordered[:-1]


def play(tool: Tool, scene: Scene) -> str:
    """Run all command lines; returns each with its outcome, without prefix, address and folder."""
    lines = []
    for line in COMMAND_LINES.read_text("utf-8").splitlines():
        lines.append(line if line.startswith("#") else f"$ {line}")
        words = line.replace("@", scene.prefix).replace("ADDR", scene.address)
        name, *arguments = shlex.split(words.replace("FOLDER", str(scene.folder)))
        if name == "state":
            lines += [f"  {row}" for row in scene.state()]
        elif name == "member":
            scene.join()
        elif name != "#":
            result = tool(name, arguments, "")
            lines += [f"  {shown(row)}" for row in sorted_lines(result.output.splitlines())]
            lines += [f"  ! {line}" for line in error_lines(result.errors)]
            lines.append(f"  exit code {as_kafka_exits(result.exit_code)}")
    text = "\n".join(lines).replace(str(scene.folder), "FOLDER").replace(scene.prefix, "@")
    return text.replace(scene.address, "ADDR") + "\n"


def main() -> None:
    """Record the output of Apache's tools with Apache's broker."""
    with tempfile.TemporaryDirectory() as name, apache_node(Path(name)) as broker:
        scene = Scene(broker.address, "zz1zz", Path(name))
        scene.build()
        with ApacheTools(Path(name), log4j=LOG4J_SILENT) as tool:
            RECORDED.write_text(play(tool, scene), "utf-8")
        scene.close()


if __name__ == "__main__":
    main()
