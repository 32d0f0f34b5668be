"""Notifications as e-mails to an SMTP server of aiosmtpd, plain and over TLS, with and without
a password."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from odradek.tools import notifications
from odradek.tools.notifications import ATTEMPTS, Notifier
from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import odradek_broker
from tests.support.certificates import Authority
from tests.support.compacted import wait_until
from tests.support.ports import free_port

WAIT_S = 60.0
PASSWORD = "p@ss/word"
ADDRESSES = {"from": "kafka@example.com", "to": "ops@example.com,night@example.com"}


class Mailbox:
    """Keeps what it receives; a test chooses the first responses to recipients and to data."""

    def __init__(self) -> None:
        self.received: list[tuple[list[str], EmailMessage]] = []
        self.attempts = 0
        self.refusals: list[str] = []
        self.unknown = ""
        """A recipient that is refused."""

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address == self.unknown:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.attempts += 1
        if self.refusals:
            return self.refusals.pop(0)
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        self.received.append((envelope.rcpt_tos, message))
        return "250 OK"


def is_right(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
) -> AuthResult:
    """An authenticator of aiosmtpd."""
    assert isinstance(data, LoginPassword)
    return AuthResult(success=data == LoginPassword(b"ann", PASSWORD.encode()))


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Starts a server with a mailbox and options of aiosmtpd; returns its port."""
    with ExitStack() as running:

        def start(mailbox: Mailbox, **options: Any) -> int:
            port = free_port()
            controller = Controller(mailbox, hostname="127.0.0.1", port=port, **options)
            controller.start()
            running.callback(controller.stop)
            return port

        yield start


@pytest.fixture
def notify() -> Iterator[Callable[..., list[str]]]:
    """Sends one notification; returns the lines about what could not be sent, as they come."""
    notifiers: list[Notifier] = []

    def send(url: str, fields: dict[str, object], template: object = None) -> list[str]:
        lines: list[str] = []
        notifiers.append(
            Notifier(url, template=template, report=lines.append, rate_s=0.01, first_pause_s=0.01)
        )
        notifiers[-1].notify("a", fields)
        return lines

    yield send
    for notifier in notifiers:
        notifier.close()


def url_of(port: int, scheme: str = "smtp", login: str = "", **query: str) -> str:
    return f"{scheme}://{login}127.0.0.1:{port}?{urlencode({**ADDRESSES, **query})}"


def test_notification_is_an_e_mail_after_attempts_that_failed(
    serve: Callable[..., int], notify: Callable[..., list[str]]
) -> None:
    mailbox = Mailbox()
    mailbox.refusals = ["451 later", "421 busy"]
    fields: dict[str, object] = {"text": "group é\r\nBcc: x@y is ERR", "group": "é", "lag": 7}
    notify(url_of(serve(mailbox)), fields)
    ((recipients, message),) = wait_until("a mail", lambda: mailbox.received, timeout_s=WAIT_S)
    assert mailbox.attempts == 3
    assert recipients == ADDRESSES["to"].split(",")
    assert message["Subject"] == r"group é\r\nBcc: x@y is ERR"
    assert message["Bcc"] is None
    assert (message["From"], message["To"]) == (
        "kafka@example.com",
        "ops@example.com, night@example.com",
    )
    assert message["Auto-Submitted"] == "auto-generated"
    assert "group: é\nlag: 7" in message.get_content().replace("\r\n", "\n")


def test_template_has_subject_and_body(
    serve: Callable[..., int], notify: Callable[..., list[str]]
) -> None:
    mailbox = Mailbox()
    template = {"subject": "[kafka] $group", "body": "$text\n$json"}
    notify(url_of(serve(mailbox)), {"text": "it is late", "group": "g"}, template)
    ((_, message),) = wait_until("a mail", lambda: mailbox.received, timeout_s=WAIT_S)
    assert message["Subject"] == "[kafka] g"
    text, fields = message.get_content().splitlines()
    assert (text, json.loads(fields)) == ("it is late", {"text": "it is late", "group": "g"})


@pytest.mark.parametrize("template", [None, {"subject": "$text", "body": "$group\n$lag\n$json"}])
@pytest.mark.parametrize(
    ("group", "in_subject", "in_body"),
    [
        ("a\r\nlag: 0\n.\n", r"a\r\nlag: 0\n.\n", r"a\r\nlag: 0\n.\n"),
        ("a\u2028b\x85c\x0bd", r"a\u2028b\x85c\x0bd", r"a\u2028b\x85c\x0bd"),
        ("=?utf-8?q?=0ABcc:_x@y?=", r"=\?utf-8?q?=0ABcc:_x@y?=", "=?utf-8?q?=0ABcc:_x@y?="),
        ("=?utf-8?b?DQpCY2M6IHg=?=", r"=\?utf-8?b?DQpCY2M6IHg=\?=", "=?utf-8?b?DQpCY2M6IHg=?="),
    ],
)
def test_name_of_a_group_adds_neither_lines_nor_headers(
    group: str,
    in_subject: str,
    in_body: str,
    template: object,
    serve: Callable[..., int],
    notify: Callable[..., list[str]],
) -> None:
    mailbox = Mailbox()
    fields: dict[str, object] = {"text": f"{group} is late", "group": group, "lag": 7}
    notify(url_of(serve(mailbox)), fields, template)
    ((_, message),) = wait_until("a mail", lambda: mailbox.received, timeout_s=WAIT_S)
    assert message["Subject"] == f"{in_subject} is late"
    assert sorted(message.keys()) == [
        *("Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From"),
        *("MIME-Version", "Message-ID", "Subject", "To"),
    ]
    lines = message.get_content().splitlines()
    if template is None:
        assert lines == [f"{in_body} is late", "", f"group: {in_body}", "lag: 7"]
    else:
        assert lines[:2] == [in_body, "7"]
        assert [json.loads(line) for line in lines[2:]] == [fields]


