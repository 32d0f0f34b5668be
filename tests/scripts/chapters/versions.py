"""Which APIs are served, and what happens to those that are not."""

from __future__ import annotations

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from tests.scripts.talk import Talk, versions_of

FUTURE = 99


def play(talk: Talk) -> None:
    """ApiVersions in each version, from the future, with a bad name; versions not served."""
    for version in versions_of(ApiVersionsRequest):
        request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        talk.ask("what is served", request, version)
    for name in ("", "-wire", "a name with blanks"):
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        talk.ask(f"software name {name!r}", request, 3)
    talk.raw("ApiVersions of the future", 18, FUTURE, b"\x00")
    for key in (0, 1, 3, 19):
        talk.raw(f"version {FUTURE} of key {key}", key, FUTURE, b"\x00")
    talk.raw("a version below zero", 3, -1, b"\x00")
    for key in (93, 1000, -1):
        talk.raw(f"key {key} that is not there", key, 0, b"\x00")
    talk.raw("a Metadata request that ends too early", 3, 1, b"\x00\x00\x00\x05")
    talk.raw("a Metadata request with a huge count", 3, 1, b"\x7f\xff\xff\xff")
