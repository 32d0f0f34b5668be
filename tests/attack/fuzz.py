"""Frames that no client sends: requests of every API and version, damaged by a seed.

Each connection sends a few frames at once and is read until it is quiet or closed.  A broker may
respond or close; it may not hang (take the frames and do neither), crash, or log an error.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from random import Random
from typing import Final

from odradek.broker.handlers.shared.table import HANDLERS
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.compiler import encoder
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.declarations import ValueMaker, versions_of
from tests.support.wire import frame

FRAMES_A_CONNECTION: Final = 20
RESPONSE_TIMEOUT_S: Final = 60.0
INTERESTING: Final = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x01",
)
SAMPLES_A_VERSION: Final = 4
HEADER_VERSION_AT: Final = 2


@dataclass(slots=True)
class Fuzzed:
    """What came of it."""

    frames: int = 0
    connections: int = 0
    closed: int = 0
    hangs: int = 0


def corpus(random: Random) -> list[bytes]:
    """Well-formed requests of every served API in every version."""
    messages = []
    for api in HANDLERS:
        if api.needs_quorum:
            continue
        request = messages_of(ApiKey(api.key))[0]
        for version in versions_of(request):
            if not api.min_version <= version <= api.max_version:
                continue
            for number in range(SAMPLES_A_VERSION):
                maker = ValueMaker(f"{random.random()} {number}", is_small=number % 2 == 0)
                header = encode_request_header(api.key, version, number, "fuzz")
                messages.append(header + encoder(request, version)(maker.message(request, version)))
    return messages


def mutate(random: Random, content: bytes, other: bytes) -> bytes:
    """One to four changes; one in ten frames stays as it is."""
    data = bytearray(content)
    for _ in range(random.choice((0, 1, 1, 1, 1, 2, 2, 3, 4, 4))):
        place = random.randrange(len(data)) if data else 0
        match random.randrange(7):
            case 0 if data:
                data[place] ^= 1 << random.randrange(8)
            case 1:
                piece = random.choice(INTERESTING)
                data[place : place + len(piece)] = piece
            case 2:
                data[place:place] = random.choice(INTERESTING)
            case 3:
                del data[place : place + random.randrange(1, 9)]
            case 4:
                data = data[:place] + other[random.randrange(len(other) + 1) :]
            case 5 if len(data) > HEADER_VERSION_AT + 2:
                struct.pack_into(">h", data, HEADER_VERSION_AT, random.randrange(-2, 20))
            case _:
                data[place:place] = random.randbytes(random.randrange(1, 40))
    return bytes(data)


def send(address: str, content: bytes, result: Fuzzed) -> None:
    """One connection: send all at once, then read to the end.

    The last response is that of a valid request at the end, or the broker closes.
    """
    host, port = address.rsplit(":", 1)
    last = frame(encode_request_header(ApiKey.API_VERSIONS, 0, LAST_ID, "fuzz"))
    result.connections += 1
    with socket.create_connection((host, int(port)), timeout=RESPONSE_TIMEOUT_S) as wire:
        try:
            wire.sendall(content + last)
            wire.shutdown(socket.SHUT_WR)
            while wire.recv(1 << 16):
                pass
        except TimeoutError:
            result.hangs += 1
            return
        except OSError:
            pass
        result.closed += 1


LAST_ID: Final = 0x7E57
assert encoder(ApiVersionsRequest, 0)(ApiVersionsRequest()) == b"", "it has no body"


def fuzz(address: str, *, frames: int, seed: int) -> Fuzzed:
    """Send that many frames."""
    random = Random(f"frames {seed}")
    messages = corpus(random)
    result = Fuzzed()
    while result.frames < frames:
        parts = [
            frame(mutate(random, random.choice(messages), random.choice(messages)))
            for _ in range(FRAMES_A_CONNECTION)
        ]
        result.frames += len(parts)
        send(address, b"".join(parts), result)
    return result
