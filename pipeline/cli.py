"""`odradek pipeline`: check and run pipeline files.

odradek pipeline run FILE [--set KEY=VALUE]... [--master URL] [--jars FOLDER] [--mode MODE]
                          [--metrics-port [HOST:]PORT]
odradek pipeline mirror FILE [--check] [the same]
odradek pipeline check FILE [--spark] [--jars FOLDER] [--set KEY=VALUE]...
odradek pipeline explain FILE [--jars FOLDER] [--set KEY=VALUE]...
odradek pipeline preview FILE [--rows N] [--step NAME] [--jars FOLDER] [--set KEY=VALUE]...
odradek pipeline test FILE [CASES]... [--set KEY=VALUE]...
odradek pipeline schema [--mirror]
odradek pipeline train TABLE MODEL --text COLUMN --class COLUMN
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.extras import missing_library

if TYPE_CHECKING:
    from odradek.pipeline.check.findings import Finding
    from odradek.pipeline.jobs.lifecycle import Choices
    from odradek.pipeline.spec.document import Document
    from odradek.pipeline.spec.model import PipelineSpec

FAILED = 1
BAD_FILE = 2
PORT_MAX = 65_535
ROWS_MAX = 10_000
"""Bound on the rows of a preview, which are in memory."""
MASTERS = r"local(-cluster)?(\[[0-9*, ]+\])?|spark://[^,:]+:\d+(,[^,:]+:\d+)*|yarn|k8s://.+"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 1 failure, 2 invalid file or command line."""
    parsed = build_parser().parse_args(arguments)
    try:
        # Imported here, so that --help works without the libraries of pipelines.
        from odradek.pipeline.spec.problems import SpecError

        try:
            return _main(parsed)
        except SpecError as error:
            print(error, file=sys.stderr)
            return BAD_FILE
    except ImportError as error:
        library = (error.name or str(error)).partition(".")[0]
        if library == "pipeline":
            raise
        print(missing_library(library, "pipeline"), file=sys.stderr)
        return FAILED
    except OSError as error:
        message = error if error.filename is None else f"{error.filename}: {error.strerror}"
        print(message, file=sys.stderr)
        return BAD_FILE
    except KeyboardInterrupt:
        return 0


def _main(parsed: argparse.Namespace) -> int:
    if parsed.command == "train":
        return _train(parsed)
    if parsed.command == "schema":
        return _schema(parsed)
    from odradek.pipeline.spec.document import Outside, read_document, text_of
    from odradek.pipeline.spec.hiding import hiding
    from odradek.pipeline.spec.load import pipeline_of

    outside = Outside(os.environ, parsed.set)
    document = read_document(text_of(parsed.file), parsed.file, outside)
    with hiding(document.hidden):
        if parsed.command == "test":
            return _test(parsed)
        if parsed.command == "mirror":
            return _mirror(document, parsed)
        if parsed.command == "check":
            return _check(document, parsed)
        if parsed.command in ("explain", "preview"):
            return _inspect(pipeline_of(document), parsed, [])
        from odradek.pipeline.jobs.lifecycle import run_file

        return run_file(pipeline_of(document, parsed.mode), parsed.file, _choices(parsed))


def _check(document: Document, parsed: argparse.Namespace) -> int:
    from odradek.pipeline.check.steps import analyse
    from odradek.pipeline.spec.load import pipeline_of
    from odradek.pipeline.spec.sharing import said_of, shared_queries

    pipeline = pipeline_of(document)
    _report(analyse(pipeline, parsed.file.resolve().parent).findings, document)
    if parsed.spark:
        findings: list[Finding] = []
        status = _inspect(pipeline, parsed, findings)
        if status:
            return status
        _report(findings, document)
    for query in shared_queries(pipeline):
        print(f"{parsed.file}: {said_of(query)}")
    print(f"{parsed.file}: {_counts(pipeline)}")
    return 0


def _report(findings: Iterable[Finding], document: Document) -> None:
    """Print warnings.

    raises  SpecError of the mistakes
    """
    from odradek.pipeline.check.findings import mistakes_and_warnings
    from odradek.pipeline.spec.problems import SpecError

    mistakes, warnings = mistakes_and_warnings(findings, document)
    for warning in warnings:
        print(f"WARN {warning.file}: {warning}", file=sys.stderr)
    if mistakes:
        raise SpecError(mistakes)


