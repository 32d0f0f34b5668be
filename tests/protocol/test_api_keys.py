"""The table of APIs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from odradek.protocol.api_keys import FIRST_FLEXIBLE_VERSION, ApiKey, is_flexible, messages_of
from odradek.protocol.schema import schema_of


def test_keys_have_no_hole() -> None:
    assert [int(key) for key in ApiKey] == list(range(len(ApiKey)))
    assert len(FIRST_FLEXIBLE_VERSION) == len(ApiKey)


@pytest.mark.parametrize("key", ApiKey)
def test_every_key_has_a_request_and_a_response_of_the_same_versions(key: ApiKey) -> None:
    request, response = messages_of(key)
    assert schema_of(request).api_key == schema_of(response).api_key == key
    assert schema_of(request).versions == schema_of(response).versions
    assert schema_of(request).flexible == schema_of(response).flexible


@pytest.mark.parametrize("key", [-1, len(ApiKey), 32767])
def test_unknown_key_has_no_messages_and_is_not_flexible(key: int) -> None:
    with pytest.raises(ValueError, match="is not a valid ApiKey"):
        messages_of(key)
    assert not is_flexible(key, 20)


def test_one_key_imports_one_module() -> None:
    program = (
        "import sys; from odradek.protocol.api_keys import messages_of; messages_of(18);"
        "print(sorted(m for m in sys.modules if m.startswith('odradek.protocol.messages.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "['odradek.protocol.messages.api_versions']"