def test_refused_mail_is_reported_without_the_password(
    serve: Callable[..., int], notify: Callable[..., list[str]]
) -> None:
    mailbox = Mailbox()
    mailbox.refusals = ["554 spam", *["452 full"] * ATTEMPTS]
    port = serve(mailbox)
    table = [
        (url_of(port), "status 554"),
        (url_of(port), "status 452"),
        (url_of(port, to="absent@example.com"), "status 550 for all recipients"),
        (url_of(port, to="absent@example.com,ops@example.com"), "1 recipients are refused"),
        (url_of(port, "smtp+starttls", "ann:secret@"), "the server has no STARTTLS, or no login"),
        (url_of(free_port()), "Connection refused"),
    ]
    mailbox.unknown = "absent@example.com"
    for url, reason in table:
        lines = notify(url, {"text": "late"})
        wait_until("the report", partial(len, lines), timeout_s=WAIT_S)
        scheme = url.partition(":")[0]
        assert lines == [f"no notification to {scheme}://127.0.0.1: {reason}"]
    assert mailbox.attempts == 1 + ATTEMPTS + 1


@pytest.mark.filterwarnings("ignore:Requiring AUTH")  # aiosmtpd knows of STARTTLS only
@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
def test_password_goes_over_tls_to_a_server_that_is_verified(
    serve: Callable[..., int],
    notify: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    scheme: str,
) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.issue("mail").pem)
    options: dict[str, Any] = {"authenticator": is_right, "auth_required": True}
    if scheme == "smtps":
        options |= {"ssl_context": context, "auth_require_tls": False}
    else:
        options |= {"tls_context": context, "require_starttls": True}
    mailbox = Mailbox()
    port = serve(mailbox, **options)
    untrusted = notify(url_of(port, scheme, "ann:p%40ss%2Fword@"), {"text": "late"})
    wait_until("the report", lambda: untrusted, timeout_s=WAIT_S)
    assert mailbox.attempts == 0
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.trusted))
    notify(url_of(port, scheme, "ann:p%40ss%2Fword@"), {"text": "late"})
    wait_until("a mail", lambda: mailbox.received, timeout_s=WAIT_S)
    wrong = notify(url_of(port, scheme, "ann:wrong-one@"), {"text": "late"})
    wait_until("the report", lambda: wrong, timeout_s=WAIT_S)
    assert wrong == [f"no notification to {scheme}://127.0.0.1: the login is refused"]
    assert len(mailbox.received) == 1


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("smtp://h", "needs ?from=ADDRESS&to=ADDRESS"),
        ("smtp://h?from=a@b&from=c@d&to=a@b", "with 1 of 'from' at most"),
        ("smtp://h?from=a@b&to=ops", "'ops' is not an e-mail address"),
        ("smtp://h?from=a@b&to=a%0A@b", "is not an e-mail address"),
        ("smtp://h:99999?from=a@b&to=a@b", "the port of the address is not a port"),
        ("smtp://u:secret@h?from=a@b&to=a@b", "a password needs smtps:// or smtp+starttls://"),
        ("smtp://[h?from=a@b&to=a@b", "the address cannot be read"),
        ("smtp:///?from=a@b&to=a@b", "nor smtp://..."),
    ],
)
def test_unusable_address_is_refused_without_its_password(url: str, reason: str) -> None:
    result = our_tool_here("lag", ["--bootstrap-server", "127.0.0.1:1", "--notify", url])
    assert result.exit_code == 1
    assert reason in result.errors
    assert "secret" not in result.errors


def test_template_of_a_webhook_is_refused_for_an_e_mail(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text('{"text": "$text"}')
    words = ["--notify", "smtp://h?from=a@b&to=c@d", "--notify-template", str(template)]
    result = our_tool_here("canary", ["--bootstrap-server", "127.0.0.1:1", *words])
    assert result.exit_code == 1
    assert "an object with the texts subject and body" in result.errors


@pytest.mark.client
def test_lag_sends_an_e_mail_about_a_group_that_has_stopped(
    serve: Callable[..., int], tmp_path: Path
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    mailbox = Mailbox()
    (tmp_path / "address").write_text(url_of(serve(mailbox)))
    with odradek_broker(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("slow", 1, 1)])["slow"].result(WAIT_S)
        producer = Producer({"bootstrap.servers": broker.address})
        for _ in range(50):
            producer.produce("slow", b"x")
        assert producer.flush(WAIT_S) == 0
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "slow"})
        consumer.commit(offsets=[TopicPartition("slow", 0, 2)], asynchronous=False)
        consumer.close()
        words = ["--bootstrap-server", broker.address, "--notify", f"@{tmp_path / 'address'}"]
        # Committed longer ago than the window is long: the group has stopped.
        result = our_tool_here("lag", [*words, "--interval-ms", "3600000"])
    assert result.exit_code == 0, result.errors
    ((_, message),) = mailbox.received
    assert "consumer group slow is ERR" in message["Subject"]
    assert "total_lag: 48" in message.get_content()


def test_notifications_that_wait_at_the_end_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "DRAIN_S", 0.2)
    reported: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        notifier = Notifier(url_of(silent.getsockname()[1]), report=reported.append)
        notifier.notify("a", {"text": "first"})
        connection, _ = silent.accept()
        with connection:
            notifier.notify("b", {"text": "second"})
            notifier.close()
            assert reported == ["2 notifications are not sent after 0.2 s: no response yet"]
