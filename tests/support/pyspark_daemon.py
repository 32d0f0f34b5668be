"""PySpark's daemon of Python workers, which has imported what they need before it forks them.

Spark's own path for workers is a zip of PySpark and the jar of its core.  Before each task a worker
reads the directories of both again, 6,000 entries, for 0.03 s of processor time; a forked worker
compiles modules of the zip and imports pandas, for 2 s.  Here PySpark is the installed package.
Workers run this module by `spark.python.daemon.module`; jobs that tests start as a user does have
the default.
"""

from __future__ import annotations

import gc
import runpy
import sys
from importlib import import_module

ARCHIVES = (".zip", ".jar")
MODULES = ("pandas", "pyarrow", "pyspark.worker", "pyspark.sql.pandas.serializers")

if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if not path.endswith(ARCHIVES)]
    sys.path_importer_cache.clear()
    for name in MODULES:
        import_module(name)
    # A worker collects garbage after each task.
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")
