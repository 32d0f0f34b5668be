"""Records the output of Apache's tools for `cluster_conversations/`, with a cluster of Apache's.

`python -m tests.odradek.cluster_conversations [NAME...]`
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.odradek.cluster_tools import NAMES, TestCluster, play, recorded
from tests.odradek.console_tools import ApacheTools
from tests.odradek.topics_tools import LOG4J_SILENT
from tests.support.apache_cluster import apache_cluster


def main() -> None:
    """Record the conversations that are named, or all."""
    with (
        tempfile.TemporaryDirectory() as name,
        apache_cluster(Path(name)) as cluster,
        ApacheTools(Path(name), log4j=LOG4J_SILENT) as tool,
    ):
        for conversation in sys.argv[1:] or NAMES:
            at = TestCluster(cluster.bootstrap, cluster.zookeeper, cluster.folder)
            recorded(conversation).write_text(play(tool, at, conversation, Path(name)))


if __name__ == "__main__":
    main()
