from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.handlers import incremental_alter_configs
from odradek.broker.handlers.shared.handler import Delayed, Reply
from odradek.broker.settings.alter import ConfigResourceType
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.load import make_settings
from odradek.controller.coordination.errors import ConnectionLoss, StorageFailed
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.image import Image, TopicImage
from odradek.controller.znodes.config_znodes import decode_config
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.logging import logger_levels
from odradek.runtime.pending import Pending
from tests.golden.config_scenarios import APPEND, DELETE, SET, SUBTRACT, scenarios
from tests.support.cluster import Cluster
from tests.support.config_requests import (
    LOGGER,
    change,
    context,
    describe,
    replace,
    result_rows,
    values,
)
from tests.support.recorded_configs import recorded, recorded_settings

TOPIC, BROKER, BROKER_LOGGER = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
)
SETTINGS = make_settings({"broker.id": "0"})


class Broker:
    """A broker with a topic t, on an embedded tree."""

    def __init__(self, settings: BrokerSettings = SETTINGS) -> None:
        self.cluster = Cluster()
        self.controller = self.cluster.add(0).controller
        self.controller.admin.create_topic(CreateTopicSpec("t", config={"retention.ms": "1000"}))
        self.context = context(settings, self.controller)

    def change(self, *resources: Any, validate_only: bool = False) -> list[list[Any]]:
        outcome = change(self.context, resources, validate_only=validate_only)
        assert isinstance(outcome, Reply)
        return result_rows(outcome.response)

    def stored(self, path: str) -> dict[str, str]:
        return decode_config(self.cluster.data(f"/config/{path}"))


def test_every_operation_changes_what_is_stored_and_described() -> None:
    broker = Broker()
    assert broker.change(
        (
            TOPIC,
            "t",
            [
                ("segment.ms", SET, "5000"),
                ("cleanup.policy", APPEND, "compact"),
                ("retention.ms", DELETE, None),
            ],
        )
    ) == [[2, "t", 0, None]]
    assert broker.stored("topics/t") == {"segment.ms": "5000", "cleanup.policy": "delete,compact"}
    broker.change((TOPIC, "t", [("cleanup.policy", SUBTRACT, "delete")]))
    described = values(describe(broker.context, TOPIC, "t"))
    assert described["cleanup.policy"] == "compact"
    assert described["segment.ms"] == "5000"
    assert described["retention.ms"] == "604800000"


def test_change_for_all_brokers_and_one_for_this_one_lie_over_each_other() -> None:
    broker = Broker()
    broker.change(
        (BROKER, "", [("num.io.threads", SET, "9")]), (BROKER, "0", [("num.io.threads", SET, "10")])
    )
    assert broker.stored("brokers/<default>") == {"num.io.threads": "9"}
    assert broker.stored("brokers/0") == {"num.io.threads": "10"}
    assert values(describe(broker.context, BROKER, "0"))["num.io.threads"] == "10"
    assert values(describe(broker.context, BROKER, "")) == {"num.io.threads": "9"}
    # 20 is double the value in force, which is this broker's own.
    assert broker.change((BROKER, "0", [("num.io.threads", SET, "20")]))[0][2] == 0
    assert broker.change((BROKER, "0", [("num.io.threads", SET, "41")]))[0][2] == 42


def test_topic_inherits_a_changed_broker_default() -> None:
    broker = Broker()
    broker.change((BROKER, "", [("log.segment.bytes", SET, "5000")]))
    assert values(describe(broker.context, TOPIC, "t"))["segment.bytes"] == "5000"


def test_validate_only_stores_nothing() -> None:
    broker = Broker()
    resources = (TOPIC, "t", [("segment.ms", SET, "5000")])
    assert broker.change(resources, validate_only=True) == [[2, "t", 0, None]]
    assert broker.stored("topics/t") == {"retention.ms": "1000"}
    logger = (BROKER_LOGGER, "0", [(LOGGER.name, SET, "ERROR")])
    assert broker.change(logger, validate_only=True) == [[8, "0", 0, None]]
    assert logger_levels()[LOGGER.name] != "ERROR"


def test_bad_resource_does_not_keep_a_good_one_from_being_stored() -> None:
    broker = Broker()
    answered = broker.change(
        (TOPIC, "missing", [("segment.ms", SET, "5")]),
        (TOPIC, "t", [("segment.ms", SET, "5")]),
        (BROKER, "1", []),
    )
    assert [response[2] for response in answered] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert broker.stored("topics/t")["segment.ms"] == "5"


