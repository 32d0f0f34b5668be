"""Notifications as e-mails, to the address of a mail server:

    smtp://HOST[:25]?from=ADDRESS&to=ADDRESS[,ADDRESS]
    smtp+starttls://[USER:PASSWORD@]HOST[:587]?from=...&to=...
    smtps://[USER:PASSWORD@]HOST[:465]?from=...&to=...

The last two verify the certificate of the server; no password is sent without them.
"""

from __future__ import annotations

import json
import re
import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, unquote

from odradek.tools.notification_transport import (
    TIMEOUT_S,
    NotificationError,
    NotificationFailed,
    fill,
    problem_of,
)
from odradek.tools.tables import one_line

PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
RECIPIENTS_MAX: Final = 100
SUBJECT_MAX: Final = 200
_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"()\[\]]+@[A-Za-z0-9.-]+")


class MailTransport:
    """Sends each notification as an e-mail, on a connection of its own."""

    def __init__(self, parts: SplitResult, template: Any) -> None:
        """
        parts     of the address
        template  an object with the texts `subject` and `body`, or None
        raises    NotificationError, without the password
        """
        try:
            self._port = parts.port or PORTS[parts.scheme]
        except ValueError:
            raise NotificationError("--notify: the port of the address is not a port") from None
        query = parse_qs(parts.query)
        self._sender = _addresses(query, "from", 1)[0]
        self._recipients = _addresses(query, "to", RECIPIENTS_MAX)
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        if self._user and parts.scheme == "smtp":
            raise NotificationError("--notify: a password needs smtps:// or smtp+starttls://")
        is_mail = isinstance(template, dict) and template.keys() == {"subject", "body"}
        if template is not None and not (
            is_mail and all(isinstance(text, str) for text in template.values())
        ):
            raise NotificationError(
                "--notify-template: that of an e-mail is an object with the texts subject and body"
            )
        self._template = template
        self._scheme = parts.scheme
        self._host = parts.hostname or ""
        self.shown = f"{parts.scheme}://{self._host}"

    def send(self, fields: Mapping[str, object]) -> None:
        """raises  NotificationFailed"""
        try:
            with self._connected() as server:
                if self._user:
                    self._log_in(server)
                refused = server.send_message(self._message(fields))
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise NotificationFailed(
                f"status {codes[0]} for all recipients", is_final=all(code >= 500 for code in codes)
            ) from None
        except smtplib.SMTPResponseException as error:
            code = error.smtp_code
            raise NotificationFailed(f"status {code}", is_final=code >= 500) from None
        except smtplib.SMTPNotSupportedError:
            raise NotificationFailed("the server has no STARTTLS, or no login") from None
        except (OSError, ValueError) as error:
            # SMTPException is an OSError: a connection that ended, a server without SMTP.
            raise NotificationFailed(problem_of(error), is_final=False) from None
        if refused:
            raise NotificationFailed(f"{len(refused)} recipients are refused")

    def _connected(self) -> smtplib.SMTP:
        if self._scheme == "smtps":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self._host, self._port, timeout=TIMEOUT_S, context=context)
        server = smtplib.SMTP(self._host, self._port, timeout=TIMEOUT_S)
        if self._scheme == "smtp+starttls":
            try:
                server.starttls(context=ssl.create_default_context())
            except BaseException:
                server.close()
                raise
        return server

    def _log_in(self, server: smtplib.SMTP) -> None:
        """A wrong password is not tried again: servers close the connection, and the account."""
        try:
            server.login(self._user, self._password)
        except smtplib.SMTPNotSupportedError:
            raise
        except smtplib.SMTPException as error:
            is_final = not 400 <= getattr(error, "smtp_code", 500) < 500
            raise NotificationFailed("the login is refused", is_final=is_final) from None

    def _message(self, fields: Mapping[str, object]) -> EmailMessage:
        # A client has chosen the name of its group: it adds neither lines nor headers.
        texts = {name: one_line(str(value)) for name, value in fields.items()}
        subject = texts.get("text", "odradek")
        rows = (f"{name}: {text}" for name, text in texts.items() if name != "text")
        body = "\n".join([subject, "", *rows])
        if self._template is not None:
            content = fill(self._template, {**texts, "json": json.dumps(fields)})
            subject, body = content["subject"], content["body"]
        message = EmailMessage()
        message["Subject"] = _without_encoded_words(one_line(subject)[:SUBJECT_MAX])
        message["From"] = self._sender
        message["To"] = ", ".join(self._recipients)
        message["Date"] = formatdate()
        message["Message-ID"] = make_msgid(domain=self._sender.rpartition("@")[2])
        # Mail servers send no notice of absence back.
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(f"{body}\n")
        return message


def _without_encoded_words(text: str) -> str:
    """The text of a header that has none of RFC 2047: EmailMessage decodes them, and Python before
    3.11.10 and 3.12.5 sends the line breaks that are in them."""
    return text.replace("=?", r"=\?")


def _addresses(query: Mapping[str, list[str]], name: str, most: int) -> list[str]:
    """raises  NotificationError"""
    addresses = [word.strip() for text in query.get(name, []) for word in text.split(",")]
    if not 1 <= len(addresses) <= most:
        raise NotificationError(
            f"--notify: the address of a mail server needs ?from=ADDRESS&to=ADDRESS[,ADDRESS], "
            f"with {most} of '{name}' at most"
        )
    for address in addresses:
        if not address.isascii() or not _ADDRESS.fullmatch(address):
            raise NotificationError(f"--notify: '{address[:100]}' is not an e-mail address")
    return addresses
