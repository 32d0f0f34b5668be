"""Passwords among dynamic settings: this broker and Apache Kafka read what the other has stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient

from odradek.broker.settings.load import make_settings
from odradek.broker.settings.password_encoder import decode, encoding
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.runtime.randomness import SystemRandomness
from tests.support.apache import apache_kafka
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

BROKER = 4
SECRET, PASSWORD = "geheim-7", 'pass,word:"ü🙂"'
NAME = "listener.name.plaintext.ssl.key.password"
SOURCE_DYNAMIC_BROKER = 2


class Pair(NamedTuple):
    zookeeper: KazooClient
    addresses: dict[str, str]
    """That of each broker by its id: Apache's is 0."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("secrets")
    with zookeeper(folder / "zookeeper") as address:
        settings = {"password.encoder.secret": SECRET, "zookeeper.connect": f"{address}/kafka"}
        for name in ("apache", "ours"):
            (folder / name).mkdir()
        with (
            apache_kafka(
                folder / "apache", zookeeper_address=f"{address}/kafka", overrides=settings
            ) as apache,
            odradek_broker(folder / "ours", overrides={**settings, "broker.id": "1"}) as ours,
        ):
            client = KazooClient(f"{address}/kafka")
            client.start()
            try:
                yield Pair(client, {"0": apache.address, "1": ours.address})
            finally:
                client.stop()
                client.close()


def store(address: str, broker_id: str, password: str) -> tuple[int, str | None]:
    changes = [AlterableConfig(name=NAME, config_operation=0, value=password)]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker_id, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    with Wire(address) as wire:
        (response,) = wire.call(request, 1).responses
    return response.error_code, response.error_message


def described(address: str, broker_id: str) -> list[tuple[int, str | None, bool]]:
    """Source, value and secrecy of the setting, if the broker has it."""
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=broker_id, configuration_keys=[NAME]
    )
    with Wire(address) as wire:
        (result,) = wire.call(
            DescribeConfigsRequest(
                resources=[resource], include_synonyms=True, include_documentation=False
            ),
            4,
        ).results
    assert all(synonym.value is None for config in result.configs for synonym in config.synonyms)
    return [(config.config_source, config.value, config.is_sensitive) for config in result.configs]


def is_described(
    address: str, broker_id: str, expected: Sequence[tuple[int, str | None, bool]]
) -> bool:
    return described(address, broker_id) == expected


def stored(pair: Pair, broker_id: str) -> Any:
    return json.loads(pair.zookeeper.get(f"/config/brokers/{broker_id}")[0])["config"]


@pytest.mark.parametrize("broker_id", ["0", "1"])
def test_password_is_stored_encoded_and_shown_by_no_broker(pair: Pair, broker_id: str) -> None:
    address = pair.addresses[broker_id]
    assert store(address, broker_id, PASSWORD) == (0, None)
    text = stored(pair, broker_id)[NAME]
    assert PASSWORD not in text
    assert decode(SECRET, text) == PASSWORD
    expected = [(SOURCE_DYNAMIC_BROKER, None, True)]
    wait_until("the change", partial(is_described, address, broker_id, expected))


@pytest.mark.parametrize("bits", ["128", "256"])
def test_apache_decodes_what_this_encoder_has_encoded(pair: Pair, bits: str) -> None:
    settings = make_settings({
        "password.encoder.secret": SECRET,
        "password.encoder.key.length": bits,
    })  # fmt: skip
    by = encoding(settings.raw)
    assert by is not None
    text = by.encode(PASSWORD, SystemRandomness().bytes)
    encoded = {NAME: text}
    shown = [(SOURCE_DYNAMIC_BROKER, None, True)]
    for config, expected in (({}, []), (encoded, shown), ({NAME: f"{text[:-9]}AAAAAAAA"}, [])):
        content = json.dumps({"version": 1, "config": config}).encode()
        pair.zookeeper.ensure_path("/config/brokers/0")
        pair.zookeeper.set("/config/brokers/0", content)
        change = json.dumps({"version": 2, "entity_path": "brokers/0"}).encode()
        pair.zookeeper.create("/config/changes/config_change_", change, sequence=True)
        wait_until("Apache", partial(is_described, pair.addresses["0"], "0", expected))
