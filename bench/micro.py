"""Single functions of the hot paths, in us per call: python -m bench.micro [NAME]...

Best of five times as many calls as fit in a tenth of a second, the collector switched off: what the
code costs, not what the machine's neighbours do.  `loop` is a fixed piece of Python to compare
machines with.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from bench import wire
from bench.micro_log import log_cases
from bench.micro_turn import turn_cases
from odradek.protocol.compiler import decoder, encoder, parts_encoder
from odradek.protocol.frames import BufferPool, FrameReader, ScratchBuffer
from odradek.protocol.headers import decode_request_header, encode_request_header
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records.batch import assign_offset, has_valid_crc, parse_batch

Case = Callable[[], Any]
REPEATS: Final = 5
REPEAT_S: Final = 0.1
NOW_MS: Final = 1_700_000_000_000


def microseconds(case: Case) -> float:
    """What a call takes in the best of the repeats."""
    calls, elapsed_ns = 1, 0
    while elapsed_ns < REPEAT_S * 1e9 / 4:
        calls *= 2
        elapsed_ns = _time(case, calls)
    calls = max(1, int(calls * REPEAT_S * 1e9 / elapsed_ns))
    return min(_time(case, calls) for _ in range(REPEATS)) / calls / 1000


def _time(case: Case, calls: int) -> int:
    start_ns = time.perf_counter_ns()
    for _ in range(calls):
        case()
    return time.perf_counter_ns() - start_ns


def _loop() -> int:
    total = 0
    table = {}
    for number in range(100):
        table[number & 15] = (number, total)
        total += len(table)
    return total


def _fetch_request() -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=1000 * index, partition_max_bytes=1 << 20)
        for index in range(6)
    ]
    topics = [FetchTopic(topic="a-topic-of-some-length", partitions=partitions)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=topics)


class _Slice:
    """A file slice, as far as the encoder looks at it."""

    def __len__(self) -> int:
        return 1 << 20


def _fetch_response() -> FetchResponse:
    partitions = [
        PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=5000,
            last_stable_offset=5000,
            log_start_offset=0,
            records=_Slice(),
        )
        for index in range(6)
    ]
    return FetchResponse(
        responses=[FetchableTopicResponse(topic="a-topic-of-some-length", partitions=partitions)]
    )


def _produce_request(partitions: int, batch: bytes) -> ProduceRequest:
    data = [
        PartitionProduceData(index=index, records=memoryview(batch)) for index in range(partitions)
    ]
    return ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="a-topic-of-some-length", partition_data=data)],
    )


def _produce_response() -> ProduceResponse:
    response = PartitionProduceResponse(index=0, error_code=0, base_offset=12345)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(name="a-topic-of-some-length", partition_responses=[response])
        ]
    )


Message = tuple[str, type[Any], int, Any]
"""What is measured, the class, the version and a value."""


def _codec_cases() -> Iterator[tuple[str, Case]]:
    batch = wire.batch(bytes(100), NOW_MS)
    requests: tuple[Message, ...] = (
        ("Fetch v11 request, 6 partitions", FetchRequest, 11, _fetch_request()),
        ("Fetch v12 request, 6 partitions", FetchRequest, 12, _fetch_request()),
        ("Produce v7 request, 1 partition", ProduceRequest, 7, _produce_request(1, batch)),
        ("Produce v9 request, 1 partition", ProduceRequest, 9, _produce_request(1, batch)),
        ("Produce v9 request, 6 partitions", ProduceRequest, 9, _produce_request(6, batch)),
    )
    for name, cls, version, value in requests:
        data = memoryview(encoder(cls, version)(value))
        decode: Any = decoder(cls, version)
        yield f"decode {name}", partial(decode, data, 0)
    responses: tuple[Message, ...] = (
        ("Produce v7 response, 1 partition", ProduceResponse, 7, _produce_response()),
        ("Produce v9 response, 1 partition", ProduceResponse, 9, _produce_response()),
        ("Fetch v11 response, 6 partitions", FetchResponse, 11, _fetch_response()),
    )
    for name, cls, version, value in responses:
        encode = parts_encoder(cls, version)
        yield f"encode {name}", partial(encode, value)


def _frame_cases() -> Iterator[tuple[str, Case]]:
    head = memoryview(encode_request_header(0, 7, 1, "a-client"))
    yield "decode request header 1", lambda: decode_request_header(head, 0)
    frame = len(head) + 200
    request = frame.to_bytes(4, "big") + bytes(head) + bytes(200)
    reader = FrameReader(ScratchBuffer(), BufferPool(free_bytes_max=1 << 20), 1 << 20)
    for count in (1, 8):
        received = request * count

        def split(received: bytes = received) -> None:
            # what recv_into would do; at this size the copy is some 0.05 us
            reader.target()[: len(received)] = received
            reader.received(len(received))
            reader.settle()

        yield f"split {count} small frames of one receive", split


def _check_and_number(batch: memoryview) -> None:
    has_valid_crc(parse_batch(batch, 0))
    assign_offset(batch, 7, 0)


def _batch_cases() -> Iterator[tuple[str, Case]]:
    for name, size in (("100 B", 100), ("1 KiB", 1024)):
        batch = memoryview(bytearray(wire.batch(bytes(size), NOW_MS)))
        yield f"parse a batch of one {name} record", partial(parse_batch, batch, 0)
        yield (
            f"parse, check and number a batch of one {name} record",
            partial(_check_and_number, batch),
        )


@contextmanager
def cases() -> Iterator[list[tuple[str, Case]]]:
    """All of them, in the order of a request's way; files live as long as the context."""
    pure = [("loop", _loop), *_frame_cases(), *_codec_cases(), *_batch_cases()]
    with log_cases() as stored, turn_cases() as turns:
        yield pure + stored + turns


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument("name", nargs="*", help="only cases that contain one of these words")
    names = parser.parse_args().name
    gc.disable()
    with cases() as all_cases:
        for name, case in all_cases:
            if not names or any(word in name for word in names):
                print(f"{microseconds(case):10.2f} us  {name}", flush=True)


if __name__ == "__main__":
    main()
