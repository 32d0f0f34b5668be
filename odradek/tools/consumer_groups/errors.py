"""Errors of `odradek consumer-groups`, with the texts of Kafka's tool.

Kafka's tool prints the class of the Java exception.  So does this one: it exits with 0 on most
errors, so scripts can only look at the text.
Source: Kafka's Errors (texts and exceptions of the codes); ConsumerGroupCommand.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition

PACKAGE: Final = "org.apache.kafka.common.errors."
WRAPPER: Final = "java.util.concurrent.ExecutionException: "

EXCEPTIONS: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "UnknownServerException",
        "The server experienced an unexpected error when processing the request.",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.REQUEST_TIMED_OUT: ("TimeoutException", "The request timed out."),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        "OffsetMetadataTooLarge",
        "The metadata field of the offset request was too large.",
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "CoordinatorLoadInProgressException",
        "The coordinator is loading and hence can't process requests.",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "CoordinatorNotAvailableException",
        "The coordinator is not available.",
    ),
    ErrorCode.NOT_COORDINATOR: (
        "NotCoordinatorException",
        "This is not the correct coordinator.",
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "InvalidTopicException",
        "The request attempted to perform an operation on an invalid topic.",
    ),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The configured groupId is invalid."),
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "UnknownMemberIdException",
        "The coordinator is not aware of this member.",
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: (
        "RebalanceInProgressException",
        "The group is rebalancing, so a rejoin is needed.",
    ),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: (
        "InvalidCommitOffsetSizeException",
        "The committing offset data size is not valid.",
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "TopicAuthorizationException",
        "Topic authorization failed.",
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "GroupAuthorizationException",
        "Group authorization failed.",
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "ClusterAuthorizationException",
        "Cluster authorization failed.",
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "UnsupportedVersionException",
        "The version of API is not supported.",
    ),
    ErrorCode.INVALID_REQUEST: (
        "InvalidRequestException",
        "This most likely occurs because of a request being malformed by the client library or the "
        "message was sent to an incompatible broker. See the broker logs for more details.",
    ),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed "
        "to it.",
    ),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "UnsupportedForMessageFormatException",
        "The message format version on the broker does not support the request.",
    ),
    ErrorCode.STALE_MEMBER_EPOCH: (
        "StaleMemberEpochException",
        "The member epoch is stale. The member must retry after receiving its updated member epoch "
        "via the ConsumerGroupHeartbeat API.",
    ),
}


def partition_text(partition: TopicPartition) -> str:
    """`topic-0`, as Kafka's TopicPartition.toString."""
    return f"{partition.topic}-{partition.partition}"


class ToolError(Exception):
    """The action failed; `str` of the error is the line that the tool prints."""


class KafkaError(ToolError):
    """A broker returned an error code.

    text  class and message of the Java exception; `str` of the error adds the ExecutionException
          that wraps it in most calls of Kafka's tool
    code  the error code of the response
    """

    def __init__(self, text: str, code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(WRAPPER + text)
        self.text = text
        self.code = code


def refused(code: int, message: str | None = None) -> KafkaError:
    """The error for an error code, which is not 0.

    message  replaces the standard text of the code unless it is None
    """
    error = ErrorCode(code) if code in list(ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
    name, text = EXCEPTIONS.get(error, (error.name, f"The broker responds with error {code}."))
    return KafkaError(f"{PACKAGE}{name}: {text if message is None else message}", code)


def timed_out(what: str) -> KafkaError:
    """The error when retries have used up the timeout."""
    return refused(ErrorCode.REQUEST_TIMED_OUT, what)
