"""Handlers and codecs that a broker of a cluster loads before it is asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.broker.handlers.shared.table import FIRST_REQUESTS, HANDLERS
from odradek.broker.server.call import LoadedApi
from odradek.protocol.messages.metadata import MetadataRequest
from tests.support.node_here import NodeHere, node_here

VERSION = 12


@pytest.fixture
def here(tmp_path: Path) -> Iterator[NodeHere]:
    with node_here(tmp_path) as node:
        yield node


def test_every_prepared_version_is_served() -> None:
    served = {api.key: range(api.min_version, api.max_version + 1) for api in HANDLERS}
    for api_key, versions in FIRST_REQUESTS:
        assert versions
        assert all(version in served[api_key] for version in versions)


def test_request_that_was_prepared_for_generates_no_codec(
    here: NodeHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[tuple[str, int]] = []
    prepare = LoadedApi.prepare

    def note(loaded: LoadedApi, version: int) -> None:
        prepared.append((loaded.name, version))
        prepare(loaded, version)

    monkeypatch.setattr(LoadedApi, "prepare", note)
    for _ in here.server.dispatcher.prepare_first_requests():
        pass
    assert ("METADATA", VERSION) in prepared
    count = len(prepared)
    here.call(here.caller(), MetadataRequest(topics=None), VERSION)
    assert len(prepared) == count
