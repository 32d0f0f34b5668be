"""How a notification leaves: one attempt, and what has failed; the webhook."""

from __future__ import annotations

import json
import string
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final, Protocol

from odradek.tools.errors import ToolError

TIMEOUT_S: Final = 10.0
REFUSED: Final = range(400, 500)
"""Statuses after which another attempt would be refused, too, but for those of RETRIED."""
RETRIED: Final = (408, 425, 429)


class NotificationError(ToolError):
    """The address or the template cannot be used."""


class NotificationFailed(Exception):
    """An attempt has failed; the message says why, without secrets.

    is_final  another attempt would fail as well
    """

    def __init__(self, problem: str, *, is_final: bool = True) -> None:
        super().__init__(problem)
        self.is_final = is_final


class Transport(Protocol):
    """How notifications leave."""

    shown: str
    """The address without what is secret in it."""

    def send(self, fields: Mapping[str, object]) -> None:
        """One attempt, of some time-outs at most; raises  NotificationFailed."""


def fill(template: Any, texts: Mapping[str, object]) -> Any:
    """The template with `texts` in place of `$name` in its own."""
    if isinstance(template, str):
        return string.Template(template).safe_substitute(texts)
    if isinstance(template, dict):
        return {name: fill(value, texts) for name, value in template.items()}
    if isinstance(template, list):
        return [fill(value, texts) for value in template]
    return template


class WebhookTransport:
    """Posts each notification as JSON."""

    def __init__(self, url: str, shown: str, template: Any) -> None:
        """shown  neither path nor query of the address, which are its password"""
        self._url = url
        self._template = template
        self.shown = shown

    def send(self, fields: Mapping[str, object]) -> None:
        """raises  NotificationFailed"""
        content: Any = fields
        if self._template is not None:
            content = fill(self._template, {**fields, "json": json.dumps(fields)})
        request = urllib.request.Request(
            self._url,
            json.dumps(content).encode(),
            {"Content-Type": "application/json", "User-Agent": "odradek"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            error.close()
            is_final = error.code in REFUSED and error.code not in RETRIED
            raise NotificationFailed(f"status {error.code}", is_final=is_final) from None
        except (OSError, ValueError) as error:
            raise NotificationFailed(problem_of(error), is_final=False) from None


def problem_of(error: Exception) -> str:
    """What the system says of a failed connection."""
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or type(reason).__name__
