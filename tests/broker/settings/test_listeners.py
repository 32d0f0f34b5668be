import pytest

from odradek.broker.settings.listeners import (
    Listener,
    parse_counts,
    parse_listeners,
    parse_pairs,
    parse_protocol_map,
)
from odradek.broker.settings.types import InvalidValueError

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "SSL": "SSL"}


def parse(text: str, *, ports_differ: bool = True) -> tuple[Listener, ...]:
    return parse_listeners("listeners", text, PROTOCOLS, ports_differ=ports_differ)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", [("PLAINTEXT", "", 9092, "PLAINTEXT")]),
        ("plaintext://localhost:0", [("PLAINTEXT", "localhost", 0, "PLAINTEXT")]),
        ("INTERNAL://10.0.0.1:1", [("INTERNAL", "10.0.0.1", 1, "PLAINTEXT")]),
        ("SSL://[::1]:9093", [("SSL", "::1", 9093, "SSL")]),
        ("SSL://[fe80::1%eth0]:9093", [("SSL", "fe80::1%eth0", 9093, "SSL")]),
        (
            " PLAINTEXT://a:1 , SSL://b:2 ,",
            [("PLAINTEXT", "a", 1, "PLAINTEXT"), ("SSL", "b", 2, "SSL")],
        ),
    ],
)
def test_listeners_are_parsed(text: str, expected: list[tuple[str, str, int, str]]) -> None:
    assert list(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("PLAINTEXT", "NAME://host:port"),
        ("PLAINTEXT:/a:1", "NAME://host:port"),
        ("PLAINTEXT://a", "NAME://host:port"),
        ("PLAINTEXT://a:x", "NAME://host:port"),
        ("PLAINTEXT://a b:1", "NAME://host:port"),
        ("PLAINTEXT://a:-1", "at most 65535"),
        ("PLAINTEXT://a:65536", "at most 65535"),
        ("OTHER://a:1", "No security protocol for OTHER"),
        ("PLAINTEXT://a:1,plaintext://a:2", "must have a different name"),
        ("PLAINTEXT://a:1,SSL://b:1", "Port 1 may be used once"),
        ("PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1", "Port 1 may be used once"),
        ("PLAINTEXT://127.0.0.1:1,SSL://[::1]:1,INTERNAL://a:1", "Port 1 may be used once"),
    ],
)
def test_error_of_an_invalid_list_names_the_list_and_the_reason(text: str, allowed: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        parse(text)
    assert str(raised.value).startswith(f"Invalid value {text} for configuration listeners: ")
    assert allowed in raised.value.allowed


def test_port_may_be_shared_by_ipv4_and_ipv6_or_when_it_is_zero() -> None:
    assert len(parse("PLAINTEXT://127.0.0.1:1,SSL://[::1]:1")) == 2
    assert len(parse("PLAINTEXT://a:0,SSL://a:0")) == 2
    assert len(parse("PLAINTEXT://a:1,SSL://a:1", ports_differ=False)) == 2


def test_listener_is_formatted_as_it_was_given() -> None:
    for text in ("PLAINTEXT://localhost:9092", "SSL://[::1]:9093", "PLAINTEXT://:0"):
        (listener,) = parse(text)
        assert str(listener) == text


def test_protocols_are_keyed_by_upper_case_names() -> None:
    text = "client:SSL, Internal : PLAINTEXT"
    assert parse_protocol_map("key", text) == {"CLIENT": "SSL", "INTERNAL": "PLAINTEXT"}
    with pytest.raises(InvalidValueError, match="TLS is not a security protocol"):
        parse_protocol_map("key", "CLIENT:TLS")
    with pytest.raises(InvalidValueError, match="name:value"):
        parse_protocol_map("key", "CLIENT")


def test_pairs_are_split_at_the_last_colon() -> None:
    assert parse_pairs("key", "[::1]:5,a:b") == {"[::1]": "5", "a": "b"}
    assert parse_pairs("key", "") == {}


def test_counts_are_numbers_by_host() -> None:
    assert parse_counts("key", "127.0.0.1:5, host : 7") == {"127.0.0.1": 5, "host": 7}
    for text in ("a", "a:x", ":5", "a b:5", "a:1.5"):
        with pytest.raises(InvalidValueError, match="key"):
            parse_counts("key", text)
