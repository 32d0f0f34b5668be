"""Posts what a tool has noticed to a webhook, as JSON, or sends it as an e-mail.

Notifications wait in a bounded queue, and one thread sends them: at most one in RATE_S, each up to
ATTEMPTS times.  While more come than may be sent, those of the same subject replace each other, so
that the last state of everything is heard of in the end.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from odradek.bounded_files import read_file, system_error_text
from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.tools.notification_transport import (
    NotificationError,
    NotificationFailed,
    Transport,
    WebhookTransport,
)
from odradek.tools.options import Flag, Options, OptionsError

RATE_S: Final = 1.0
ATTEMPTS: Final = 5
FIRST_PAUSE_S: Final = 0.5
"""Before the second attempt; doubles with each."""
SUBJECTS_MAX: Final = 1_000
"""Subjects that wait; the oldest is dropped, and counted."""
TEMPLATE_BYTES_MAX: Final = 1 << 20
DRAIN_S: Final = 15.0
MAIL_SCHEMES: Final = ("smtp", "smtps", "smtp+starttls")


NOTIFY_FLAGS: Final = (
    Flag(
        "notify",
        "Post what changes to this address as JSON, or send it as an e-mail: "
        "smtp://host?from=a@b&to=c@d, smtps://, smtp+starttls://.  @FILE: the address is in the "
        "file, and not in the list of processes.",
        "url",
    ),
    Flag(
        "notify-template",
        "A file with the JSON to post, in whose texts $name stands for a field; of an e-mail: an "
        "object with subject and body.",
        "file",
    ),
)


def read_template(path: str) -> Any:
    """The JSON of a template, in whose texts `$name` stands for a field of a notification.

    raises  NotificationError
    """
    try:
        return parse_json(read_file(path, TEMPLATE_BYTES_MAX))
    except (OSError, UnreadableText) as error:
        reason = system_error_text(error) if isinstance(error, OSError) else f"{path}: {error}"
        raise NotificationError(f"--notify-template: {reason}") from error


def open_notifier(options: Options, report: Callable[[str], None]) -> Notifier | None:
    """The notifier of NOTIFY_FLAGS, None without --notify.

    raises  OptionsError, NotificationError
    """
    url, template = options.value("notify"), options.value("notify-template")
    if url is None:
        if template is not None:
            raise OptionsError("--notify-template needs --notify")
        return None
    if url.startswith("@"):
        try:
            url = read_file(url[1:], TEMPLATE_BYTES_MAX).decode("ascii", "replace").strip()
        except OSError as error:
            raise NotificationError(f"--notify: {system_error_text(error)}") from error
    content = None if template is None else read_template(template)
    return Notifier(url, template=content, report=report)


class Notifier:
    """Sends notifications to one address.

    report  called in the sending thread with a line about what could not be sent
    """

    def __init__(
        self,
        url: str,
        *,
        template: Any = None,
        report: Callable[[str], None],
        rate_s: float = RATE_S,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """raises  NotificationError"""
        self._transport = open_transport(url, template)
        self._report = report
        self._rate_s = rate_s
        self._first_pause_s = first_pause_s
        self._waiting: OrderedDict[str, Mapping[str, object]] = OrderedDict()
        self._dropped = 0
        self._condition = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def notify(self, subject: str, fields: Mapping[str, object]) -> None:
        """Send these fields; they replace what waits of the same subject."""
        with self._condition:
            self._waiting.pop(subject, None)
            self._waiting[subject] = fields
            if len(self._waiting) > SUBJECTS_MAX:
                self._waiting.popitem(last=False)
                self._dropped += 1
            self._condition.notify()

    def close(self) -> None:
        """Wait until everything is sent, for at most DRAIN_S; what is not is reported."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join(DRAIN_S)
        if self._thread.is_alive():
            with self._condition:
                left = len(self._waiting) + 1
            self._report(f"{left} notifications are not sent after {DRAIN_S:g} s: no response yet")

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                _, fields = self._waiting.popitem(last=False)
                dropped, self._dropped = self._dropped, 0
            if dropped:
                self._report(f"{dropped} notifications were dropped: too many wait")
            problem = self._send(fields)
            if problem is not None:
                self._report(f"no notification to {self._transport.shown}: {problem}")
            time.sleep(self._rate_s)

    def _send(self, fields: Mapping[str, object]) -> str | None:
        """Send with retries; why it could not be sent."""
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(self._first_pause_s * 2 ** (attempt - 1))
            try:
                self._transport.send(fields)
                return None
            except NotificationFailed as error:
                problem = str(error)
                if error.is_final:
                    break
        return problem


def open_transport(url: str, template: Any) -> Transport:
    """The way to an address.

    raises  NotificationError
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise NotificationError("--notify: the address cannot be read") from None
    if parts.scheme in ("http", "https") and parts.hostname:
        return WebhookTransport(url, f"{parts.scheme}://{parts.hostname}", template)
    if parts.scheme in MAIL_SCHEMES and parts.hostname:
        from odradek.tools.notification_mail import MailTransport

        return MailTransport(parts, template)
    raise NotificationError(
        "--notify: the address is not http://... or https://..., nor smtp://..., smtps://... or "
        "smtp+starttls://..."
    )
