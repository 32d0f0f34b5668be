"""`python -m odradek.container.create_topics HOST:PORT`: create the topics of KAFKA_CREATE_TOPICS.

It waits until as many brokers have registered as the topics have replicas, for START_TIMEOUT
seconds (default: 600); topics that exist are left as they are.  Exit codes: 0 every topic exists;
1 one could not be created.
Source: wurstmeister/kafka-docker, create-topics.sh.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from typing import Final

from odradek.container.new_topics import NewTopic, new_topics
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tools.client import Client, ClientError
from odradek.tools.topics.command import main as topics_command

TIMEOUT_S: Final = 600.0
PAUSE_S: Final = 0.5


def main(address: str) -> int:
    """Create the topics of this environment; returns the exit code."""
    topics = new_topics(os.environ)
    text = os.environ.get("START_TIMEOUT", "")
    timeout_s = float(text) if text.isascii() and text.isdecimal() else TIMEOUT_S
    _wait_for_brokers(address, max(topic.replicas for topic in topics), timeout_s)
    codes = [topics_command(_words(address, topic)) for topic in topics]
    return max(codes)


def _wait_for_brokers(address: str, count: int, timeout_s: float) -> None:
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        try:
            with closing(Client(address)) as client:
                request = MetadataRequest(topics=[])
                response = client.any_broker(ApiKey.METADATA, request, MetadataResponse)
            if len(response.brokers) >= count:
                return
        except ClientError as error:
            print(f"odradek: {error}", file=sys.stderr)
        time.sleep(PAUSE_S)


def _words(address: str, topic: NewTopic) -> list[str]:
    words = ["--bootstrap-server", address, "--create", "--if-not-exists", "--topic", topic.name]
    words += ["--partitions", str(topic.partitions), "--replication-factor", str(topic.replicas)]
    for config in topic.configs:
        words += ["--config", config]
    return words


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
