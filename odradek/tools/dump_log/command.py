"""`odradek dump-log`: the flags, lines and exit codes of `kafka-dump-log.sh` 3.9.

    .log         batches and records            .snapshot    state of producers
    .index       offset index                   .txnindex    aborted transactions
    .timeindex   time index                     .checkpoint  a snapshot of KRaft, without records

Files are only read, also those of a broker that runs.
Exit codes: 0 success, also when an index does not fit its log (stderr says so); 1 a file that
cannot be dumped to its end; 2 an invalid command line.
Differs from Kafka: the logs of KRaft and of remote storage are not decoded; a file that is missing
is not created.
Source: Kafka 3.9's DumpLogSegments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from odradek.storage.files.names import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TXN_INDEX
from odradek.tools import options as command_line
from odradek.tools.dump_log.index_files import IndexOptions, dump_offset_index, dump_time_index
from odradek.tools.dump_log.log_file import (
    CHECKPOINT,
    DumpFindings,
    LogOptions,
    RecordDecoder,
    dump_log,
)
from odradek.tools.dump_log.state_files import dump_producer_snapshot, dump_transaction_index
from odradek.tools.dump_log.stored_batch import DumpError
from odradek.tools.options import INT32_MAX, Options, read_flags
from odradek.tools.run_command import run_command

WHAT_IT_DOES: Final = (
    "This tool helps to parse a log file and dump its contents to the console, useful for "
    "debugging a seemingly corrupt log segment."
)
MESSAGE_BYTES_MAX: Final = 5 << 20
REFUSED: Final = ("cluster-metadata-decoder", "remote-log-metadata-decoder")
DECODERS: Final = (
    "offsets-decoder",
    "transaction-log-decoder",
    "value-decoder-class",
    "key-decoder-class",
)
"""Options that include --print-data-log."""

FLAGS: Final = (*command_line.HELP_FLAGS, *read_flags("dump-log"))


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    command_line.require(options, "files")
    return options


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    for name in REFUSED:
        if options.has(name):
            raise DumpError(f"--{name} is not served: use kafka-dump-log.sh of Apache Kafka")
    bytes_max = options.number("max-bytes")
    message_bytes_max = options.number("max-message-size")
    prints_data = any(options.has(name) for name in ("print-data-log", *DECODERS))
    log_options = LogOptions(
        prints_data or options.has("deep-iteration"),
        None,
        options.has("skip-record-metadata"),
        INT32_MAX if bytes_max is None else bytes_max,
    )
    index_options = IndexOptions(
        options.has("index-sanity-check"),
        options.has("verify-index-only"),
        MESSAGE_BYTES_MAX if message_bytes_max is None else message_bytes_max,
    )
    names = (options.value("files") or "").rstrip(",").split(",")
    _dump_files(
        names, log_options, index_options, (lambda: _decoder(options)) if prints_data else None
    )
    return 0


def _decoder(options: Options) -> RecordDecoder:
    """
    raises  DumpError, OptionsError
    """
    # Their declarations are imported only when they are needed.
    from odradek.tools.dump_log import decoders

    if options.has("offsets-decoder"):
        return decoders.decode_group_record
    if options.has("transaction-log-decoder"):
        return decoders.decode_transaction_record
    return decoders.plain_decoder(
        options.value("key-decoder-class"), options.value("value-decoder-class")
    )


def _dump_files(
    names: Sequence[str],
    log_options: LogOptions,
    index_options: IndexOptions,
    make_decoder: Callable[[], RecordDecoder] | None,
) -> None:
    findings = DumpFindings()
    for name in names:
        print(f"Dumping {name}")
        findings.begin(os.path.abspath(name))
        suffix = os.path.splitext(name)[1]
        if suffix in (LOG, CHECKPOINT):
            decode = None if make_decoder is None else make_decoder()
            dump_log(name, log_options._replace(decode=decode), findings)
        elif suffix == OFFSET_INDEX:
            dump_offset_index(name, index_options, findings)
        elif suffix == TIME_INDEX:
            dump_time_index(name, index_options, findings)
        elif suffix == SNAPSHOT:
            dump_producer_snapshot(name)
        elif suffix == TXN_INDEX:
            dump_transaction_index(name)
        else:
            print(f"Ignoring unknown file {name}", file=sys.stderr)
    for line in findings.lines():
        print(line, file=sys.stderr)
