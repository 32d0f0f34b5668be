"""Whether the level of a feature may be finalized, raised, lowered or removed (KIP-584).

Pure.  Source: Kafka's KafkaController.validateFeatureUpdate, FeatureUpdate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from odradek.protocol.errors import BrokerError, ErrorCode

Supported = Mapping[str, tuple[int, int]]
"""Name -> (lowest, highest) level of one broker."""


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The change of one feature that is requested."""

    name: str
    level: int
    """Below 1: remove it."""
    upgrade_type: UpgradeType


def decide_features(
    current: Mapping[str, int],
    updates: Sequence[FeatureUpdate],
    *,
    own: Supported,
    brokers: Mapping[int, Supported],
) -> tuple[dict[str, int], dict[str, BrokerError | None]]:
    """(the levels after the updates that are allowed, the result of each update).

    own      what the active controller supports
    brokers  what each registered broker supports
    """
    target = dict(current)
    results: dict[str, BrokerError | None] = {}
    for update in updates:
        error = _refusal(current, update) or _unsupported(update, own, brokers)
        results[update.name] = error
        if error is not None:
            continue
        if update.level < 1:
            del target[update.name]
        else:
            target[update.name] = update.level
    return target, results


def _refusal(current: Mapping[str, int], update: FeatureUpdate) -> BrokerError | None:
    level, kind = update.level, update.upgrade_type
    existing = current.get(update.name)
    text = None
    if not update.name:
        text = "Feature name can not be empty."
    elif kind is UpgradeType.UNKNOWN:
        text = "Received unknown upgrade type."
    elif level < 1:
        if kind is UpgradeType.UPGRADE:
            text = (
                f"Can not provide versionLevel: {level} less than 1 without setting the SAFE "
                "downgradeType in the request."
            )
        elif existing is None:
            text = "Can not delete non-existing finalized feature."
    elif existing is None:
        pass
    elif level == existing:
        verb = "downgrade" if kind is UpgradeType.SAFE_DOWNGRADE else "upgrade"
        text = (
            f"Can not {verb} a finalized feature from existing versionLevel:{existing} to the same "
            "value."
        )
    elif level < existing and kind is not UpgradeType.SAFE_DOWNGRADE:
        text = (
            f"Can not downgrade finalized feature from existing versionLevel:{existing} to "
            f"provided versionLevel:{level} without setting the downgradeType to SAFE in the "
            "request."
        )
    elif level > existing and kind is not UpgradeType.UPGRADE:
        text = (
            "When the downgradeType is set to SAFE in the request, the provided "
            f"versionLevel:{level} can not be greater than existing versionLevel:{existing}."
        )
    return None if text is None else BrokerError(ErrorCode.INVALID_REQUEST, text)


def _unsupported(
    update: FeatureUpdate, own: Supported, brokers: Mapping[int, Supported]
) -> BrokerError | None:
    if update.level < 1:
        return None
    if update.name not in own:
        return BrokerError(
            ErrorCode.INVALID_REQUEST,
            "Could not apply finalized feature update because the provided feature is not "
            "supported.",
        )
    if not _supports(own, update) or not all(
        _supports(supported, update) for supported in brokers.values()
    ):
        return BrokerError(
            ErrorCode.INVALID_REQUEST,
            "Could not apply finalized feature update because brokers were found to have "
            "incompatible versions for the feature.",
        )
    return None


def _supports(supported: Supported, update: FeatureUpdate) -> bool:
    lowest, highest = supported.get(update.name, (0, -1))
    return lowest <= update.level <= highest
