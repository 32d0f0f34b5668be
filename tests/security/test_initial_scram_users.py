"""Users of SCRAM that `odradek storage format` stores."""

from __future__ import annotations

import pytest

from odradek.tools.errors import ToolError
from odradek.tools.initial_scram_users import parse_add_scram


@pytest.mark.parametrize("fields", ["password=geheim", "name=,password=geheim"])
def test_user_without_a_name_is_refused(fields: str) -> None:
    with pytest.raises(ToolError, match="You must supply 'name' to add-scram") as error:
        parse_add_scram(f"SCRAM-SHA-512=[{fields}]")
    assert "geheim" not in str(error.value)
