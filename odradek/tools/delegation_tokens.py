"""`odradek delegation-tokens`: the flags, lines and exit codes of `kafka-delegation-tokens.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.  The reason is on stderr.
Differs from Kafka: --describe without an owner lists the user's own tokens, where the tool of 3.9
asks for those of no owner and lists none.
Source: Kafka 3.9's DelegationTokenCommand.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from odradek.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from odradek.tools import options as command_line
from odradek.tools.acls.bindings import parse_principal
from odradek.tools.client import Client
from odradek.tools.errors import ToolError, check
from odradek.tools.options import (
    CLIENT_FLAGS,
    INT64_MAX,
    Options,
    action_of,
    exclude,
    read_flags,
    require,
)
from odradek.tools.run_command import client_of, run_command

WHAT_IT_DOES: Final = "This tool helps to create, renew, expire, or describe delegation tokens."
ACTIONS: Final = ("create", "renew", "expire", "describe")
COLUMNS: Final = (
    *("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS"),
    *("ISSUEDATE", "EXPIRYDATE", "MAXDATE"),
)
WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)
FLAGS: Final = (*CLIENT_FLAGS, *read_flags("delegation-tokens"))
_REQUIRED: Final = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
}
_EXCLUDED: Final = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _run)


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    action = action_of(options, ACTIONS, "--create, --renew, --expire or --describe")
    require(options, "bootstrap-server", "command-config", *_REQUIRED.get(action, ()))
    exclude(options, action, _EXCLUDED[action])
    return options


def _run(options: Options) -> int:
    with client_of(options) as client:
        if options.has("create"):
            _create(client, options)
        elif options.has("renew"):
            _renew(client, options)
        elif options.has("expire"):
            _expire(client, options)
        else:
            _describe(client, options)
    return 0


def _principals(options: Options, flag: str) -> list[tuple[str, str]]:
    return [parse_principal(text.strip()) for text in options.values(flag)]


def _shown(principals: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{kind}:{name}" for kind, name in principals)


def _create(client: Client, options: Options) -> None:
    renewers = _principals(options, "renewer-principal")
    lifetime_ms = options.number_or("max-life-time-period", -1, INT64_MAX)
    print(
        f"Calling create token operation with renewers :[{_shown(renewers)}] , "
        f"max-life-time-period :{lifetime_ms}"
    )
    owners = _principals(options, "owner-principal")
    owner_type, owner = owners[0] if owners else (None, None)
    token = client.any_broker(
        CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in renewers
            ],
            max_lifetime_ms=lifetime_ms,
        ),
        CreateDelegationTokenResponse,
    )
    check(token)
    print(f"Created delegation token with tokenId : {token.token_id}")
    requester = token.token_requester_principal_type, token.token_requester_principal_name
    owner_pair = token.principal_type, token.principal_name
    times = token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms
    _print_tokens([_row(token.token_id, token.hmac, owner_pair, requester, renewers, times)])


def _row(
    token_id: str,
    hmac: bytes,
    owner: tuple[str, str],
    requester: tuple[str, str],
    renewers: Sequence[tuple[str, str]],
    times_ms: Sequence[int],
) -> Sequence[str]:
    return (
        token_id,
        base64.b64encode(hmac).decode(),
        _shown([owner]),
        _shown([requester]),
        f"[{_shown(renewers)}]",
        *map(_date, times_ms),
    )


def _date(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%Y-%m-%dT%H:%M}"


def _print_tokens(rows: Iterable[Sequence[str]]) -> None:
    for row in (COLUMNS, *rows):
        print("\n" + " ".join(f"{text:<{width}}" for text, width in zip(row, WIDTHS, strict=True)))


def _hmac(options: Options) -> tuple[str, bytes]:
    text = options.value("hmac") or ""
    try:
        return text, base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ToolError("the HMAC is not base64") from None


def _renew(client: Client, options: Options) -> None:
    text, hmac = _hmac(options)
    period_ms = options.number_or("renew-time-period", -1, INT64_MAX)
    print(f"Calling renew token operation with hmac :{text} , renew-time-period :{period_ms}")
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    _print_expiry("renew", client.any_broker(request, RenewDelegationTokenResponse))


def _expire(client: Client, options: Options) -> None:
    text, hmac = _hmac(options)
    period_ms = options.number_or("expiry-time-period", -1, INT64_MAX)
    print(f"Calling expire token operation with hmac :{text} , expire-time-period :{period_ms}")
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    _print_expiry("expire", client.any_broker(request, ExpireDelegationTokenResponse))


def _print_expiry(
    verb: str, response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse
) -> None:
    check(response)
    expiry = _date(response.expiry_timestamp_ms)
    print(f"Completed {verb} operation. New expiry date : {expiry}", end="")


def _describe(client: Client, options: Options) -> None:
    owners = _principals(options, "owner-principal")
    if owners:
        print(f"Calling describe token operation for owners: [{_shown(owners)}]")
    else:
        print("Calling describe token operation for current user.")
    response = client.any_broker(
        DescribeDelegationTokenRequest(
            owners=[
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in owners
            ]
            or None
        ),
        DescribeDelegationTokenResponse,
    )
    check(response)
    print(f"Total number of tokens : {len(response.tokens)}", end="")
    _print_tokens(
        _row(
            token.token_id,
            token.hmac,
            (token.principal_type, token.principal_name),
            (token.token_requester_principal_type, token.token_requester_principal_name),
            [(renewer.principal_type, renewer.principal_name) for renewer in token.renewers],
            (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms),
        )
        for token in response.tokens
    )
