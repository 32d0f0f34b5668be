"""The queue of the active controller: requests of brokers and clients, and events that it handles.

All of it runs one procedure at a time, together with the registration and the election of this
broker.  A request fails where this broker is not the active controller.  An event is dropped there.

A procedure that the coordination service refused is repeated, by itself: registration, configs,
election.  One of the active controller may have been half done, so the controller takes over again
(`ControllerStep.LOAD`).
Source: Kafka's ControllerEventManager, KafkaController.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from odradek.controller.active.active_controller import ActiveController
from odradek.controller.active.feature_updates import FeatureResults
from odradek.controller.active.reassignments import Refusals, Targets
from odradek.controller.coordination.errors import (
    PROCEDURE_ERRORS,
    CoordinationError,
    SessionExpired,
)
from odradek.controller.decide.elections import ElectionType
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.image.image import PartitionImage, PartitionState
from odradek.controller.znodes.cluster_reading import Warn
from odradek.controller.znodes.fenced_writes import ControllerMoved
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.work import Procedure, SerialQueue

if TYPE_CHECKING:
    from odradek.controller.decide.features import FeatureUpdate

T = TypeVar("T")


class ControllerStep(Enum):
    """The steps that are repeated when the coordination service refused them, in this order."""

    REGISTRATION = 1
    """With configs and election: the session has expired."""
    CHANGES = 2
    """Configs, and what else has notifications of changes."""
    FEATURES = 3
    ELECTION = 4
    LOAD = 5
    """The active controller reads everything and sends it to all brokers."""
    DIRECTORIES = 6


class ControllerRequests:
    """The requests and events of one broker's controller; requests fail with BrokerError
    NOT_CONTROLLER, also while the active controller is still reading, and CoordinationError."""

    def __init__(self, clock: Clock, warn: Warn, on_moved: Procedure[None]) -> None:
        """on_moved  drops the active controller and takes part in the election: a fenced write
        failed
        """
        self._clock = clock
        self._warn = warn
        self._on_moved = on_moved
        self.queue = SerialQueue(*PROCEDURE_ERRORS)
        self.active: ActiveController | None = None
        """While this broker is the active controller."""
        self._failed: dict[ControllerStep, None] = {}
        self._is_closed = False

    # Whether this broker is the active controller, and what is repeated.

    def begin(self, active: ActiveController) -> None:
        """This broker was elected."""
        self.active = active

    def end(self) -> None:
        """Another broker was elected, or is going to be."""
        self.active = None

    def close(self) -> None:
        """Repeat nothing any more."""
        self._is_closed = True

    def repeat(self, step: ControllerStep) -> None:
        """A step is due again, unless `done` is called for it before `take_failed`."""
        self._failed[step] = None

    def done(self, step: ControllerStep) -> None:
        """A step need not be repeated."""
        self._failed.pop(step, None)

    def take_failed(self) -> dict[ControllerStep, None]:
        """The steps that are to be repeated now."""
        failed, self._failed = self._failed, {}
        return failed

    @property
    def election_counts(self) -> tuple[int, int]:
        """Leaders that this broker has elected since it is the active controller, and those of
        unclean elections."""
        if self.active is None:
            return 0, 0
        return self.active.changes.elected, self.active.changes.elected_unclean

    # Requests.

    def topic_name(self, topic_id: UUID) -> str | None:
        """The topic with this id, in the image of the active controller.

        raises  BrokerError NOT_CONTROLLER
        """
        return self._require_active().image.topic_names.get(topic_id)

    def alter_isr(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[tuple[str, AlterIsr]]
    ) -> Pending[list[PartitionState | ErrorCode]]:
        """AlterPartition of a leader; fails also with STALE_BROKER_EPOCH."""
        altered = self._submit(
            lambda active: active.isr_changes.alter_isr(broker_id, broker_epoch, proposals)
        )
        keys = [TopicPartition(topic, proposal.partition) for topic, proposal in proposals]
        self.submit_event(lambda active: active.reassignments.on_isr_changed(keys))
        return altered

    def shut_down_broker(self, broker_id: int, broker_epoch: int) -> Pending[list[TopicPartition]]:
        """ControlledShutdown of a broker; resolves to the partitions that it still leads.

        fails  also with BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH
        """
        return self._submit(lambda active: active.brokers.shut_down(broker_id, broker_epoch))

    def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition]
    ) -> Pending[dict[TopicPartition, int | BrokerError]]:
        """ElectLeaders; resolves to the leader elected, or the error, of each partition."""
        return self._submit(lambda active: active.elections.elect(kind, partitions))

    def alter_reassignments(self, targets: Targets) -> Pending[Refusals]:
        """AlterPartitionReassignments; resolves to the partitions refused."""
        return self._submit(lambda active: active.reassignments.alter(targets))

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> Pending[dict[TopicPartition, PartitionImage]]:
        """ListPartitionReassignments of those named, or of all; after the requests before it."""

        async def under_way(active: ActiveController) -> dict[TopicPartition, PartitionImage]:
            return active.reassignments.under_way(partitions)

        return self._submit(under_way)

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool, requested_by: str
    ) -> Pending[tuple[int, FeatureResults]]:
        """UpdateFeatures; resolves as `FeatureUpdates.update`."""
        return self._submit(
            lambda active: active.features.update(
                updates,
                list(active.image.brokers.values()),
                validate_only=validate_only,
                requested_by=requested_by,
            )
        )

    def _require_active(self) -> ActiveController:
        if self.active is None or not self.active.is_loaded:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        return self.active

    def _submit(
        self, act: Callable[[ActiveController], Coroutine[Pending[Any], None, T]]
    ) -> Pending[T]:
        async def run() -> T:
            active = self._require_active()
            try:
                result = await act(active)
                await active.log_changes(self._clock.monotonic_ms())
                return result
            except ControllerMoved:
                await self.run_guarded(self._on_moved)
                raise BrokerError(ErrorCode.NOT_CONTROLLER) from None
            except CoordinationError as error:
                # Half of it may have been written.
                self.repeat(ControllerStep.LOAD)
                if isinstance(error, SessionExpired):
                    raise BrokerError(ErrorCode.NOT_CONTROLLER) from None
                raise

        return self.queue.submit(run)

    # Events.

    def submit_event(
        self, act: Callable[[ActiveController], Coroutine[Pending[Any], None, None]]
    ) -> None:
        """Something for the active controller to act on, once it has read everything."""

        async def run() -> None:
            active = self.active
            if active is not None and active.is_loaded:
                await act(active)
                await active.log_changes(self._clock.monotonic_ms())

        self.submit_step(ControllerStep.LOAD, run)

    def submit_step(
        self, step: ControllerStep, procedure: Procedure[None], *, is_urgent: bool = False
    ) -> None:
        """Run a procedure after those before it; when it is refused, the step is repeated."""
        self.queue.submit(lambda: self.run_guarded(procedure), is_urgent=is_urgent).on_done(
            partial(self._note_failure, step)
        )

    async def run_guarded(self, procedure: Procedure[None]) -> None:
        """Run; on ControllerMoved drop the active controller and take part in the election."""
        try:
            await procedure()
        except ControllerMoved:
            await self._on_moved()

    def _note_failure(self, step: ControllerStep, pending: Pending[None]) -> None:
        try:
            pending.result()
        except (CoordinationError, BrokerError) as error:
            if not self._is_closed:
                self.repeat(step)
                self._warn(f"the coordination service refused: {error!r}")
