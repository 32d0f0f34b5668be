"""UpdateFeatures (key 57): finalizes levels of features, for all brokers of the cluster (KIP-584).

Served: 0-1, by the controller.  The response is sent when this broker has the new levels.
    0   `allow_downgrade`
    1   kinds of downgrade, validation only (KIP-778)
The only feature is `transaction.version`: 2 turns on transactions of version 2 (KIP-890).
Not served: 2, in which one refused feature refuses the request; Kafka in ZooKeeper mode has 1 too.
Errors of a feature: INVALID_REQUEST, FEATURE_UPDATE_FAILED (the coordination service refused).
    Of the request: NOT_CONTROLLER, REQUEST_TIMED_OUT.
Source: Kafka's KafkaApis.handleUpdateFeatures, KafkaController.processFeatureUpdates.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Delayed, top_level
from odradek.broker.handlers.shared.waiting import wait_for
from odradek.broker.security.acl.permission import ALTER_CLUSTER
from odradek.controller.active.feature_updates import FeatureResults
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.decide.features import FeatureUpdate, UpgradeType
from odradek.controller.znodes.zk_data import BadZnode
from odradek.protocol.errors import ERROR_TEXTS, BrokerError, ErrorCode
from odradek.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.runtime.pending import Pending

UPGRADE_TYPES_FROM = 1


failed = top_level(UpdateFeaturesResponse)


def run(context: Context, request: UpdateFeaturesRequest) -> Delayed:
    """Have the controller finalize, then wait until this broker has read it."""
    if not is_authorized(context, ALTER_CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        raise BrokerError(code, ERROR_TEXTS[code])
    controller = context.services.controller
    updates = [_update(context, update) for update in request.feature_updates]
    written: Pending[tuple[int, FeatureResults]] = Pending()

    def settle(done: Pending[tuple[int, FeatureResults]]) -> None:
        try:
            written.resolve(done.result())
        except BrokerError as error:
            written.fail(error)
        except (CoordinationError, BadZnode):
            failure = BrokerError(ErrorCode.FEATURE_UPDATE_FAILED)
            written.resolve((-1, {update.name: failure for update in updates}))

    controller.requests.update_features(
        updates, validate_only=request.validate_only, requested_by=context.requester
    ).on_done(settle)

    def respond(result: tuple[int, FeatureResults]) -> UpdateFeaturesResponse | None:
        epoch, results = result
        return _response(results) if controller.features.epoch >= epoch else None

    def expire() -> UpdateFeaturesResponse:
        return failed(request, ErrorCode.REQUEST_TIMED_OUT, None)

    return wait_for(
        context,
        written,
        request.timeout_ms,
        respond=respond,
        expire=expire,
        watch=(controller.features,),
    )


def _update(context: Context, update: FeatureUpdateKey) -> FeatureUpdate:
    kind = update.upgrade_type
    if context.version < UPGRADE_TYPES_FROM:
        kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    is_known = kind in tuple(UpgradeType)
    return FeatureUpdate(
        update.feature,
        update.max_version_level,
        UpgradeType(kind) if is_known else UpgradeType.UNKNOWN,
    )


def _response(results: FeatureResults) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            UpdatableFeatureResult(
                feature=name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for name, error in results.items()
        ],
    )
