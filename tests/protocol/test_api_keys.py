"""The table of APIs."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import odradek.protocol.messages
from odradek.broker.handlers.shared.table import HANDLERS
from odradek.protocol.api_keys import (
    FIRST_FLEXIBLE_VERSION,
    UNDECLARED,
    ApiKey,
    is_flexible,
    messages_of,
)
from odradek.protocol.schema import schema_of

DECLARED = [key for key in ApiKey if key not in UNDECLARED]
PLANNED = {
    "telemetry": (71, 72, 74),
    "share groups": (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),
}
"""API keys that are declared and not served yet."""


def test_api_keys_are_consecutive_numbers() -> None:
    assert [int(key) for key in ApiKey] == list(range(len(ApiKey)))
    assert len(FIRST_FLEXIBLE_VERSION) == len(ApiKey)


def test_declared_keys_are_those_served_and_those_planned() -> None:
    served = [api.key for api in HANDLERS]
    planned = [key for keys in PLANNED.values() for key in keys]
    assert sorted(DECLARED) == sorted([*served, *planned])


def test_every_module_of_messages_belongs_to_a_declared_key() -> None:
    modules = {module.name for module in pkgutil.iter_modules(odradek.protocol.messages.__path__)}
    assert modules == {key.name.lower() for key in DECLARED}


@pytest.mark.parametrize("key", sorted(UNDECLARED))
def test_messages_of_undeclared_key_raises_value_error(key: ApiKey) -> None:
    with pytest.raises(ValueError, match=f"the messages of {key.name} are not declared"):
        messages_of(key)


@pytest.mark.parametrize("key", DECLARED)
def test_every_declared_key_has_a_request_and_a_response_of_the_same_versions(key: ApiKey) -> None:
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
