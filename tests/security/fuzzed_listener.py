"""A SASL listener of a node in this process, and clients that send it fuzzed frames.

The first byte of an input says how far a connection comes before the rest is sent:

    0  nowhere                            3  authenticated by PLAIN
    1  after a handshake for a mechanism  4  nowhere, and the rest is sent as it is
    2  after the first message of SCRAM   5  handshake version 0: tokens are frames

The rest is a sequence of frames, each after its size in two bytes; the broker gets it in four.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.attack.fuzz import corpus, mutate
from tests.security.secured import MODULES, jaas
from tests.support.node_here import NodeHere, framed

STAGES: Final = 6
AS_IT_IS: Final = 4
FRAMES_MAX: Final = 64
HANG_S: Final = 60.0
CUT_BYTES: Final = 60_000
PASSWORD: Final = "fuzzed-password"
TOKENS: Final = (
    b"\0alice\0" + PASSWORD.encode(),
    b"\0alice\0x",
    b"n,,n=alice,r=nonce",
    b"n,,n=al=2Cice,r=nonce,tokenauth=true",
    b"y,a=alice,n=alice,r=nonce,x=y",
    b"p=tls-unique,,n=alice,r=nonce",
    b"c=biws,r=nonce,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ.\x01\x01",
    b"n,a=alice,\x01auth=Bearer x\x01traceId=1\x01\x01",
    b"\x01",
    b"",
)


class Failure(Exception):
    """The broker has logged an exception, or has not closed a connection."""


class _Exceptions(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.records.append(record)


class FuzzedListener:
    """`frames` counts those that were sent."""

    def __init__(self, here: NodeHere) -> None:
        self.frames = 0
        self._here = here
        self._port = here.node.listeners[0].port
        self._exceptions = _Exceptions()
        logger = logging.getLogger("odradek")
        logger.addHandler(self._exceptions)
        logger.propagate = False
        plain = SaslAuthenticateRequest(auth_bytes=TOKENS[0])
        scram = SaslAuthenticateRequest(auth_bytes=TOKENS[2])
        handshakes = {
            mechanism: framed(SaslHandshakeRequest(mechanism=mechanism), 1, 1)
            for mechanism in MODULES
        }
        names = list(MODULES)
        self._mechanisms = [handshakes[name] for name in names]
        self._bare = [framed(SaslHandshakeRequest(mechanism=name), 0, 1) for name in names]
        self._after_scram = handshakes["SCRAM-SHA-256"] + framed(scram, 2, 2)
        self._authenticated = handshakes["PLAIN"] + framed(plain, 2, 2)

    def beginning(self, stage: int, choice: int) -> bytes:
        """What is sent before the fuzzed frames."""
        match stage:
            case 1:
                return self._mechanisms[choice % len(self._mechanisms)]
            case 2:
                return self._after_scram
            case 3:
                return self._authenticated
            case 5:
                return self._bare[choice % len(self._bare)]
        return b""

    def run(self, content: bytes) -> None:
        """One connection: send an input, and wait until the broker closes it.

        raises  Failure
        """
        if len(content) < 2:
            return
        stage, choice, rest = content[0] % STAGES, content[1], content[2:]
        sent = self.beginning(stage, choice)
        if stage == AS_IT_IS:
            sent += rest
            self.frames += 1
        else:
            for payload in frames_of(rest):
                sent += struct.pack(">i", len(payload)) + payload
                self.frames += 1
        self._talk(sent)
        if self._here.failures or self._exceptions.records:
            texts = [record.getMessage() for record in self._exceptions.records]
            causes = [record.exc_info for record in self._exceptions.records if record.exc_info]
            error = Failure(f"{texts} {self._here.failures}")
            self._here.failures.clear()
            self._exceptions.records.clear()
            raise error from (causes[0][1] if causes else None)

    def _talk(self, sent: bytes) -> None:
        loop = self._here.loop
        client = socket.create_connection(("127.0.0.1", self._port))
        client.setblocking(False)
        unsent = memoryview(sent)
        hangs: list[None] = []

        def end() -> None:
            loop.remove_reader(client.fileno())
            loop.remove_writer(client.fileno())
            loop.stop()

        def on_readable() -> None:
            try:
                if client.recv(1 << 18) == b"":
                    end()
            except BlockingIOError:
                pass
            except ConnectionError:
                end()

        def on_writable() -> None:
            nonlocal unsent
            try:
                unsent = unsent[client.send(unsent) :]
                if not unsent:
                    loop.remove_writer(client.fileno())
                    client.shutdown(socket.SHUT_WR)
            except BlockingIOError:
                pass
            except OSError:
                end()

        def give_up() -> None:
            hangs.append(None)
            end()

        deadline = loop.call_later(HANG_S, give_up)
        loop.add_reader(client.fileno(), on_readable)
        loop.add_writer(client.fileno(), on_writable)
        loop.run_forever()
        deadline.cancel()
        client.close()
        if hangs:
            raise Failure(f"the connection is open after {HANG_S} s")


def frames_of(content: bytes) -> Iterator[bytes]:
    """The frames of an input; the last one may be cut."""
    position = 0
    for _ in range(FRAMES_MAX):
        if position >= len(content):
            return
        size = int.from_bytes(content[position : position + 2], "big")
        yield content[position + 2 : position + 2 + size]
        position += 2 + size


def joined(stage: int, choice: int, frames: list[bytes]) -> bytes:
    """The input that has these frames."""
    cut = [frame[:CUT_BYTES] for frame in frames]
    return bytes([stage, choice]) + b"".join(len(frame).to_bytes(2, "big") + frame for frame in cut)


def seeds(random: Random) -> list[bytes]:
    """Inputs to begin with: well-formed requests of every API and version, and tokens."""
    requests = corpus(random)
    random.shuffle(requests)
    inputs = [
        joined(number % 2 * 3, number % 4, requests[number : number + 3])
        for number in range(0, len(requests), 3)
    ]
    for choice in range(len(MODULES)):
        for token in TOKENS:
            for version in (0, 1, 2):
                request: Any = SaslAuthenticateRequest(auth_bytes=token)
                inputs.append(joined(1 + choice % 2, choice, [framed(request, version, 3)[4:]]))
            inputs.append(joined(5, choice, [token, requests[choice]]))
    inputs.append(bytes([AS_IT_IS, 0]) + b"\x16\x03\x01\0\x05\1\0\0\1\0")
    inputs.append(bytes([AS_IT_IS, 0]) + b"\x7f\xff\xff\xff")
    return inputs


def mutated(random: Random, inputs: list[bytes]) -> bytes:
    """A damaged input, or one that goes on with the frames of another."""
    content, other = random.choice(inputs), random.choice(inputs)
    if random.randrange(4) == 0:
        return content + other[2:]
    return content[:2] + mutate(random, content[2:], other[2:])


@contextmanager
def fuzzed_listener(folder: Path) -> Iterator[FuzzedListener]:
    """A node whose only listener asks for SASL; its users may do nothing."""
    prefix = "listener.name.sasl_plaintext."
    modules = {
        **{name: f"{module} required;" for name, module in MODULES.items()},
        "PLAIN": jaas("PLAIN", username="alice", password=PASSWORD, user_alice=PASSWORD),
        "OAUTHBEARER": jaas("OAUTHBEARER", unsecuredLoginStringClaim_sub="broker"),
    }
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": ",".join(MODULES),
        "connections.max.reauth.ms": "3600000",
        "connection.failed.authentication.delay.ms": "0",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        **{f"{prefix}{name.lower()}.sasl.jaas.config": text for name, text in modules.items()},
    }
    here = NodeHere(folder, settings)
    here.start()
    try:
        yield FuzzedListener(here)
    finally:
        here.stop()