def _inspect(pipeline: PipelineSpec, parsed: argparse.Namespace, findings: list[Finding]) -> int:
    from functools import partial

    from odradek.pipeline.jobs import inspection

    folder = parsed.file.resolve().parent
    print_line = partial(print, flush=True)
    if parsed.command == "check":
        work = partial(inspection.check_plans, pipeline=pipeline, folder=folder, findings=findings)
    elif parsed.command == "explain":
        work = partial(inspection.explain, pipeline=pipeline, folder=folder, print_line=print_line)
    else:
        views = [*pipeline.sources, *pipeline.steps]
        if parsed.step not in (None, *views):
            message = f"--step: no source or step {parsed.step!r}; there are: {', '.join(views)}"
            print(f"{parsed.file}: {message}", file=sys.stderr)
            return BAD_FILE
        work = partial(
            inspection.preview,
            pipeline=pipeline,
            folder=folder,
            print_line=print_line,
            count=parsed.rows,
            step=parsed.step,
        )
    return inspection.inspected(
        pipeline,
        parsed.file,
        work,
        is_read=parsed.command == "preview",
        jars=parsed.jars,
        print_error=partial(print, file=sys.stderr),
    )


def _test(parsed: argparse.Namespace) -> int:
    from odradek.pipeline.spec.cases import cases_beside

    files = parsed.cases or [cases_beside(parsed.file)]
    from odradek.pipeline.cases.report import run_cases

    return run_cases(parsed.file, files, parsed.set, lambda line: print(line, flush=True))


def _schema(parsed: argparse.Namespace) -> int:
    from odradek.pipeline.spec.mirror import Mirror
    from odradek.pipeline.spec.model import PipelineSpec
    from odradek.pipeline.spec.reference import json_schema

    print(json.dumps(json_schema(Mirror if parsed.mirror else PipelineSpec), indent=2))
    return 0


def _counts(pipeline: PipelineSpec) -> str:
    counts = {
        "source": len(pipeline.sources),
        "step": len(pipeline.steps),
        "sink": len(pipeline.sinks),
    }
    return ", ".join(f"{n} {name}" if n == 1 else f"{n} {name}s" for name, n in counts.items())


def _number(text: str, most: int, what: str = "number") -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:20]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {what} from 1 to {most}")
    return int(text)


