"""Test doubles of the platform layer, for our tests and for those of programs that embed a broker.

`MemoryFileSystem` (crashes, fails and fills up like a real disk), `VirtualClock`,
`SeededRandomness`.
"""
