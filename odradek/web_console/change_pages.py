"""The pages of changes: a form is posted, its preview is confirmed, and the result is logged."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import anyio.to_thread
from starlette.requests import Request

from odradek.tools.errors import ToolError
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.changes.access import plan_acl, plan_quota, plan_user
from odradek.web_console.changes.groups import plan_delete_group, plan_reset_offsets
from odradek.web_console.changes.partitions import (
    plan_delete_throttles,
    plan_elect_preferred,
    plan_reassign,
)
from odradek.web_console.changes.planned_change import LINES_MAX, PendingChanges, PlannedChange
from odradek.web_console.changes.topics import (
    plan_alter_config,
    plan_create_topic,
    plan_delete_topic,
    plan_produce,
)
from odradek.web_console.cluster import ShownCluster

Plan = Callable[[ShownCluster, PageArguments], PlannedChange]

PLANS: Final[Mapping[str, Plan]] = {
    "produce": plan_produce,
    "create-topic": plan_create_topic,
    "delete-topic": plan_delete_topic,
    "alter-config": plan_alter_config,
    "reset-offsets": plan_reset_offsets,
    "delete-group": plan_delete_group,
    "elect-preferred": plan_elect_preferred,
    "reassign": plan_reassign,
    "delete-throttles": plan_delete_throttles,
    "acl": plan_acl,
    "user": plan_user,
    "quota": plan_quota,
}
FORM_BYTES_MAX: Final = 2 << 20


class ChangeRefused(ToolError):
    """The console may not change anything, or the form does not come from one of its pages."""


class ChangePages:
    """Plans changes and makes those that are confirmed."""

    def __init__(self, *, allows_changes: bool) -> None:
        self._allows_changes = allows_changes
        self._key = secrets.token_bytes(32)
        self._pending = PendingChanges()

    def csrf_token(self, user: str) -> str:
        """What forms of a user carry, and what pages of other sites cannot know."""
        return hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()

    async def preview(self, request: Request, cluster: ShownCluster) -> dict[str, Any]:
        """What a posted form would change.

        raises  ToolError
        """
        form = await self._form(request)
        plan = PLANS.get(request.path_params["kind"])
        if plan is None:
            raise PageArgumentError(f"a change is one of {', '.join(PLANS)}")
        change = await anyio.to_thread.run_sync(plan, cluster, form)
        token = self._pending.add(request.scope["user"], cluster.name, change, _now_ms())
        return {
            "title": change.title,
            "lines": [line._asdict() for line in change.lines[:LINES_MAX]],
            "lines_count": len(change.lines),
            "warning": change.warning,
            "typed": change.typed,
            "back": change.back,
            "token": token,
        }

    async def confirm(self, request: Request, cluster: ShownCluster) -> dict[str, Any]:
        """Make the change of a preview.

        raises  ToolError
        """
        form = await self._form(request)
        user = request.scope["user"]
        change = self._pending.take(form.required("token"), user, cluster.name, _now_ms())
        if change.typed and form.text("typed") != change.typed:
            raise PageArgumentError(f"'{change.typed}' has to be typed to confirm it")
        result = "done"
        try:
            lines = await anyio.to_thread.run_sync(_apply, cluster, change)
        except ToolError as error:
            result = str(error)
            raise
        finally:
            cluster.forget()
            client = request.client.host if request.client else ""
            _log(user, client, cluster.name, change, result)
        return {"title": change.title, "results": list(lines), "back": change.back}

    async def _form(self, request: Request) -> PageArguments:
        if not self._allows_changes:
            raise ChangeRefused("the console was started without --allow-changes")
        size = request.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > FORM_BYTES_MAX:
            raise ChangeRefused(f"a form has at most {FORM_BYTES_MAX} bytes, and says how many")
        async with request.form(max_files=0, max_fields=50, max_part_size=FORM_BYTES_MAX) as form:
            values = {name: value for name, value in form.items() if isinstance(value, str)}
        token = self.csrf_token(request.scope["user"])
        # As bytes: a text that is not ASCII cannot be compared.
        if not hmac.compare_digest(values.pop("csrf", "").encode(), token.encode()):
            raise ChangeRefused("the form is not one of this console: load its page again")
        return PageArguments(values)


def _apply(cluster: ShownCluster, change: PlannedChange) -> Sequence[str]:
    """On a new connection, which is not closed for idleness: a change is never sent twice."""
    with cluster.client() as client:
        return change.apply(client)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _log(user: str, client: str, cluster: str, change: PlannedChange, result: str) -> None:
    """A line of JSON on stderr."""
    row = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "user": user,
        "from": client,
        "cluster": cluster,
        "change": change.kind,
        **{"what": change.log},
        "result": result,
    }
    print(json.dumps(row), file=sys.stderr, flush=True)
