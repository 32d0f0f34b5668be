"""`python -m odradek.container.create_topics HOST:PORT`: create the topics of KAFKA_CREATE_TOPICS.

It waits until as many brokers have registered as the topics have replicas, for START_TIMEOUT
seconds (default: 600); topics that exist are left as they are.  Exit codes: 0 every topic exists;
1 one could not be created.
Source: wurstmeister/kafka-docker, create-topics.sh.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from odradek.container.new_topics import NewTopic, new_topics
from odradek.container.ready_command import wait_for_brokers
from odradek.tools.topics.command import main as topics_command

TIMEOUT_S: Final = 600.0


def main(address: str) -> int:
    topics = new_topics(os.environ)
    text = os.environ.get("START_TIMEOUT", "")
    timeout_s = float(text) if text.isascii() and text.isdecimal() else TIMEOUT_S
    reason = wait_for_brokers(address, max(topic.replicas for topic in topics), timeout_s)
    if reason is not None:
        print(f"odradek: {reason}", file=sys.stderr)
    codes = [topics_command(_words(address, topic)) for topic in topics]
    return max(codes)


def _words(address: str, topic: NewTopic) -> list[str]:
    words = ["--bootstrap-server", address, "--create", "--if-not-exists", "--topic", topic.name]
    words += ["--partitions", str(topic.partitions), "--replication-factor", str(topic.replicas)]
    for config in topic.configs:
        words += ["--config", config]
    return words


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
