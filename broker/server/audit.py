"""The audit log of administrative requests: who asks for what, from where, and what came of it.

A line is a JSON object:

    request     the API, as CreateTopics
    principal   User:alice
    host        of the client; client_id is what it calls itself
    targets     names of what is changed, at most TARGETS_MAX; target_count if there are more
    errors      error codes of the response by name, with their counts
    refused     whether one of them says that the principal may not do it
    succeeded   whether there was no error

Values are not among them: configs and credentials may be secrets.  The logger is
`odradek.audit.requests` at INFO; it is off until its level is set, or `odradek.audit.log` names a
file.  Requests of other APIs do not come here, and administrative ones cost one look at the level.
Commits of offsets are administrative unless a member of the group sends them: a tool that resets a
group sends what a consumer with assigned partitions sends.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.handlers.shared.handler import Context, Handler, Outcome, Reply
from odradek.broker.purgatory import Delayed
from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.acl import pascal_case
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.work import CoroutineObject, Later

if TYPE_CHECKING:
    from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
    from odradek.protocol.messages.alter_configs import AlterConfigsRequest
    from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
    from odradek.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
    )
    from odradek.protocol.messages.create_acls import CreateAclsRequest
    from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
    from odradek.protocol.messages.delete_acls import DeleteAclsRequest
    from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
    from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
    from odradek.protocol.messages.offset_commit import OffsetCommitRequest
    from odradek.protocol.messages.offset_delete import OffsetDeleteRequest

TARGETS_MAX: Final = 20
CODES_MAX: Final = 5_000
"""Error codes of a response, and names of a request, that are counted."""
SHOWN_MAX: Final = 300
"""Characters of a name."""
REFUSALS: Final = frozenset(
    code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")
)

logger = logging.getLogger("odradek.audit.requests")
if logger.level == logging.NOTSET:
    # Lines for machines, which are written when a level is set.
    logger.setLevel(logging.CRITICAL)

NamesOf = Callable[[Any], Iterator[str]]


def _names(field: str, name: str = "name") -> NamesOf:
    return lambda request: (str(getattr(row, name)) for row in getattr(request, field) or ())


def _deleted_topics(request: DeleteTopicsRequest) -> Iterator[str]:
    yield from request.topic_names
    yield from (str(topic.name or topic.topic_id) for topic in request.topics)


def _acls(request: CreateAclsRequest) -> Iterator[str]:
    return (f"{row.principal} on {row.resource_name}" for row in request.creations)


def _acl_filters(request: DeleteAclsRequest) -> Iterator[str]:
    return (
        f"{row.principal_filter or 'any'} on {row.resource_name_filter or 'any'}"
        for row in request.filters
    )


def _configs(request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> Iterator[str]:
    for resource in request.resources:
        names = ",".join(row.name for row in resource.configs[:TARGETS_MAX])
        yield f"{resource.resource_type}:{resource.resource_name}: {names}"


def _quotas(request: AlterClientQuotasRequest) -> Iterator[str]:
    for entry in request.entries:
        yield ",".join(f"{row.entity_type}={row.entity_name}" for row in entry.entity)


def _users(request: AlterUserScramCredentialsRequest) -> Iterator[str]:
    yield from (row.name for row in request.deletions)
    yield from (row.name for row in request.upsertions)


def _log_dirs(request: AlterReplicaLogDirsRequest) -> Iterator[str]:
    return (f"{topic.name} to {row.path}" for row in request.dirs for topic in row.topics)


def _group_topics(request: OffsetCommitRequest | OffsetDeleteRequest) -> Iterator[str]:
    """`GROUP: TOPIC` of each topic; a request without topics changes nothing."""
    return (f"{request.group_id}: {topic.name}" for topic in request.topics)


def _is_of_member(api_key: int, request: Any) -> bool:
    """Whether a member of a group commits its own offsets, which is not administrative."""
    return api_key == ApiKey.OFFSET_COMMIT and request.generation_id_or_member_epoch >= 0


def _owner(request: CreateDelegationTokenRequest) -> Iterator[str]:
    if request.owner_principal_name:
        yield f"{request.owner_principal_type}:{request.owner_principal_name}"


def _nothing(request: object) -> Iterator[str]:
    return iter(())


AUDITED: Final[Mapping[int, NamesOf]] = {
    ApiKey.OFFSET_COMMIT: _group_topics,
    ApiKey.CREATE_TOPICS: _names("topics"),
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.DELETE_RECORDS: _names("topics"),
    ApiKey.CREATE_ACLS: _acls,
    ApiKey.DELETE_ACLS: _acl_filters,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _log_dirs,
    ApiKey.CREATE_PARTITIONS: _names("topics"),
    ApiKey.CREATE_DELEGATION_TOKEN: _owner,
    ApiKey.RENEW_DELEGATION_TOKEN: _nothing,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _nothing,
    ApiKey.DELETE_GROUPS: lambda request: iter(request.groups_names),
    ApiKey.OFFSET_DELETE: _group_topics,
    ApiKey.ELECT_LEADERS: _names("topic_partitions", "topic"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _names("topics"),
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _users,
    ApiKey.UPDATE_FEATURES: _names("feature_updates", "feature"),
}
"""API -> the names of what a request changes."""


class AuditedHandler:
    """The handler of an administrative API, whose requests are logged."""

    def __init__(self, api_key: int, handler: Handler) -> None:
        self._api_key = api_key
        self._handler = handler
        self._targets = AUDITED[api_key]
        self.failed = handler.failed

    @cached_property
    def _read_codes(self) -> Callable[[object], Iterator[int]]:
        # Imported when the first line is written.
        from odradek.broker.server.request_times import code_reader

        return code_reader(messages_of(self._api_key)[1])

    def run(self, context: Context, request: object) -> Outcome | Later[Outcome]:
        """Decide as the handler does, and log what came of it."""
        if not logger.isEnabledFor(logging.INFO) or _is_of_member(self._api_key, request):
            return self._handler.run(context, request)
        line = self._line(context, request)
        try:
            decided = self._handler.run(context, request)
        except (BrokerError, CoordinationError) as error:
            self._log_error(line, error)
            raise
        if isinstance(decided, CoroutineObject):
            return self._awaited(line, decided)
        return self._settled(line, decided)

    async def _awaited(self, line: dict[str, object], deciding: Later[Outcome]) -> Outcome:
        try:
            outcome = await deciding
        except (BrokerError, CoordinationError) as error:
            self._log_error(line, error)
            raise
        return self._settled(line, outcome)

    def _settled(self, line: dict[str, object], outcome: Outcome) -> Outcome:
        if isinstance(outcome, Reply):
            self._log_response(line, outcome.response)
        elif isinstance(outcome, Delayed):
            return replace(
                outcome,
                attempt=partial(self._waited, line, outcome.attempt),
                expire=partial(self._waited, line, outcome.expire),
            )
        return outcome

    def _waited(self, line: dict[str, object], make: Callable[[], object]) -> object:
        try:
            response = make()
        except (BrokerError, CoordinationError) as error:
            self._log_error(line, error)
            raise
        if isinstance(response, CoroutineObject):
            return self._awaited_response(line, response)
        if response is not None:
            self._log_response(line, response)
        return response

    async def _awaited_response(self, line: dict[str, object], making: Later[object]) -> object:
        response = await making
        if response is not None:
            self._log_response(line, response)
        return response

    def _line(self, context: Context, request: object) -> dict[str, object]:
        names = self._targets(request)
        targets = [name[:SHOWN_MAX] for name in islice(names, TARGETS_MAX)]
        line: dict[str, object] = {
            "request": pascal_case(ApiKey(self._api_key)),
            "principal": str(context.principal),
            "host": context.client_host,
            "client_id": (context.client_id or "")[:SHOWN_MAX],
            "targets": targets,
        }
        more = sum(1 for _ in islice(names, CODES_MAX))
        if more:
            line["target_count"] = len(targets) + more
        return line

    def _log_response(self, line: dict[str, object], response: object) -> None:
        self._log(line, Counter(islice(self._read_codes(response), CODES_MAX)))

    def _log_error(self, line: dict[str, object], error: Exception) -> None:
        code = error.code if isinstance(error, BrokerError) else ErrorCode.UNKNOWN_SERVER_ERROR
        self._log(line, Counter([code]))

    def _log(self, line: dict[str, object], counts: Mapping[int, int]) -> None:
        errors = {code: count for code, count in sorted(counts.items()) if code}
        outcome = {
            "errors": {ErrorCode(code).name: count for code, count in errors.items()},
            "refused": not REFUSALS.isdisjoint(errors),
            "succeeded": not errors,
        }
        logger.info("%s", json.dumps({**line, **outcome}))