def test_resource_named_twice_is_changed_by_neither() -> None:
    broker = Broker()
    resource = (TOPIC, "t", [("segment.ms", SET, "5")])
    assert [response[2] for response in broker.change(resource, resource)] == [42, 42]
    assert broker.stored("topics/t") == {"retention.ms": "1000"}


def test_logger_changes_its_level_at_once_and_back() -> None:
    broker = Broker()
    change_of = (BROKER_LOGGER, "0", [(LOGGER.name, SET, "ERROR")])
    assert broker.change(change_of) == [[8, "0", 0, None]]
    assert logger_levels()[LOGGER.name] == "ERROR"
    broker.change((BROKER_LOGGER, "0", [(LOGGER.name, DELETE, None)]))
    assert LOGGER.level == 0


def test_every_recorded_request_gets_the_response_of_apache_kafka() -> None:
    broker = Broker(recorded_settings())
    broker.controller.admin.create_topic(CreateTopicSpec("u"))
    for (kind, resources), expected in zip(scenarios(), recorded()["responses"], strict=True):
        ask = change if kind == "change" else replace
        outcome = ask(broker.context, resources, validate_only=True)
        assert isinstance(outcome, Reply)
        assert [response[:3] for response in result_rows(outcome.response)] == [
            response[:3] for response in expected
        ], resources


class SlowController:
    """Stores when the test says so."""

    def __init__(self) -> None:
        self.broker_id = 0
        self.image = Image(topics={"t": TopicImage("t", ZERO_UUID, {})})
        self.pending: list[Pending[None]] = []
        self.admin = self

    def alter_config(
        self, entity_type: str, entity: str, config: object, *, requested_by: str
    ) -> Pending[None]:
        self.pending.append(Pending())
        return self.pending[-1]


def slow_change(controller: SlowController) -> Delayed:
    surroundings = context(SETTINGS, controller)
    resources = [
        (TOPIC, "t", [("segment.ms", SET, "5")]),
        (TOPIC, "missing", []),
        (BROKER, "", [("log.retention.ms", SET, "5")]),
    ]
    outcome = change(surroundings, resources)
    assert isinstance(outcome, Delayed)
    return outcome


def test_response_waits_until_all_changes_are_stored() -> None:
    controller = SlowController()
    delayed = slow_change(controller)
    assert delayed.watch == tuple(controller.pending)
    assert delayed.timeout_ms == SETTINGS.request_timeout_ms
    assert delayed.attempt() is None
    controller.pending[0].resolve(None)
    assert delayed.attempt() is None
    controller.pending[1].resolve(None)
    assert [response[2] for response in result_rows(delayed.attempt())] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]


def test_error_of_the_store_reaches_its_resource() -> None:
    controller = SlowController()
    delayed = slow_change(controller)
    controller.pending[0].fail(ConnectionLoss())
    controller.pending[1].fail(BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "no controller"))
    answered = result_rows(delayed.attempt())
    assert [response[2] for response in answered] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
    assert answered[2][3] == "no controller"


def test_full_disk_of_the_coordination_returns_kafka_storage_error() -> None:
    controller = SlowController()
    delayed = slow_change(controller)
    controller.pending[0].fail(StorageFailed("No space left on device"))
    controller.pending[1].resolve(None)
    answered = result_rows(delayed.attempt())
    assert [response[2] for response in answered] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert answered[0][3] == "No space left on device"


def test_purgatory_is_notified_when_a_change_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = SlowController()
    surroundings = context(SETTINGS, controller)
    notified: list[object] = []
    watched = SimpleNamespace(notify=notified.append)
    monkeypatch.setattr(surroundings.services, "purgatory", watched)
    change(surroundings, [(TOPIC, "t", [("segment.ms", SET, "5")])])
    assert notified == []
    controller.pending[0].resolve(None)
    assert notified == [controller.pending[0]]


def test_change_that_is_not_stored_in_time_returns_request_timed_out() -> None:
    controller = SlowController()
    delayed = slow_change(controller)
    controller.pending[0].resolve(None)
    assert [response[2] for response in result_rows(delayed.expire())] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
    ]


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b"]])
def test_failed_request_has_its_error_at_every_resource(names: list[str]) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in names
        ],
        validate_only=False,
    )
    response = incremental_alter_configs.failed(request, ErrorCode.UNSUPPORTED_VERSION, "why")
    assert result_rows(response) == [[2, name, 35, "why"] for name in names]
