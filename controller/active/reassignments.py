"""Reassignment of partitions: requested by the API or in `/admin/reassign_partitions`.

    update    replicas, adding and removing are written to the topic's znode; adding replicas that
              an earlier target wanted, and this one does not, are removed
    begin     while a target replica is not in sync: a new leader epoch, LeaderAndIsr to all
              replicas, new ones for those that are added
    complete  the leader is one of the target, in a new leader epoch; the removed replicas leave the
              in-sync replicas and are deleted; the topic's znode keeps the target only; the
              request leaves `/admin/reassign_partitions`; UpdateMetadata

Each step takes all partitions that it is due for.  What is under way is in the topics' znodes: a
new controller goes on with it.  In-sync replicas change by AlterPartition only, after which
`on_isr_changed` is called.
Source: KIP-455; Kafka's KafkaController.onPartitionReassignment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.controller.active.partition_states import ATTEMPTS_MAX, PartitionStates
from odradek.controller.coordination.errors import BadVersion, CoordinationError, NoNode
from odradek.controller.coordination.session import Delete, SetData, ZkOperation
from odradek.controller.decide.deletion import Replica
from odradek.controller.decide.elections import Strategy, needs_leader, raise_leader_epoch
from odradek.controller.decide.reassignment import (
    completed,
    decide_reassignment,
    is_being_reassigned,
    is_complete,
    origin_replicas,
    target_replicas,
)
from odradek.controller.image.control_requests import ControlBatch
from odradek.controller.image.image import PartitionImage, PartitionState
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.admin_znodes import (
    REASSIGN_PARTITIONS,
    decode_reassignments,
    encode_reassignments,
)
from odradek.controller.znodes.fenced_writes import read_all
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition

logger = logging.getLogger("odradek.controller")

Targets = Mapping[TopicPartition, Sequence[int] | None]
"""Partition -> the replicas wanted; None cancels."""
Refusals = dict[TopicPartition, BrokerError]
Assignments = dict[TopicPartition, PartitionImage]


class Reassignments:
    """Moves replicas between brokers.  Every method may raise ControllerMoved."""

    def __init__(self, states: PartitionStates) -> None:
        self._states = states
        self._fence = states.fence

    def under_way(
        self, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionImage]:
        """The partitions that are being reassigned, of those named or of all."""
        if partitions is None:
            return self._under_way(lambda key, partition: True)
        assignments: dict[TopicPartition, PartitionImage] = {}
        for key in partitions:
            partition = self._states.image.partition(*key)
            if partition is not None and is_being_reassigned(partition):
                assignments[key] = partition
        return assignments

    async def alter(self, targets: Targets) -> Refusals:
        """AlterPartitionReassignments: begin, change or cancel; the partitions refused.

        A request in the znode for one of the partitions is removed: the latest one counts.
        """
        begun, refused = self._decide(targets, must_be_live=True)
        if begun:
            await self._remove_requests(lambda key, _: key in begun)
        return refused | await self._run(begun)

    async def load(self) -> None:
        """After a take-over: go on with what an earlier controller began."""
        taken = await self.on_requests_changed()
        await self._run(self._under_way(lambda key, _: key not in taken))

    async def on_requests_changed(self) -> dict[TopicPartition, None]:
        """`/admin/reassign_partitions` was created, changed or removed; the partitions begun."""
        targets: Targets = {}
        if await self._fence.session.exists(REASSIGN_PARTITIONS, watch=True) is not None:
            targets = (await self._read_requests())[0]
        new_targets = {
            key: target for key, target in targets.items() if not self._is_running(key, target)
        }
        if not new_targets:
            return {}
        begun, refused = self._decide(new_targets, must_be_live=False)
        refused |= await self._run(begun)
        for key, refusal in refused.items():
            self._states.warn(
                f"{REASSIGN_PARTITIONS} names {key.topic}-{key.partition}: {refusal.message}"
            )
        if refused:
            await self._remove_requests(lambda key, _: key in refused)
        return {key: None for key in begun if key not in refused}

    async def on_brokers_started(self, brokers: Iterable[int]) -> None:
        """Brokers registered: reassignments to them begin again."""
        started = dict.fromkeys(brokers)
        await self._run(
            self._under_way(
                lambda _, partition: any(broker in started for broker in target_replicas(partition))
            )
        )

    async def on_isr_changed(self, partitions: Iterable[TopicPartition]) -> None:
        """In-sync replicas were altered: complete what waited for them."""
        due: Assignments = {}
        for key in partitions:
            partition = self._states.image.partition(*key)
            if (
                partition is not None
                and is_being_reassigned(partition)
                and key.topic not in self._states.deletions
                and is_complete(self._states.image, key.topic, partition)
            ):
                due[key] = partition
        if due:
            await self._run(due)

    async def on_deletions(self) -> None:
        """Topics are being deleted: requests for their partitions are removed."""
        deletions = self._states.deletions
        if any(key.topic in deletions for key in self.under_way()):
            await self._remove_requests(lambda key, _: key.topic in deletions)

    def _under_way(
        self, is_wanted: Callable[[TopicPartition, PartitionImage], bool]
    ) -> Assignments:
        assignments: Assignments = {}
        for topic, partition in self._states.image.partitions():
            if is_being_reassigned(partition):
                key = TopicPartition(topic, partition.partition)
                if is_wanted(key, partition):
                    assignments[key] = partition
        return assignments

    def _is_running(self, key: TopicPartition, target: Sequence[int] | None) -> bool:
        partition = self._states.image.partition(*key)
        return (
            partition is not None
            and is_being_reassigned(partition)
            and target is not None
            and target_replicas(partition) == tuple(target)
        )

    def _decide(self, targets: Targets, *, must_be_live: bool) -> tuple[Assignments, Refusals]:
        begun: Assignments = {}
        refused: Refusals = {}
        for key, target in targets.items():
            try:
                begun[key] = decide_reassignment(
                    self._states.image,
                    key,
                    target,
                    deleting=self._states.deletions,
                    must_be_live=must_be_live,
                )
            except BrokerError as refusal:
                refused[key] = refusal
        return begun, refused

    async def _run(self, assignments: Assignments) -> Refusals:
        """Take each partition as far as it goes now; those that could not be written."""
        live = {
            key: partition
            for key, partition in assignments.items()
            if key.topic not in self._states.deletions
        }
        refused = await self._update(live)
        keys = [key for key in live if key not in refused]
        batch = ControlBatch()
        new = [key for key in keys if self._partition(key).state is None]
        await self._states.create_first(new, batch)
        await self._states.send(batch)
        image = self._states.image
        due = [key for key in keys if is_complete(image, key.topic, self._partition(key))]
        await self._begin([key for key in keys if key not in dict.fromkeys(due)])
        await self._complete(due)
        return refused

    # Phase U.

    async def _update(self, assignments: Assignments) -> Refusals:
        before = {key: self._partition(key) for key in assignments}
        changed = {
            key: before[key]._replace(
                replicas=assignment.replicas, adding=assignment.adding, removing=assignment.removing
            )
            for key, assignment in assignments.items()
        }
        changed = {
            key: assignment for key, assignment in changed.items() if assignment != before[key]
        }
        refused = await self._write(changed)
        written = {key: assignment for key, assignment in changed.items() if key not in refused}
        self._states.replace_partitions(written)
        for key, partition in written.items():
            logger.info(
                "%s-%d is reassigned from %s to %s",
                *key,
                list(origin_replicas(partition)),
                list(target_replicas(partition)),
            )
        unneeded = [
            (*key, broker)
            for key, assignment in written.items()
            for broker in before[key].replicas
            if broker not in assignment.replicas
        ]
        await self._delete_replicas(unneeded)
        return refused

    # Phase A.

    async def _begin(self, keys: Sequence[TopicPartition]) -> None:
        batch = ControlBatch()
        for key in await self._states.change(keys, self._raise_epoch):
            partition = self._partition(key)
            batch.add_leader_and_isr(origin_replicas(partition), key.topic, partition, is_new=False)
            batch.add_leader_and_isr(partition.adding, key.topic, partition, is_new=True)
        await self._states.send(batch)

    # Phase B.

    async def _complete(self, keys: Sequence[TopicPartition]) -> None:
        if not keys:
            return
        before = {key: self._partition(key) for key in keys}
        after = {key: completed(partition) for key, partition in before.items()}
        self._states.replace_partitions(after)
        led = await self._lead_from_target(keys)
        failed = {
            key: before[key]._replace(state=self._partition(key).state)
            for key in keys
            if key not in led and is_being_reassigned(before[key])
        }
        self._states.replace_partitions(failed)
        done = [key for key in keys if key not in failed]
        await self._delete_replicas(
            [(*key, broker) for key in done for broker in before[key].removing]
        )
        refused = await self._write({key: after[key] for key in done})
        for key, refusal in refused.items():
            self._states.warn(f"{key.topic}-{key.partition} was reassigned: {refusal.message}")
        await self._remove_requests(
            lambda key, target: key in after and after[key].replicas == tuple(target)
        )
        batch = ControlBatch()
        batch.add_metadata(done)
        await self._states.send(batch)
        for key in done:
            logger.info("%s-%d has the replicas %s now", *key, list(after[key].replicas))

    async def _lead_from_target(
        self, keys: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState]:
        """Leaders among the replicas that stay, each in a new leader epoch."""
        image = self._states.image
        staying: list[TopicPartition] = []
        moving: list[TopicPartition] = []
        for key in keys:
            partition = self._partition(key)
            is_led = partition.state is not None and partition.state.leader in partition.replicas
            is_staying = is_led and not needs_leader(image, key.topic, partition)
            (staying if is_staying else moving).append(key)
        batch = ControlBatch()
        moved = await self._states.elect(moving, Strategy.REASSIGN, batch)
        await self._states.send(batch)
        batch = ControlBatch()
        stayed = await self._states.change(staying, self._raise_epoch)
        for key in stayed:
            partition = self._partition(key)
            batch.add_leader_and_isr(partition.replicas, key.topic, partition, is_new=False)
        await self._states.send(batch)
        return moved | stayed

    async def _delete_replicas(self, replicas: Sequence[Replica]) -> None:
        """Replicas that are assigned no longer leave the in-sync replicas, and are deleted."""
        if not replicas:
            return
        batch = ControlBatch()
        await self._states.take_offline(replicas, batch)
        await self._states.send(batch)
        keys = list(dict.fromkeys(TopicPartition(topic, index) for topic, index, _ in replicas))
        image = self._states.image
        batch = ControlBatch()
        # Differs from Kafka: it leaves a partition without a leader that a removed replica led.
        await self._states.elect(
            [key for key in keys if needs_leader(image, key.topic, self._partition(key))],
            Strategy.OFFLINE,
            batch,
        )
        await self._states.send(batch)
        batch = ControlBatch()
        for topic, index, broker in replicas:
            batch.add_stop(broker, TopicPartition(topic, index), is_deleted=True)
        await self._states.send(batch)

    def _partition(self, key: TopicPartition) -> PartitionImage:
        partition = self._states.image.partition(*key)
        assert partition is not None, "the key comes from the image"
        return partition

    def _raise_epoch(self, _: str, partition: PartitionImage) -> PartitionState:
        assert partition.state is not None, "changes are made to states"
        return raise_leader_epoch(self._states.image, partition.state)

    # Znodes.

    async def _write(self, changed: Mapping[TopicPartition, PartitionImage]) -> Refusals:
        """Write replicas, adding and removing of partitions into their topics' znodes.

        What else is in a znode is kept: partitions may have been added to the topic meanwhile.
        """
        topics: dict[str, Assignments] = {}
        for key, partition in changed.items():
            topics.setdefault(key.topic, {})[key] = partition
        refused: Refusals = {}
        remaining = list(topics)
        for _ in range(ATTEMPTS_MAX):
            if not remaining:
                return refused
            remaining = await self._write_once({name: topics[name] for name in remaining}, refused)
        for topic in remaining:
            error = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the topic kept changing")
            refused |= dict.fromkeys(topics[topic], error)
        return refused

    async def _write_once(self, topics: Mapping[str, Assignments], refused: Refusals) -> list[str]:
        """Write each topic once; the topics whose znode changed meanwhile."""
        paths = [zk_data.topic_path(topic) for topic in topics]
        writes: dict[str, list[ZkOperation]] = {}
        gone = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        for topic, znode in zip(topics, await read_all(self._fence.session, paths), strict=True):
            cached_topic = self._states.image.topics[topic]
            assignment = None
            if znode is not None:
                try:
                    assignment = zk_data.TopicAssignmentZnode.decode(znode[0])
                except zk_data.BadZnode as error:
                    self._states.warn(f"topic {topic}: {error}")
            if znode is None or assignment is None or assignment.topic_id != cached_topic.topic_id:
                refused |= dict.fromkeys(topics[topic], gone)
                continue
            data = _with_partitions(assignment, topics[topic]).encode()
            writes[topic] = [SetData(zk_data.topic_path(topic), data, znode[1].version)]
        stale: list[str] = []
        results = await self._fence.write_all(list(writes.values()))
        for topic, result in zip(writes, results, strict=True):
            if isinstance(result, BadVersion):
                stale.append(topic)
            elif isinstance(result, CoordinationError):
                self._states.warn(f"topic {topic}: {result!r}")
                refused |= dict.fromkeys(topics[topic], gone)
        return stale

    async def _read_requests(self) -> tuple[dict[TopicPartition, tuple[int, ...]], int]:
        """(partition -> target, version) of `/admin/reassign_partitions`; nothing without it."""
        (znode,) = await read_all(self._fence.session, [REASSIGN_PARTITIONS])
        if znode is None:
            return {}, -1
        try:
            return decode_reassignments(znode[0]), znode[1].version
        except zk_data.BadZnode as error:
            self._states.warn(f"{REASSIGN_PARTITIONS}: {error}")
            return {}, -1

    async def _remove_requests(
        self, is_done: Callable[[TopicPartition, Sequence[int]], bool]
    ) -> None:
        """Remove requests from `/admin/reassign_partitions`, and the znode with the last one."""
        for _ in range(ATTEMPTS_MAX):
            requests, version = await self._read_requests()
            left = {key: target for key, target in requests.items() if not is_done(key, target)}
            if len(left) == len(requests):
                return
            write: ZkOperation = Delete(REASSIGN_PARTITIONS, version)
            if left:
                write = SetData(REASSIGN_PARTITIONS, encode_reassignments(left), version)
            (result,) = await self._fence.write_all([[write]])
            if not isinstance(result, BadVersion | NoNode):
                return


def _with_partitions(
    assignment: zk_data.TopicAssignmentZnode, changed: Assignments
) -> zk_data.TopicAssignmentZnode:
    partitions = dict(assignment.partitions)
    adding = dict(assignment.adding)
    removing = dict(assignment.removing)
    for key, partition in changed.items():
        partitions[key.partition] = partition.replicas
        for held, brokers in ((adding, partition.adding), (removing, partition.removing)):
            if brokers:
                held[key.partition] = brokers
            else:
                held.pop(key.partition, None)
    return assignment._replace(partitions=partitions, adding=adding, removing=removing)
