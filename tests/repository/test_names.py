"""What files and classes are called, and that every public name has a user."""

from __future__ import annotations

import ast
from typing import Final

from tests.repository.dead_names import dead_names
from tests.repository.sources import Source, everything, product

SAYS_NOTHING: Final = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
FILES_NOT_YET: Final = {"pipeline/spec/common.py"}
MANAGERS: Final = {"storage/directories/log_manager.py"}
"""Kafka's LogManager."""

WITHOUT_USER: Final = {
    "odradek/command.py:main": "the command's entry point (pyproject.toml)",
    "protocol/messages/": "declarations are found by their API key (`protocol.api_keys`)",
    "controller/controller.py:Controller.alter_isr": "AlterPartition, when brokers replicate",
    "controller/controller.py:Controller.shut_down_broker": "ControlledShutdown, likewise",
    "controller/controller.py:Controller.elect_preferred": "ElectLeaders, likewise",
    "controller/coordination/tree.py:Tree.expired_sessions": "when the tree serves other processes",
    "protocol/gathered.py:Gathered.add_slice": "called by generated encoders",
    "protocol/records/control.py:build_end_marker": "WriteTxnMarkers, when transactions are served",
    "protocol/stored/": "record types and versions of Kafka's stored formats",
    "pipeline/progress.py:Progress.onQueryStarted": "called by Spark",
    "pipeline/progress.py:Progress.onQueryProgress": "called by Spark",
    "pipeline/progress.py:Progress.onQueryIdle": "called by Spark",
    "pipeline/progress.py:Progress.onQueryTerminated": "called by Spark",
    "odradek/tools/console/standard_input.py:_Waiting.readable": "called by io.BufferedReader",
    "odradek/tools/console/standard_input.py:_Waiting.readinto": "called by io.BufferedReader",
}
"""A folder, or `path:name` -> why no product code refers to it."""
TEST_DOUBLES: Final = "runtime/testing/"
"""Public, but imported by tests only: its references do not count, nor must it have a user."""
WITHOUT_USER_NOT_YET: Final = frozenset(
    {
        "broker/compaction/compaction.py:Compaction.run_now",
        "broker/compaction/compaction.py:Compaction.uncleanable",
        "broker/group/limits.py:Memory.unjoined_count",
        "broker/group/classic/state.py:NEXT_STATES",
        "runtime/slicing.py:TimeSlice.pause_if_over",
        "broker/purgatory.py:Purgatory.is_watched",
        "broker/replication/leader.py:PartitionLeader.on_in_sync_changed",
        "broker/replication/partitions.py:Partitions.topic_of",
        "broker/server/connection_quotas.py:ConnectionQuotas.of_host",
        "broker/server/socket_server.py:SocketServer.held_frame_bytes",
        "broker/server/socket_server.py:SocketServer.connection_count",
        "broker/settings/broker_settings.py:BrokerSettings.of_listener",
        "broker/settings/rules.py:rule_text",
        "controller/image.py:Image.topic_by_id",
        "controller/membership/registration.py:next_broker_id",
        "controller/znodes/config_znodes.py:decode_isr_change",
        "controller/znodes/config_znodes.py:decode_preferred_election",
        "controller/znodes/config_znodes.py:decode_reassignment",
        "controller/znodes/config_znodes.py:desanitize",
        "controller/znodes/config_znodes.py:encode_isr_change",
        "controller/znodes/config_znodes.py:encode_preferred_election",
        "controller/znodes/config_znodes.py:encode_reassignment",
        "controller/znodes/config_znodes.py:sanitize",
        "controller/znodes/zk_data.py:FEATURES_DISABLED",
        "controller/znodes/zk_data.py:ISR_CHANGE_PREFIX",
        "controller/znodes/zk_data.py:PREFERRED_ELECTION",
        "controller/znodes/zk_data.py:REASSIGN_PARTITIONS",
        "odradek/tools/console/producer.py:VARINT_BYTES_MAX",
        "pipeline/demo/findings.py:Verdict.recall",
        "pipeline/io.py:KAFKA_COLUMNS",
        "protocol/headers.py:encode_response_header",
        "protocol/headers.py:pack_response_0",
        "protocol/headers.py:pack_response_1",
        "protocol/records/batch.py:RecordBatch.has_producer_id",
        "protocol/records/batch.py:crc_of",
        "protocol/records/compression.py:CODEC_NAMES",
        "protocol/records/legacy.py:convert_legacy_set",
        "protocol/records/timestamps.py:max_timestamp_record",
        "protocol/schema.py:UINT32",
        "runtime/clock.py:VirtualClock",
        "runtime/files.py:File.write_at",
        "runtime/randomness.py:SeededRng",
        "runtime/system_files.py:SystemFile.write_at",
        "storage/checkpoints/checkpoint_file.py:CHECKPOINT_FILES",
        "storage/checkpoints/checkpoint_file.py:write_offsets",
        "storage/compaction/candidates.py:LogFacts.needs_times",
        "storage/log/log.py:Log.append_as_follower",
        "storage/log/log_append.py:append_as_follower",
        "storage/directories/log_manager.py:LogManager.get_future",
        "storage/log/plan.py:RetentionReason",
        "storage/producers/producer_state.py:ProducerStates.first_undecided_offset",
        "storage/producers/producer_state.py:ProducerStates.has_ongoing_transaction",
        "storage/producers/producer_state.py:ProducerStates.oldest_transaction_timestamp_ms",
        "storage/directories/upkeep.py:Upkeep.next_removal_ms",
    }
)


def test_file_names_say_what_is_in_the_file() -> None:
    offenders = {
        file.name
        for file in everything()
        if file.name.split("/")[-1].removesuffix(".py") in SAYS_NOTHING
    }
    assert not offenders - FILES_NOT_YET


def test_no_class_is_called_a_manager() -> None:
    offenders = [
        f"{file.name}: {node.name}"
        for file in product()
        for node in file.nodes
        if isinstance(node, ast.ClassDef) and node.name.endswith("Manager")
        if file.name not in MANAGERS
    ]
    assert not offenders


def test_every_public_name_has_a_user() -> None:
    files = [file for file in product() if not file.is_in(TEST_DOUBLES)]
    dead = {f"{one.path}:{one.name}" for one in dead_names(files, WITHOUT_USER)}
    offenders = sorted(dead - WITHOUT_USER_NOT_YET)
    assert not offenders


def test_search_for_names_without_a_user_finds_what_only_such_names_use() -> None:
    class Given(Source):
        text = "def used(): ...\ndef first(): second()\ndef second(): first()\nused()\n"

    found = dead_names([Given("given.py")], {})
    assert [(one.line, one.name) for one in found] == [(2, "first"), (3, "second")]
