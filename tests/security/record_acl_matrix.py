"""Asks Apache Kafka 3.9.2 every cell of the matrix of ACLs, and writes its responses to a file.

python -m tests.security.record_acl_matrix
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from tests.security.acl_matrix import BOOTSTRAP, SETTINGS, Matrix
from tests.support.apache import apache_kafka
from tests.support.zookeeper import zookeeper

RECORDING: Final = Path(__file__).parent.parent / "golden" / "acl_matrix.json"
CLUSTER_ACLS: Final = "/kafka-acl/Cluster/kafka-cluster"
SUPER_USERS: Final = {False: {}, True: {"super.users": "User:ANONYMOUS"}}


def bootstrap(client: KazooClient) -> None:
    """Write the first ACLs, as a broker would."""
    content = json.dumps({"version": 1, "acls": BOOTSTRAP}).encode()
    client.ensure_path(CLUSTER_ACLS)
    client.set(CLUSTER_ACLS, content)


def record(folder: Path) -> dict[str, dict[str, Any]]:
    """Row -> column -> response of Apache Kafka."""
    responses: dict[str, dict[str, Any]] = {}
    for is_super, super_users in SUPER_USERS.items():
        own = folder / str(is_super)
        own.mkdir()
        with zookeeper(own / "zookeeper") as address:
            client = KazooClient(f"{address}")
            client.start()
            client.ensure_path("/kafka")
            client.chroot = "/kafka"
            bootstrap(client)
            client.stop()
            client.close()
            with apache_kafka(
                own, zookeeper_address=f"{address}/kafka", overrides={**SETTINGS, **super_users}
            ) as broker:
                matrix = Matrix(broker.address, is_super=is_super)
                for row, columns in matrix.play().items():
                    responses.setdefault(row, {}).update(columns)
                matrix.close()
    return responses


def main() -> None:
    """Replace the recording."""
    with tempfile.TemporaryDirectory() as folder:
        responses = record(Path(folder))
    lines = [
        f"{json.dumps(row)}: {{\n"
        + ",\n".join(
            f" {json.dumps(column)}: {json.dumps(response, sort_keys=True)}"
            for column, response in columns.items()
        )
        + "}"
        for row, columns in responses.items()
    ]
    RECORDING.write_text("{" + ",\n".join(lines) + "}\n")
    print(sum(map(len, responses.values())), "cells")


if __name__ == "__main__":
    main()
