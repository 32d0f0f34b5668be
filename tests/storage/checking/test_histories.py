"""Whatever a log has been through, it keeps its promises, after a stop and after a kill."""

from __future__ import annotations

import pytest

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.checking.directories_check import check_directories
from odradek.storage.log_config import LogConfig
from tests.storage.checking.broken_directories import DATA
from tests.storage.compaction.cleaning import clean_log
from tests.storage.compaction.workload import Workload, apply
from tests.support.log_directories import Broker
from tests.support.logs import NOW_MS

STEPS = 25
ROUNDS = 4
CONFIGS = {
    "delete": LogConfig(segment_bytes=1_500, index_interval_bytes=200),
    "compact": LogConfig(
        segment_bytes=1_500, index_interval_bytes=200, cleanup_delete=False, cleanup_compact=True
    ),
}


def pass_history(files: MemoryFileSystem, rng: SeededRandomness, config: LogConfig) -> Broker:
    """Appends, starts, flushes; cleanings, or deleted records and truncations."""
    broker = Broker(files, [DATA], now_ms=NOW_MS).start(lambda _: config)
    workload = Workload(rng)
    for number in range(ROUNDS):
        log = broker.create("orders", config=config)
        for action in workload.actions(STEPS):
            apply(log, action)
        log.advance_high_watermark(log.end_offset)
        if config.cleanup_compact:
            result = clean_log(files, log, now_ms=NOW_MS + 2_000 * number)
            broker.manager.directory_of(log).note_cleaned(log, result.end_offset)
        elif rng.below(3) == 0:
            log.advance_log_start(min(log.end_offset, log.log_start_offset + rng.below(60)))
        if rng.below(2):
            broker.flush(log)
        if rng.below(3) == 0:
            broker.stop()
            broker = Broker(files, [DATA], now_ms=NOW_MS).start(lambda _: config)
    return broker


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_history_ends_without_a_finding(kind: str, is_clean: bool, seed: int) -> None:
    files = MemoryFileSystem(folders=(DATA,))
    broker = pass_history(files, SeededRandomness(seed), CONFIGS[kind])
    if is_clean:
        broker.stop()
    else:
        broker.perform(broker.manager.directories[DATA].checkpoints())
        files.kill()
    spill = MemoryFileSystem().open("/spill", create=True)
    verdict = check_directories(files, [DATA], spill, now_ms=NOW_MS)
    texts = [finding.text for finding in verdict.findings]
    assert texts == ([] if is_clean else ["there was no clean stop"]), verdict.findings
