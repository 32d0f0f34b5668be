"""`make cluster`: a ZooKeeper ensemble and brokers on this machine, from the files of a folder.

    python -m odradek.tools.cluster.ensemble FOLDER

The folder has zookeeper-N.cfg for each ZooKeeper server and server-N.properties for each broker.
ZooKeeper is Debian's package; its output goes to zookeeper.log in each dataDir.
Exit codes: 0 after SIGTERM or SIGINT; 1 when a process cannot be started or ends again at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odradek.runtime.java_properties import parse_properties
from odradek.tools.cluster.command import broker_process
from odradek.tools.cluster.supervised import (
    SupervisedProcess,
    brokers_know_each_other,
    report,
    supervise,
)

JARS: Final = ("/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar")
ZOOKEEPER_READY: Final = r"Peer state changed: (leading|following) - broadcast"
JAVA_OPTIONS: Final = (
    # As Kafka sets it; and as little memory as a small tree needs.
    "-Djute.maxbuffer=4194304",
    "-Djava.net.preferIPv4Stack=true",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xms32m",
    "-Xmx128m",
)
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def zookeeper_process(configuration: Path) -> SupervisedProcess:
    """A server of the ensemble; its number is in the name of the file."""
    number = configuration.stem.rpartition("-")[2]
    folder = Path(parse_properties(configuration.read_text())["dataDir"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "myid").write_text(f"{number}\n")
    return SupervisedProcess(
        f"ZooKeeper {number}",
        ["java", "-cp", ":".join(JARS), *JAVA_OPTIONS, MAIN_CLASS, str(configuration)],
        ready=ZOOKEEPER_READY,
        log=folder / "zookeeper.log",
    )


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0])
    servers = sorted(folder.glob("zookeeper-*.cfg"))
    brokers = sorted(folder.glob("server-*.properties"))
    missing = [jar for jar in JARS if not Path(jar).exists()]
    if missing or not servers or not brokers:
        lacking = ", ".join(missing) or f"{folder}/zookeeper-1.cfg or server-1.properties"
        report(f"{lacking} is missing")
        return 1
    listeners = [
        parse_properties(broker.read_text())["listeners"].rpartition("//")[2] for broker in brokers
    ]
    connect = parse_properties(brokers[0].read_text())["zookeeper.connect"]
    return supervise(
        lambda: (
            [zookeeper_process(server) for server in servers],
            [broker_process(broker) for broker in brokers],
        ),
        is_ready=lambda: brokers_know_each_other(listeners),
        ready_line=f"odradek cluster is ready on {','.join(listeners)}; "
        f"ZooKeeper on {connect}; settings in {folder} -- try: kcat -L -b {listeners[0]}",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
