"""The Java exception and the text of each error code, which Kafka's tools print.

Source: Kafka 3.9's org.apache.kafka.common.protocol.Errors.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.errors import ErrorCode

PACKAGE: Final = "org.apache.kafka.common.errors."

EXCEPTIONS: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "UnknownServerException",
        "The server experienced an unexpected error when processing the request.",
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "OffsetOutOfRangeException",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    ErrorCode.CORRUPT_MESSAGE: (
        "CorruptRecordException",
        "This message has failed its CRC checksum, exceeds the valid size, has a null key"
        " for a compacted topic, or is otherwise corrupt.",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.INVALID_FETCH_SIZE: (
        "InvalidFetchSizeException",
        "The requested fetch size is invalid.",
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: (
        "LeaderNotAvailableException",
        "There is no leader for this topic-partition as we are in the middle of a "
        "leadership election.",
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (
        "NotLeaderOrFollowerException",
        "For requests intended only for the leader, this error indicates that the broker "
        "is not the current leader. For requests intended for any replica, this error "
        "indicates that the broker is not a replica of the topic partition.",
    ),
    ErrorCode.REQUEST_TIMED_OUT: ("TimeoutException", "The request timed out."),
    ErrorCode.BROKER_NOT_AVAILABLE: ("BrokerNotAvailableException", "The broker is not available."),
    ErrorCode.REPLICA_NOT_AVAILABLE: (
        "ReplicaNotAvailableException",
        "The replica is not available for the requested topic-partition. Produce/Fetch "
        "requests and other requests intended only for the leader or follower return "
        "NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the topic-partition.",
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        "RecordTooLargeException",
        "The request included a message larger than the max message size the server will accept.",
    ),
    ErrorCode.STALE_CONTROLLER_EPOCH: (
        "ControllerMovedException",
        "The controller moved to another broker.",
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        "OffsetMetadataTooLarge",
        "The metadata field of the offset request was too large.",
    ),
    ErrorCode.NETWORK_EXCEPTION: (
        "NetworkException",
        "The server disconnected before a response was received.",
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "CoordinatorLoadInProgressException",
        "The coordinator is loading and hence can't process requests.",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "CoordinatorNotAvailableException",
        "The coordinator is not available.",
    ),
    ErrorCode.NOT_COORDINATOR: ("NotCoordinatorException", "This is not the correct coordinator."),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "InvalidTopicException",
        "The request attempted to perform an operation on an invalid topic.",
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: (
        "RecordBatchTooLargeException",
        "The request included message batch larger than the configured segment size on the server.",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "NotEnoughReplicasException",
        "Messages are rejected since there are fewer in-sync replicas than required.",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "NotEnoughReplicasAfterAppendException",
        "Messages are written to the log, but to fewer in-sync replicas than required.",
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: (
        "InvalidRequiredAcksException",
        "Produce request specified an invalid value for required acks.",
    ),
    ErrorCode.ILLEGAL_GENERATION: (
        "IllegalGenerationException",
        "Specified group generation id is not valid.",
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "InconsistentGroupProtocolException",
        "The group member's supported protocols are incompatible with those of existing "
        "members or first group member tried to join with empty protocol type or empty "
        "protocol list.",
    ),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The configured groupId is invalid."),
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "UnknownMemberIdException",
        "The coordinator is not aware of this member.",
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "InvalidSessionTimeoutException",
        "The session timeout is not within the range allowed by the broker (as configured"
        " by group.min.session.timeout.ms and group.max.session.timeout.ms).",
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
    ErrorCode.INVALID_TIMESTAMP: (
        "InvalidTimestampException",
        "The timestamp of the message is out of acceptable range.",
    ),
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: (
        "UnsupportedSaslMechanismException",
        "The broker does not support the requested SASL mechanism.",
    ),
    ErrorCode.ILLEGAL_SASL_STATE: (
        "IllegalSaslStateException",
        "Request is not valid given the current SASL state.",
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "UnsupportedVersionException",
        "The version of API is not supported.",
    ),
    ErrorCode.TOPIC_ALREADY_EXISTS: (
        "TopicExistsException",
        "Topic with this name already exists.",
    ),
    ErrorCode.INVALID_PARTITIONS: (
        "InvalidPartitionsException",
        "Number of partitions is below 1.",
    ),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "InvalidReplicationFactorException",
        "Replication factor is below 1 or larger than the number of available brokers.",
    ),
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: (
        "InvalidReplicaAssignmentException",
        "Replica assignment is invalid.",
    ),
    ErrorCode.INVALID_CONFIG: ("InvalidConfigurationException", "Configuration is invalid."),
    ErrorCode.NOT_CONTROLLER: (
        "NotControllerException",
        "This is not the correct controller for this cluster.",
    ),
    ErrorCode.INVALID_REQUEST: (
        "InvalidRequestException",
        "This most likely occurs because of a request being malformed by the client "
        "library or the message was sent to an incompatible broker. See the broker logs "
        "for more details.",
    ),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "UnsupportedForMessageFormatException",
        "The message format version on the broker does not support the request.",
    ),
    ErrorCode.POLICY_VIOLATION: (
        "PolicyViolationException",
        "Request parameters do not satisfy the configured policy.",
    ),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "OutOfOrderSequenceException",
        "The broker received an out of order sequence number.",
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: (
        "DuplicateSequenceException",
        "The broker received a duplicate sequence number.",
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: (
        "InvalidProducerEpochException",
        "Producer attempted to produce with an old epoch.",
    ),
    ErrorCode.INVALID_TXN_STATE: (
        "InvalidTxnStateException",
        "The producer attempted a transactional operation in an invalid state.",
    ),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (
        "InvalidPidMappingException",
        "The producer attempted to use a producer id which is not currently assigned to "
        "its transactional id.",
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "InvalidTxnTimeoutException",
        "The transaction timeout is larger than the maximum value allowed by the broker "
        "(as configured by transaction.max.timeout.ms).",
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: (
        "ConcurrentTransactionsException",
        "The producer attempted to update a transaction while another concurrent "
        "operation on the same transaction was ongoing.",
    ),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
        "TransactionCoordinatorFencedException",
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer"
        " the current coordinator for a given producer.",
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "TransactionalIdAuthorizationException",
        "Transactional Id authorization failed.",
    ),
    ErrorCode.SECURITY_DISABLED: ("SecurityDisabledException", "Security features are disabled."),
    ErrorCode.OPERATION_NOT_ATTEMPTED: (
        "OperationNotAttemptedException",
        "The broker did not attempt to execute this operation. This may happen for "
        "batched RPCs where some operations in the batch failed, causing the broker to "
        "respond without trying the rest.",
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: (
        "KafkaStorageException",
        "Disk error when trying to access log file on the disk.",
    ),
    ErrorCode.LOG_DIR_NOT_FOUND: (
        "LogDirNotFoundException",
        "The user-specified log directory is not found in the broker config.",
    ),
    ErrorCode.SASL_AUTHENTICATION_FAILED: (
        "SaslAuthenticationException",
        "SASL Authentication failed.",
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: (
        "UnknownProducerIdException",
        "This exception is raised by the broker if it could not locate the producer "
        "metadata associated with the producerId in question. This could happen if, for "
        "instance, the producer's records were deleted because their retention time had "
        "elapsed. Once the last records of the producerId are removed, the producer's "
        "metadata is removed from the broker, and future appends by the producer will "
        "return this exception.",
    ),
    ErrorCode.REASSIGNMENT_IN_PROGRESS: (
        "ReassignmentInProgressException",
        "A partition reassignment is in progress.",
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "DelegationTokenDisabledException",
        "Delegation Token feature is not enabled.",
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: (
        "DelegationTokenNotFoundException",
        "Delegation Token is not found on server.",
    ),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "DelegationTokenOwnerMismatchException",
        "Specified Principal is not valid Owner/Renewer.",
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "UnsupportedByAuthenticationException",
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on"
        " delegation token authenticated channels.",
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "DelegationTokenAuthorizationException",
        "Delegation Token authorization failed.",
    ),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: (
        "DelegationTokenExpiredException",
        "Delegation Token is expired.",
    ),
    ErrorCode.INVALID_PRINCIPAL_TYPE: (
        "InvalidPrincipalTypeException",
        "Supplied principalType is not supported.",
    ),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: (
        "FetchSessionIdNotFoundException",
        "The fetch session ID was not found.",
    ),
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: (
        "InvalidFetchSessionEpochException",
        "The fetch session epoch is invalid.",
    ),
    ErrorCode.LISTENER_NOT_FOUND: (
        "ListenerNotFoundException",
        "There is no listener on the leader broker that matches the listener on which "
        "metadata request was processed.",
    ),
    ErrorCode.TOPIC_DELETION_DISABLED: (
        "TopicDeletionDisabledException",
        "Topic deletion is disabled.",
    ),
    ErrorCode.FENCED_LEADER_EPOCH: (
        "FencedLeaderEpochException",
        "The leader epoch in the request is older than the epoch on the broker.",
    ),
    ErrorCode.UNKNOWN_LEADER_EPOCH: (
        "UnknownLeaderEpochException",
        "The leader epoch in the request is newer than the epoch on the broker.",
    ),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (
        "UnsupportedCompressionTypeException",
        "The requesting client does not support the compression type of given partition.",
    ),
    ErrorCode.STALE_BROKER_EPOCH: ("StaleBrokerEpochException", "Broker epoch has changed."),
    ErrorCode.OFFSET_NOT_AVAILABLE: (
        "OffsetNotAvailableException",
        "The leader high watermark has not caught up from a recent leader election so the"
        " offsets cannot be guaranteed to be monotonically increasing.",
    ),
    ErrorCode.MEMBER_ID_REQUIRED: (
        "MemberIdRequiredException",
        "The group member needs to have a valid member id before actually entering a "
        "consumer group.",
    ),
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: (
        "PreferredLeaderNotAvailableException",
        "The preferred leader was not available.",
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: (
        "GroupMaxSizeReachedException",
        "The consumer group has reached its max size.",
    ),
    ErrorCode.FENCED_INSTANCE_ID: (
        "FencedInstanceIdException",
        "The broker rejected this static consumer since another consumer with the same "
        "group.instance.id has registered with a different member.id.",
    ),
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: (
        "EligibleLeadersNotAvailableException",
        "Eligible topic partition leaders are not available.",
    ),
    ErrorCode.ELECTION_NOT_NEEDED: (
        "ElectionNotNeededException",
        "Leader election not needed for topic partition.",
    ),
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: (
        "NoReassignmentInProgressException",
        "No partition reassignment is in progress.",
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively "
        "subscribed to it.",
    ),
    ErrorCode.INVALID_RECORD: (
        "org.apache.kafka.common.InvalidRecordException",
        "This record has failed the validation on broker and hence will be rejected.",
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: (
        "UnstableOffsetCommitException",
        "There are unstable offsets that need to be cleared.",
    ),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: (
        "ThrottlingQuotaExceededException",
        "The throttling quota has been exceeded.",
    ),
    ErrorCode.PRODUCER_FENCED: (
        "ProducerFencedException",
        "There is a newer producer with the same transactionalId which fences the current one.",
    ),
    ErrorCode.RESOURCE_NOT_FOUND: (
        "ResourceNotFoundException",
        "A request illegally referred to a resource that does not exist.",
    ),
    ErrorCode.DUPLICATE_RESOURCE: (
        "DuplicateResourceException",
        "A request illegally referred to the same resource twice.",
    ),
    ErrorCode.UNACCEPTABLE_CREDENTIAL: (
        "UnacceptableCredentialException",
        "Requested credential would not meet criteria for acceptability.",
    ),
    ErrorCode.INCONSISTENT_VOTER_SET: (
        "InconsistentVoterSetException",
        "Indicates that the either the sender or recipient of a voter-only request is not"
        " one of the expected voters.",
    ),
    ErrorCode.INVALID_UPDATE_VERSION: (
        "InvalidUpdateVersionException",
        "The given update version was invalid.",
    ),
    ErrorCode.FEATURE_UPDATE_FAILED: (
        "FeatureUpdateFailedException",
        "Unable to update finalized features due to an unexpected server error.",
    ),
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: (
        "PrincipalDeserializationException",
        "Request principal deserialization failed during forwarding. This indicates an "
        "internal error on the broker cluster security setup.",
    ),
    ErrorCode.SNAPSHOT_NOT_FOUND: (
        "SnapshotNotFoundException",
        "Requested snapshot was not found.",
    ),
    ErrorCode.POSITION_OUT_OF_RANGE: (
        "PositionOutOfRangeException",
        "Requested position is not greater than or equal to zero, and less than the size "
        "of the snapshot.",
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: (
        "UnknownTopicIdException",
        "This server does not host this topic ID.",
    ),
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: (
        "DuplicateBrokerRegistrationException",
        "This broker ID is already in use.",
    ),
    ErrorCode.BROKER_ID_NOT_REGISTERED: (
        "BrokerIdNotRegisteredException",
        "The given broker ID was not registered.",
    ),
    ErrorCode.INCONSISTENT_TOPIC_ID: (
        "InconsistentTopicIdException",
        "The log's topic ID did not match the topic ID in the request.",
    ),
    ErrorCode.INCONSISTENT_CLUSTER_ID: (
        "InconsistentClusterIdException",
        "The clusterId in the request does not match that found on the server.",
    ),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: (
        "TransactionalIdNotFoundException",
        "The transactionalId could not be found.",
    ),
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: (
        "FetchSessionTopicIdException",
        "The fetch session encountered inconsistent topic ID usage.",
    ),
    ErrorCode.INELIGIBLE_REPLICA: (
        "IneligibleReplicaException",
        "The new ISR contains at least one ineligible replica.",
    ),
    ErrorCode.NEW_LEADER_ELECTED: (
        "NewLeaderElectedException",
        "The AlterPartition request successfully updated the partition state but the "
        "leader has changed.",
    ),
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: (
        "OffsetMovedToTieredStorageException",
        "The requested offset is moved to tiered storage.",
    ),
    ErrorCode.FENCED_MEMBER_EPOCH: (
        "FencedMemberEpochException",
        "The member epoch is fenced by the group coordinator. The member must abandon all"
        " its partitions and rejoin.",
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "UnreleasedInstanceIdException",
        "The instance ID is still used by another member in the consumer group. That "
        "member must leave first.",
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: (
        "UnsupportedAssignorException",
        "The assignor or its version range is not supported by the consumer group.",
    ),
    ErrorCode.STALE_MEMBER_EPOCH: (
        "StaleMemberEpochException",
        "The member epoch is stale. The member must retry after receiving its updated "
        "member epoch via the ConsumerGroupHeartbeat API.",
    ),
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: (
        "MismatchedEndpointTypeException",
        "The request was sent to an endpoint of the wrong type.",
    ),
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: (
        "UnsupportedEndpointTypeException",
        "This endpoint type is not supported yet.",
    ),
    ErrorCode.UNKNOWN_CONTROLLER_ID: (
        "UnknownControllerIdException",
        "This controller ID is not known.",
    ),
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: (
        "UnknownSubscriptionIdException",
        "Client sent a push telemetry request with an invalid or outdated subscription ID.",
    ),
    ErrorCode.TELEMETRY_TOO_LARGE: (
        "TelemetryTooLargeException",
        "Client sent a push telemetry request larger than the maximum size the broker will accept.",
    ),
    ErrorCode.INVALID_REGISTRATION: (
        "InvalidRegistrationException",
        "The controller has considered the broker registration to be invalid.",
    ),
    ErrorCode.TRANSACTION_ABORTABLE: (
        "TransactionAbortableException",
        "The server encountered an error with the transaction. The client can abort the "
        "transaction to continue using this transactional ID.",
    ),
    ErrorCode.INVALID_RECORD_STATE: (
        "InvalidRecordStateException",
        "The record state is invalid. The acknowledgement of delivery could not be completed.",
    ),
    ErrorCode.SHARE_SESSION_NOT_FOUND: (
        "ShareSessionNotFoundException",
        "The share session was not found.",
    ),
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: (
        "InvalidShareSessionEpochException",
        "The share session epoch is invalid.",
    ),
    ErrorCode.FENCED_STATE_EPOCH: (
        "FencedStateEpochException",
        "The share coordinator rejected the request because the share-group state epoch "
        "did not match.",
    ),
    ErrorCode.INVALID_VOTER_KEY: (
        "InvalidVoterKeyException",
        "The voter key doesn't match the receiving replica's key.",
    ),
    ErrorCode.DUPLICATE_VOTER: (
        "DuplicateVoterException",
        "The voter is already part of the set of voters.",
    ),
    ErrorCode.VOTER_NOT_FOUND: (
        "VoterNotFoundException",
        "The voter is not part of the set of voters.",
    ),
}
"""Class, below PACKAGE unless it has a package of its own, and text."""
