"""Apache Kafka's broker as a process that a test stops, kills and starts again."""

from __future__ import annotations

from tests.support.apache import READY, broker_command
from tests.support.broker_process import BrokerProcess


class ApacheProcess(BrokerProcess):
    """With the folders, the port and the life of our broker; `zookeeper.connect` is a must."""

    READY = READY
    STOPPED = 143

    def command(self) -> list[str]:
        """The command line of the broker."""
        settings = {"advertised.listeners": f"PLAINTEXT://{self.address}", **self.settings()}
        return broker_command(self.folder, settings)
