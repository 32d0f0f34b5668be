"""What is left of a log that could not be created."""

from __future__ import annotations

import pytest

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.directories.log_creation import DirectoryFull
from tests.support.log_directories import Broker, append


@pytest.mark.parametrize("seed", range(20))
def test_folder_of_a_log_that_found_no_space_is_gone_also_after_a_power_cut(seed: int) -> None:
    files = MemoryFileSystem(folders=("/a",), capacity_bytes=10_000)
    broker = Broker(files, ["/a"]).start()
    kept = broker.create("orders")
    append(kept, 1)
    broker.flush(kept)
    files.capacity_bytes = 0
    for _ in range(3):
        with pytest.raises(DirectoryFull):
            broker.create("short")
    assert broker.delete(("short", 0)) == []
    files.crash(SeededRandomness(seed))
    assert files.is_directory("/a/orders-0")
    assert not files.exists("/a/short-0")
