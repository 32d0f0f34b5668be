from odradek.broker.handlers import alter_configs
from odradek.broker.handlers.shared.handler import Reply
from odradek.broker.settings.alter import ConfigResourceType
from odradek.broker.settings.load import make_settings
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from tests.support.cluster import Cluster
from tests.support.config_requests import context, describe, replace, result_rows, values


def test_config_that_alter_configs_does_not_name_is_reset_to_its_default() -> None:
    controller = Cluster().add(0).controller
    controller.admin.create_topic(
        CreateTopicSpec("t", config={"retention.ms": "1", "segment.ms": "2"})
    )
    surroundings = context(make_settings({"broker.id": "0"}), controller)
    outcome = replace(surroundings, [(ConfigResourceType.TOPIC, "t", [("segment.ms", "3")])])
    assert isinstance(outcome, Reply)
    assert result_rows(outcome.response) == [[2, "t", 0, None]]
    assert controller.image.topic_configs["t"] == {"segment.ms": "3"}
    assert (
        values(describe(surroundings, ConfigResourceType.TOPIC, "t"))["retention.ms"] == "604800000"
    )


def test_validating_stores_nothing_and_a_refusal_says_why() -> None:
    controller = Cluster().add(0).controller
    controller.admin.create_topic(CreateTopicSpec("t", config={"retention.ms": "1"}))
    surroundings = context(make_settings({"broker.id": "0"}), controller)
    resources = [
        (ConfigResourceType.TOPIC, "t", [("segment.ms", "3")]),
        (ConfigResourceType.BROKER, "0", [("num.partitions", "3")]),
    ]
    outcome = replace(surroundings, resources, validate_only=True)
    assert isinstance(outcome, Reply)
    assert result_rows(outcome.response) == [
        [2, "t", 0, None],
        [4, "0", 42, "Cannot update these configs dynamically: num.partitions"],
    ]
    assert controller.image.topic_configs["t"] == {"retention.ms": "1"}


def test_failed_request_has_its_error_at_every_resource() -> None:
    request = AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name="a", configs=[])],
        validate_only=False,
    )
    response = alter_configs.failed(request, ErrorCode.UNSUPPORTED_VERSION, "why")
    assert result_rows(response) == [[2, "a", 35, "why"]]
