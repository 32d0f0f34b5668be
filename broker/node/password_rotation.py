"""Replaces password.encoder.old.secret: passwords that it encodes get the text of the new one.

Source: Kafka's DynamicBrokerConfig.maybeReEncodePasswords.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.password_encoder import OLD_SECRET, decoded, encoded, encoding
from odradek.controller.controller import Controller
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.znodes.dynamic_configs import BROKERS
from odradek.protocol.errors import BrokerError
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import Randomness

logger = logging.getLogger("odradek")


def replace_old_secret(settings: BrokerSettings, controller: Controller, rng: Randomness) -> None:
    """Store this broker's passwords again, if there is a former secret and one has its text."""
    by = encoding(settings.raw)
    if by is None or not settings.raw[OLD_SECRET]:
        return

    def change(stored: Mapping[str, str]) -> Mapping[str, str]:
        texts, _ = decoded(settings.raw, stored)
        return {**stored, **encoded(by, texts, stored, rng.bytes)}

    entity = str(controller.broker_id)
    stored = controller.image.broker_configs.get(entity, {})
    if change(stored) != stored:
        controller.admin.alter_config(BROKERS, entity, change, requested_by=OLD_SECRET).on_done(
            _report
        )


def _report(done: Pending[None]) -> None:
    try:
        done.result()
    except (BrokerError, CoordinationError) as error:
        logger.warning("passwords keep the text of %s: %r", OLD_SECRET, error)
    else:
        logger.info("passwords with the text of %s are encoded again", OLD_SECRET)
