"""`odradek pipeline`: check and run pipeline files.

odradek pipeline run FILE [--master URL] [--jars FOLDER] [--mode MODE]
odradek pipeline check FILE
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.spec.load import SpecError, load
from pipeline.spec.model import Pipeline

FAILED = 1
BAD_FILE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code: 1 the pipeline failed, 2 file or command line are wrong."""
    parsed = _parser().parse_args(arguments)
    path: Path = parsed.file
    try:
        pipeline = load(path)
    except (SpecError, OSError) as error:
        print(error, file=sys.stderr)
        return BAD_FILE
    if parsed.command == "check":
        steps = len(pipeline.steps)
        print(
            f"{path}: {len(pipeline.sources)} sources, {steps} steps, {len(pipeline.sinks)} sinks"
        )
        return 0
    if parsed.mode is not None:
        head = pipeline.pipeline.model_copy(update={"mode": parsed.mode})
        pipeline = pipeline.model_copy(update={"pipeline": head})
    return _run(pipeline, path, parsed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="odradek pipeline", description="Pipelines on Spark.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a pipeline file")
    run.add_argument("file", type=Path)
    run.add_argument("--master", help="spark://HOST:PORT or local[N]; default: what Spark is told")
    run.add_argument(
        "--jars", type=Path, help="a folder of connector jars, instead of fetching them"
    )
    run.add_argument("--mode", choices=["stream", "available_now", "batch"])
    check = commands.add_parser("check", help="say what is wrong with a pipeline file")
    check.add_argument("file", type=Path)
    return parser


def _run(pipeline: Pipeline, path: Path, parsed: argparse.Namespace) -> int:
    try:
        from pyspark.errors import PySparkException

        from pipeline.jobs import run
        from pipeline.session import NoConnector, open_session
    except ImportError as error:
        print(f"{error}; pipelines need: pip install 'odradek[pipeline]'", file=sys.stderr)
        return FAILED
    folder = path.resolve().parent
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        spark = open_session(
            pipeline.pipeline.name,
            needs=run.needs(pipeline),
            master=parsed.master,
            jars=parsed.jars,
            settings=pipeline.pipeline.spark,
        )
        built = run.build(spark, pipeline, folder)
        if pipeline.pipeline.mode == "batch":
            run.run_batch(pipeline, built, folder)
        else:
            run.wait(run.start_stream(pipeline, built, folder))
    except (PySparkException, NoConnector, run.WrongCheckpoint, OSError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