def _host_and_port(text: str) -> tuple[str, int]:
    """Parse `[HOST:]PORT`; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return "127.0.0.1", _number(text, PORT_MAX, "port")
    if re.fullmatch(r"[A-Za-z0-9._-]+|\[[A-Fa-f0-9:.]+(%[A-Za-z0-9._-]+)?\]", host) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT, HOST:PORT or [IPV6]:PORT")
    return host.strip("[]"), _number(port, PORT_MAX, "port")


def _master(text: str) -> str:
    if re.fullmatch(MASTERS, text) is None:
        allowed = "local, local[N], local[*], spark://HOST:PORT, yarn, k8s://..."
        raise argparse.ArgumentTypeError(f"{text!r} is not a master of Spark; allowed: {allowed}")
    return text


def _looking(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> list[argparse.ArgumentParser]:
    """The commands that write nothing."""
    check = commands.add_parser(
        "check", help="say what is wrong with the keys and columns of a pipeline file"
    )
    check.add_argument("file", type=Path)
    check.add_argument(
        "--spark",
        action="store_true",
        help="let Spark analyse the steps, too, on empty sources: functions, types, settings",
    )
    explain = commands.add_parser(
        "explain", help="print the columns of each step, and the plans of Spark"
    )
    explain.add_argument("file", type=Path)
    preview = commands.add_parser(
        "preview", help="read some rows and print what each step makes of them; write nothing"
    )
    preview.add_argument("file", type=Path)
    preview.add_argument(
        "--rows",
        type=lambda text: _number(text, ROWS_MAX),
        default=10,
        metavar="N",
        help="of each source; default: 10",
    )
    preview.add_argument("--step", metavar="NAME", help="print this source or step only")
    return [check, explain, preview]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="odradek pipeline", description="Pipelines on Spark.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a pipeline file")
    run.add_argument("--mode", choices=["stream", "available_now", "batch"])
    mirror = commands.add_parser("mirror", help="mirror one cluster to another, as a file says")
    mirror.add_argument("--mode", choices=["stream", "available_now"])
    mirror.add_argument("--check", action="store_true", help="say what is wrong with the file")
    for command in (run, mirror):
        command.add_argument("file", type=Path)
        command.add_argument(
            "--master",
            type=_master,
            help="spark://HOST:PORT or local[N]; default: the setting of spark-submit, or local[*]",
        )
        command.add_argument(
            "--metrics-port",
            type=_host_and_port,
            metavar="[HOST:]PORT",
            help="serve Prometheus there; without a host to this machine alone (127.0.0.1)",
        )
        command.add_argument("--progress-file", type=Path, help="add a line of JSON for each batch")
    train = commands.add_parser("train", help="train a classifier for filter steps")
    train.add_argument(
        "table", type=Path, help="labelled texts: .csv with a header, or .json lines"
    )
    train.add_argument("model", type=Path, help="a folder to be made")
    train.add_argument("--text", required=True, help="the column with the text")
    train.add_argument("--class", required=True, dest="label", help="the column with the class")
    looking = _looking(commands)
    for command in (run, mirror, *looking):
        command.add_argument(
            "--jars", type=Path, help="a folder of connector jars, instead of fetching them"
        )
    schema = commands.add_parser(
        "schema", help="print the JSON Schema of pipeline files, by which editors complete"
    )
    schema.add_argument("--mirror", action="store_true", help="that of mirror files")
    test = commands.add_parser(
        "test", help="run the cases of a pipeline file: given rows in, expected rows out"
    )
    test.add_argument("file", type=Path)
    test.add_argument(
        "cases", type=Path, nargs="*", help="files of cases; default: my.test.toml for my.toml"
    )
    for command in (run, mirror, *looking, test):
        command.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a value instead of the file's, such as sinks.out.topic=orders; repeatable",
        )
    return parser


def _choices(parsed: argparse.Namespace) -> Choices:
    from odradek.pipeline.jobs.lifecycle import Choices

    return Choices(parsed.master, parsed.jars, parsed.metrics_port, parsed.progress_file)


def _mirror(document: Document, parsed: argparse.Namespace) -> int:
    from odradek.pipeline.spec.mirror import mirror_of

    path: Path = parsed.file
    mirror = mirror_of(document)
    if parsed.check:
        print(f"{path}: {mirror.source.alias} to {mirror.target.alias}")
        return 0
    if parsed.mode is not None:
        head = mirror.mirror.model_copy(update={"mode": parsed.mode})
        mirror = mirror.model_copy(update={"mirror": head})
    from odradek.pipeline.jobs.lifecycle import mirror_file

    return mirror_file(mirror, path, _choices(parsed))


def _train(parsed: argparse.Namespace) -> int:
    if parsed.model.exists():
        print(f"{parsed.model} is there already; name another folder", file=sys.stderr)
        return BAD_FILE
    if not parsed.table.is_file():
        print(f"{parsed.table} is not a file", file=sys.stderr)
        return BAD_FILE

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from odradek.pipeline.report.causes import error_line
    from odradek.pipeline.report.failures import quieten
    from odradek.pipeline.spark.session import open_session
    from odradek.pipeline.transforms.classifier import train
    from odradek.pipeline.transforms.columns import StepInputError

    spark = open_session("train", needs=())
    quieten(spark)
    table = str(parsed.table.resolve())
    is_json = parsed.table.suffix in (".json", ".jsonl")
    try:
        rows = spark.read.json(table) if is_json else spark.read.csv(table, header=True)
        for column in (parsed.text, parsed.label):
            if column not in rows.columns:
                raise StepInputError(
                    f"no column {column!r}; it has: {', '.join(rows.columns) or 'none'}"
                )
        train(rows, parsed.text, parsed.label).save(str(parsed.model.resolve()))
    except (PySparkException, Py4JError, StepInputError) as error:
        message = str(error) if isinstance(error, StepInputError) else error_line(error)
        print(f"{parsed.table}: {message}", file=sys.stderr)
        return BAD_FILE if isinstance(error, StepInputError) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
