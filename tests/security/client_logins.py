"""Client libraries that log in, write and read a record, and report what happened.

`tests/security/clients/README.md` has the command of the programs that are not Python.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from tests.support.access_tokens import unsecured
from tests.support.certificates import Certified
from tests.support.programs import (
    LOGIN_CLIENT_VERSIONS,
    Program,
    go_program,
    login_program,
    node_program,
)

with warnings.catch_warnings():
    # Its import calls a function that Python 3.11 deprecates and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as KafkaPythonPartition
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

SERVED: Final = "served"
PAUSE_S: Final = 0.1


@dataclass(frozen=True)
class Login:
    """What a client is given."""

    bootstrap: str
    topic: str
    protocol: str
    mechanism: str
    user: str
    password: str
    authority: Path | None
    certified: Certified | None
    life_ms: int
    stay_ms: int
    timeout_ms: int

    @property
    def words(self) -> str:
        """The line for a program."""
        values: dict[str, object] = {
            "bootstrap": self.bootstrap,
            "topic": self.topic,
            "protocol": self.protocol,
            "life_ms": self.life_ms,
            "stay_ms": self.stay_ms,
            "timeout_ms": self.timeout_ms,
        }
        if self.mechanism:
            values |= {"mechanism": self.mechanism, "user": self.user, "password": self.password}
        if self.authority is not None:
            values["authority"] = self.authority
        if self.certified is not None:
            values["pem"] = self.certified.pem
            values["certificate"] = self.certified.certificate_file
            values["key"] = self.certified.key_file
        return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in values.items())

    @property
    def end_s(self) -> float:
        """When the client has written long enough, on the monotonic clock."""
        return time.monotonic() + self.stay_ms / 1_000

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1_000

    def token(self) -> str:
        """A new one, without a signature."""
        now_s = time.time()
        end_s = now_s + self.life_ms / 1_000
        # A broker counts in milliseconds: a token of this one would be of the future.
        return unsecured({"sub": self.user, "iat": min(now_s, end_s) - 1, "exp": end_s})

    def context(self) -> ssl.SSLContext | None:
        """TLS for libraries that take a context."""
        if self.authority is None:
            return None
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.certified is not None:
            context.load_cert_chain(self.certified.certificate_file, self.certified.key_file)
        return context


@dataclass(frozen=True)
class Outcome:
    """What a library reports: SERVED, or the kind of the error, and its text."""

    kind: str
    text: str = ""


Library = Callable[[Login], Outcome]


# librdkafka.

SPECIFIC: Final = ("_AUTHENTICATION", "_SSL", "_UNSUPPORTED_FEATURE")
"""Errors that say more than that the connection is closed."""


def librdkafka_settings(login: Login) -> dict[str, Any]:
    """Without callbacks."""
    settings: dict[str, Any] = {
        "bootstrap.servers": login.bootstrap,
        "security.protocol": login.protocol,
        "broker.address.family": "v4",
        "log_level": 0,
        "socket.connection.setup.timeout.ms": 30_000,
    }
    if login.authority is not None:
        settings["ssl.ca.location"] = str(login.authority)
    if login.certified is not None:
        settings["ssl.certificate.location"] = str(login.certified.certificate_file)
        settings["ssl.key.location"] = str(login.certified.key_file)
    if login.mechanism:
        settings["sasl.mechanism"] = login.mechanism
        if login.mechanism != "OAUTHBEARER":
            settings |= {"sasl.username": login.user, "sasl.password": login.password}
    return settings


def confluent_kafka(login: Login) -> Outcome:
    """The most specific error that it reports, else that it is not connected."""
    errors: list[KafkaError] = []
    settings = librdkafka_settings(login) | {"error_cb": errors.append}
    if login.mechanism == "OAUTHBEARER":
        # The library takes no token that has expired: it does not read this one.
        life_s = abs(login.life_ms) / 1_000
        settings["oauth_cb"] = lambda _: (login.token(), time.time() + life_s)
    producer = Producer({**settings, "linger.ms": 0})
    end_s = login.end_s
    offset = -1
    while offset < 0 or time.monotonic() < end_s:
        error, offset = written(producer, login, errors)
        if error is not None:
            producer.purge()
            return error
        time.sleep(PAUSE_S)
    consumer = Consumer({**settings, "group.id": "none"})
    consumer.assign([ConfluentPartition(login.topic, 0, offset)])
    record = consumer.poll(login.timeout_s)
    consumer.close()
    assert record is not None
    assert record.error() is None, record.error()
    return Outcome(SERVED)


def written(
    producer: Producer, login: Login, errors: list[KafkaError]
) -> tuple[Outcome | None, int]:
    """The error of one record, or its offset."""
    offsets: list[int] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            failures.append(error)

    producer.produce(login.topic, b"\7", partition=0, on_delivery=delivered)
    deadline_s = time.monotonic() + login.timeout_s
    while not offsets and time.monotonic() < deadline_s:
        producer.poll(0.05)
        for error in [*errors, *failures]:
            if error.name() in SPECIFIC:
                return Outcome(error.name(), error.str()), -1
    if offsets:
        return None, offsets[0]
    assert errors, "nothing is delivered, and no error is reported"
    return Outcome("_TRANSPORT", errors[0].str()), -1


KCAT_KINDS: Final = (
    ("_AUTHENTICATION", re.compile("SASL authentication error|mechanism handshake failed")),
    ("_TRANSPORT", re.compile("SSL|ransport|Disconnected|brokers are down|timed out")),
)


def kcat(login: Login) -> Outcome:
    """The most specific error that it prints."""
    settings = librdkafka_settings(login) | {"message.timeout.ms": login.timeout_ms}
    if login.mechanism == "OAUTHBEARER":
        settings["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        life_s = login.life_ms // 1_000
        settings["sasl.oauthbearer.config"] = f"principal={login.user} lifeSeconds={life_s}"
    del settings["log_level"]
    words = ["kcat", "-t", login.topic, "-p", "0"]
    for name, value in settings.items():
        words += ["-X", f"{name}={value}"]
    end_s = login.end_s
    pipe = subprocess.PIPE
    with subprocess.Popen([*words, "-P"], stdin=pipe, stderr=pipe) as producer:
        assert producer.stdin is not None
        assert producer.stderr is not None
        with suppress(BrokenPipeError):
            while True:
                producer.stdin.write(b"7\n")
                producer.stdin.flush()
                if time.monotonic() >= end_s:
                    break
                time.sleep(PAUSE_S)
        with suppress(BrokenPipeError):
            producer.stdin.close()
        text = producer.stderr.read().decode(errors="replace")
    if producer.returncode != 0:
        return Outcome(next((kind for kind, form in KCAT_KINDS if form.search(text)), text), text)
    read = [*words, "-q", "-C", "-o", "-1", "-c", "1"]
    assert subprocess.check_output(read, timeout=login.timeout_s) == b"7\n"
    return Outcome(SERVED)


# The libraries of Python.


def kafka_python(login: Login) -> Outcome:
    class Tokens(KafkaPythonTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return login.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
        "ssl_context": login.context(),
        "bootstrap_timeout_ms": login.timeout_ms,
    }
    if login.mechanism:
        settings["sasl_mechanism"] = login.mechanism
        settings["sasl_plain_username"] = login.user
        settings["sasl_plain_password"] = login.password
    if login.mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    producer: Any = None
    try:
        producer = KafkaProducer(
            **settings,
            enable_idempotence=False,
            retries=0,
            max_block_ms=login.timeout_ms,
            delivery_timeout_ms=login.timeout_ms,
            request_timeout_ms=login.timeout_ms - 1,
        )
        end_s = login.end_s
        while True:
            sent = producer.send(login.topic, b"\7", partition=0).get(login.timeout_s)
            if time.monotonic() >= end_s:
                break
            time.sleep(PAUSE_S)
        consumer: Any = KafkaConsumer(**settings, consumer_timeout_ms=login.timeout_ms)
        partition = KafkaPythonPartition(login.topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, sent.offset)
        assert next(consumer).value == b"\7"
        consumer.close()
    except Exception as error:  # noqa: BLE001 - whatever the library reports
        return Outcome(innermost(error), str(error))
    finally:
        if producer is not None:
            producer.close(timeout=1)
    return Outcome(SERVED)


REPORTED: Final = re.compile(r"\[Error \d+\]|\[SSL: \w+\]")


def aio_kafka(login: Login) -> Outcome:
    """The class of its error, and what it has logged."""
    lines: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("aiokafka")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        limit_s = login.stay_ms / 1_000 + login.timeout_s
        asyncio.run(asyncio.wait_for(with_aio_kafka(login), limit_s))
    except Exception as error:  # noqa: BLE001 - whatever the library reports
        reported = [match[0] for line in lines if (match := REPORTED.search(line))]
        return Outcome(" ".join([innermost(error), *reported[:1]]), str(lines))
    finally:
        logger.removeHandler(handler)
    return Outcome(SERVED)


async def with_aio_kafka(login: Login) -> None:
    class Tokens(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return login.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
        "ssl_context": login.context(),
    }
    if login.mechanism:
        settings["sasl_mechanism"] = login.mechanism
        settings["sasl_plain_username"] = login.user
        settings["sasl_plain_password"] = login.password
    if login.mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    producer = AIOKafkaProducer(**settings)
    try:
        await producer.start()
        end_s = login.end_s
        while True:
            sent = await producer.send_and_wait(login.topic, b"\7", partition=0)
            if time.monotonic() >= end_s:
                break
            await asyncio.sleep(PAUSE_S)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(**settings)
    try:
        await consumer.start()
        partition = TopicPartition(login.topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, sent.offset)
        assert (await consumer.getone()).value == b"\7"
    finally:
        await consumer.stop()


def innermost(error: BaseException) -> str:
    """The class of the error that caused all others."""
    cause = error.__cause__ or error.__context__
    return type(error).__name__ if cause is None else innermost(cause)


# Programs.

WORDINGS: Final = (
    (re.compile("remote error: tls: .*|ERR_SSL_.*_ALERT_.*"), "TLS alert"),
    (re.compile("invalid large response size .*|broker closed the connection .*"), "EOF"),
    (re.compile("unexpected EOF"), "EOF"),
)
"""Java has two alerts for bad certificates and OpenSSL one for each fault.  Before it closes a
connection that is not of TLS, Java sends an alert that no client without TLS can read."""


def plain(kind: str) -> str:
    """A kind of error without what depends on the library of TLS that a broker has."""
    for form, text in WORDINGS:
        kind = form.sub(text, kind)
    return kind


@contextmanager
def program(command: Callable[[], list[str]], folder: Path) -> Iterator[Library]:
    """A program that stays alive for all logins."""
    words = command()
    log = folder / f"{Path(words[0]).name}-{words[-1].replace('/', '-')}.log"
    with Program(words, bootstrap="-", log=log) as running:

        def login(given: Login) -> Outcome:
            running.send(f"login {given.words}")
            (result,) = running.responses()
            return Outcome(plain(result["kind"]), result["text"])

        yield login


@contextmanager
def in_process(library: Library, _: Path) -> Iterator[Library]:
    yield library


LIBRARIES: Final[dict[str, Callable[[Path], AbstractContextManager[Library]]]] = {
    **{
        f"java-{version}": partial(program, partial(login_program, version))
        for version in LOGIN_CLIENT_VERSIONS
    },
    "confluent-kafka": partial(in_process, confluent_kafka),
    "kcat": partial(in_process, kcat),
    "kafka-python": partial(in_process, kafka_python),
    "aiokafka": partial(in_process, aio_kafka),
    "franz-go": partial(program, partial(go_program, "franz")),
    "sarama": partial(program, partial(go_program, "sarama")),
    "kafka-go": partial(program, partial(go_program, "kafkago")),
    "kafkajs": partial(program, node_program),
}
"""Opened with a folder for logs."""
GIVE_UP_ONLY_IN_TIME: Final = ("kafka-python", "kcat")
"""Libraries that go on trying after each error."""
