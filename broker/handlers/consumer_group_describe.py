"""ConsumerGroupDescribe (key 69): members and assignments of consumer groups.

Served: 0-1 (KIP-848).
    1   whether a member is classic (KIP-1099)
Authorized operations: all, since there are no ACLs yet.
Group errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    GROUP_ID_NOT_FOUND (also for a classic group), INVALID_GROUP_ID,
    UNSUPPORTED_VERSION (the protocol is disabled).
Differs from Kafka: a group that is named twice is described once.
Source: Kafka's GroupCoordinatorService.consumerGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import NOTHING, ConsumerMember, topic_order
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.handlers.shared.authorization import group_operations, is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from odradek.runtime.work import pause

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


async def run(context: Context, request: ConsumerGroupDescribeRequest) -> Reply:
    """Groups without an id come first, as in Kafka."""
    groups = []
    for name in sorted(dict.fromkeys(request.group_ids), key=lambda name: name != ""):
        groups.append(await _describe(context, name, request))
        await pause()
    return Reply(ConsumerGroupDescribeResponse(groups=groups))


def failed(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    """One error for every group."""
    return ConsumerGroupDescribeResponse(
        groups=[_blank(name, code, message) for name in request.group_ids]
    )


def _blank(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


async def _describe(
    context: Context, group_id: str, request: ConsumerGroupDescribeRequest
) -> DescribedGroup:
    groups = context.services.groups
    if not groups.consumer.is_served:
        return _blank(group_id, ErrorCode.UNSUPPORTED_VERSION, None)
    if not is_authorized(context, DESCRIBE_GROUP, group_id):
        return _blank(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    if not group_id:
        return _blank(group_id, ErrorCode.INVALID_GROUP_ID, None)
    try:
        group = groups.shard_of(group_id).groups.get(group_id)
    except BrokerError as error:
        return _blank(group_id, error.code, error.message)
    if group is None:
        return _blank(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    consumer = group.body
    if not isinstance(consumer, ConsumerGroup):
        return _blank(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
        )
    described = DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=consumer.state.value,
        group_epoch=consumer.epoch,
        assignment_epoch=consumer.target_epoch,
        assignor_name=consumer.preferred_assignor(groups.consumer.assignors[0]),
        members=[],
        authorized_operations=group_operations(
            context, group_id, is_requested=request.include_authorized_operations
        ),
    )
    for member in list(consumer.members.values()):
        described.members.append(_member(context, consumer, member))
        await pause()
    return described


def _member(context: Context, group: ConsumerGroup, member: ConsumerMember) -> Member:
    owned: dict[Uuid, list[int]] = {}
    for assignment in (member.assigned_partitions, member.partitions_pending_revocation):
        for topic_id, partitions in assignment.items():
            owned.setdefault(topic_id, []).extend(partitions)
    target = group.targets.get(member.member_id, NOTHING)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(context, owned.items()),
        target_assignment=_assignment(context, target.items()),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(context: Context, partitions: Iterable[tuple[Uuid, Iterable[int]]]) -> Assignment:
    """Topics that exist, by id."""
    topics = context.services.topics
    existing = []
    for topic_id, indexes in sorted(partitions, key=lambda entry: topic_order(entry[0])):
        name = topics.name_of(topic_id)
        if name is not None:
            existing.append(
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=list(indexes))
            )
    return Assignment(topic_partitions=existing)
