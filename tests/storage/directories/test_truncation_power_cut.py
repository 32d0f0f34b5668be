"""A truncation that has ended is durable: no power cut brings back what it dropped."""

from __future__ import annotations

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from tests.support.log_directories import Broker, append

KEY = ("orders", 0)


def test_batches_that_were_truncated_do_not_return_after_a_power_cut() -> None:
    """The high watermark rises again after a truncation, and its checkpoint is synced: what came
    back would be below it."""
    for seed in range(30):
        files = MemoryFileSystem(folders=("/a",))
        broker = Broker(files, ["/a"]).start()
        log = broker.create(*KEY)
        append(log, 5)
        broker.flush(log)
        broker.truncate({KEY: 2})
        append(log, 1, leader_epoch=7)
        files.crash(SeededRandomness(seed))
        loaded_log = Broker(files, ["/a"]).start().manager.get(*KEY)
        assert loaded_log is not None
        epochs = [entry.epoch for entry in loaded_log.leader_epochs.entries]
        assert (loaded_log.end_offset, epochs) in [(2, [0]), (2, [0, 7]), (3, [0, 7])], seed
