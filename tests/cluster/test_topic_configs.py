"""Settings of topics that one broker alters, as the others describe them."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import Wire

TOPIC = "records"
TOPIC_RESOURCE = 2
KEY = "retention.ms"
SET = 0


def alter(broker: Wire, value: str) -> None:
    change = AlterableConfig(name=KEY, config_operation=SET, value=value)
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (done,) = broker.call(request, 1).responses
    assert ErrorCode(done.error_code) is ErrorCode.NONE, done.error_message


def described(broker: Wire) -> str:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configuration_keys=[KEY]
    )
    (result,) = broker.call(DescribeConfigsRequest(resources=[resource]), 4).results
    ((value,),) = [[config.value for config in result.configs]]
    assert isinstance(value, str)
    return value


def test_change_is_described_at_once_by_every_broker(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, partitions=1)
    brokers = [Wire(address) for address in cluster.bootstrap.split(",")]
    for number in range(30):
        value = str(100_000 + number)
        alter(brokers[number % len(brokers)], value)
        assert [described(broker) for broker in reversed(brokers)] == [value] * len(brokers)
    for broker in brokers:
        broker.close()
