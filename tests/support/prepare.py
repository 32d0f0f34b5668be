"""Everything that tests fetch or build outside of Python: `python -m tests.support.prepare`.

Idempotent and quick when nothing is missing; the results are in `.tools`.
"""

from __future__ import annotations

from typing import Final

from tests.chaos import failing_syncs, java_workload
from tests.support import (
    apache,
    local_files,
    make_class_archives,
    maven,
    newest_pyspark,
    programs,
    schema_registry,
)

SPARK_VERSION: Final = "4.0.0"


def main() -> None:
    """Jars of Apache Kafka and of connectors, client programs, the newest PySpark, classes."""
    apache.main()
    programs.main()
    java_workload.java_clients()
    failing_syncs.library()
    maven.spark_connectors(SPARK_VERSION)
    local_files.archive()
    maven.mirror_client_libraries(apache.JUDGE_VERSION)
    newest_pyspark.main()
    schema_registry.program()
    make_class_archives.main()


if __name__ == "__main__":
    main()
