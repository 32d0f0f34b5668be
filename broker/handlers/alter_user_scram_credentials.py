"""AlterUserScramCredentials (key 51): stores and deletes SCRAM credentials of users (KIP-554).

Served: 0.  Any broker stores them in the users' znodes; each broker learns of it by a notification.
Errors of a user: UNACCEPTABLE_CREDENTIAL (no name, or one that no znode has; no password, too few
    or too many iterations), UNSUPPORTED_SASL_MECHANISM, DUPLICATE_RESOURCE, RESOURCE_NOT_FOUND (a
    deletion), UNKNOWN_SERVER_ERROR (no controller), REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR.
Differs from Kafka: users `.` and `..` are refused with a reason, not with UNKNOWN_SERVER_ERROR.
Source: Kafka's ZkAdminManager.alterUserScramCredentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.broker.handlers.incremental_alter_configs import stored_error
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.handlers.shared.waiting import when_stored
from odradek.broker.security.acl.permission import ALTER_CLUSTER
from odradek.broker.security.sasl.scram_users import MECHANISM_TYPES, ScramUsers
from odradek.controller.znodes.dynamic_configs import USERS
from odradek.controller.znodes.sanitizer import NOT_NODES, sanitized
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.runtime.pending import Pending
from odradek.runtime.scram_credential import ITERATIONS_MAX, ITERATIONS_MIN, credential_of
from odradek.runtime.work import pause

MECHANISMS = {number: name for name, number in MECHANISM_TYPES.items()}

Item = ScramCredentialDeletion | ScramCredentialUpsertion


async def run(
    context: Context, request: AlterUserScramCredentialsRequest, *, scram_users: ScramUsers
) -> Reply | Delayed:
    """Store or refuse all that is asked for a user; the other users go on."""
    require(context, ALTER_CLUSTER)
    items_of: dict[str, list[Item]] = {}
    outcomes: dict[str, BrokerError | Pending[None]] = {}
    for item in _items(request):
        items_of.setdefault(item.name, []).append(item)
        refusal = _refusal(item)
        if refusal is not None:
            outcomes[item.name] = refusal
        await pause()
    for user, items in items_of.items():
        if user in outcomes:
            continue
        if len({item.mechanism for item in items}) < len(items):
            message = "A user credential cannot be altered twice in the same request"
            outcomes[user] = BrokerError(ErrorCode.DUPLICATE_RESOURCE, message)
        else:
            outcomes[user] = _store(context, scram_users, user, items)
        await pause()
    return _when_stored(context, outcomes)


def _items(request: AlterUserScramCredentialsRequest) -> Iterator[Item]:
    yield from request.deletions
    yield from request.upsertions


def _refusal(item: Item) -> BrokerError | None:
    """Why an item cannot be stored, whatever is stored already."""
    if not item.name:
        message = "Username must not be empty"
        return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    if item.name in NOT_NODES:
        message = f"Username must not be '{item.name}'"
        return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    if item.mechanism not in MECHANISMS:
        return BrokerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(item, ScramCredentialDeletion):
        return None
    if item.iterations > ITERATIONS_MAX:
        return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if item.iterations < ITERATIONS_MIN:
        return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if not item.salt or not item.salted_password:
        return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Empty salt or password")
    return None


def _store(
    context: Context, scram_users: ScramUsers, user: str, items: list[Item]
) -> Pending[None]:
    entity = sanitized(user)
    written: Mapping[str, str] = {}

    def change(stored: Mapping[str, str]) -> Mapping[str, str]:
        nonlocal written
        config = dict(stored)
        for item in items:
            mechanism = MECHANISMS[item.mechanism]
            if isinstance(item, ScramCredentialUpsertion):
                credential = credential_of(
                    mechanism, item.salt, item.salted_password, item.iterations
                )
                config[mechanism] = credential.text
            elif config.pop(mechanism, None) is None:
                message = "Attempt to delete a user credential that does not exist"
                raise BrokerError(ErrorCode.RESOURCE_NOT_FOUND, message)
        written = config
        return config

    storing = context.services.controller.admin.alter_config(
        USERS, entity, change, requested_by=context.requester
    )
    # A client that goes on with this broker need not wait for the notification.
    return storing.then(lambda _: scram_users.on_user_config(entity, written))


def _when_stored(
    context: Context, outcomes: Mapping[str, BrokerError | Pending[None]]
) -> Reply | Delayed:
    def response() -> AlterUserScramCredentialsResponse:
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
                for user, outcome in outcomes.items()
                for code, message in (stored_error(outcome),)
            ]
        )

    return when_stored(context, outcomes.values(), response) or Reply(response())


def failed(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """One error for every user."""
    names = dict.fromkeys(item.name for item in _items(request))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
            for name in names
        ]
    )
