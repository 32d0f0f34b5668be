"""The table of error codes."""

from __future__ import annotations

from odradek.protocol.errors import MESSAGE_MAX, BrokerError, ErrorCode


def test_error_codes_are_consecutive_numbers() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


def test_known_codes_have_their_numbers() -> None:
    for code, number in (
        (ErrorCode.UNKNOWN_SERVER_ERROR, -1),
        (ErrorCode.NONE, 0),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 6),
        (ErrorCode.UNSUPPORTED_VERSION, 35),
        (ErrorCode.UNKNOWN_PRODUCER_ID, 59),
        (ErrorCode.UNKNOWN_TOPIC_ID, 100),
        (ErrorCode.VOTER_NOT_FOUND, 127),
        (ErrorCode.CONTROLLER_ID_NOT_REGISTERED, 136),
    ):
        assert code == number


def test_broker_error_prints_its_code_and_message() -> None:
    assert str(BrokerError(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
    error = BrokerError(ErrorCode.INVALID_CONFIG, "no such key")
    assert (error.code, error.message) == (40, "no such key")
    assert str(error) == "INVALID_CONFIG: no such key"


def test_message_of_an_error_fits_into_a_string_of_the_protocol() -> None:
    error = BrokerError(ErrorCode.INVALID_CONFIG, "\U0001f600" * 100_000)
    assert error.message == "\U0001f600" * MESSAGE_MAX
    assert len(error.message.encode()) <= 0x7FFF


def test_codes_are_those_that_kio_knows() -> None:
    from kio.schema.errors import ErrorCode as Theirs

    ours = {code.name.lower(): int(code) for code in ErrorCode}
    theirs = {code.name.lower(): int(code.value) for code in Theirs}
    assert {name: ours.get(name) for name in theirs} == theirs
