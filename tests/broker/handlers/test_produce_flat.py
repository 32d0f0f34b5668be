"""The short way of a produce response against the generated encoder."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.handlers.shared.produce_flat import encode_appended
from odradek.protocol.compiler import encoder
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

OFFSETS = st.integers(-1, 2**63 - 1)


@pytest.mark.parametrize("version", range(3, 14))
@given(
    name=st.text("abcXYZ.-_09", min_size=1, max_size=249),
    topic_id=st.uuids(),
    index=st.integers(0, 2**31 - 1),
    figures=st.tuples(OFFSETS, OFFSETS, OFFSETS),
)
def test_bytes_are_those_of_the_encoder(
    version: int, name: str, topic_id: UUID, index: int, figures: tuple[int, int, int]
) -> None:
    base_offset, log_append_time_ms, log_start_offset = figures
    partition = PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[partition])
    expected = encoder(ProduceResponse, version)(ProduceResponse(responses=[topic]))
    assert encode_appended(version, name, topic_id, index, *figures) == expected
