"""Responses that wait for the coordination's syncs: what a first use creates, producer ids."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.handlers import find_coordinator, init_producer_id, metadata
from odradek.broker.handlers.shared.handler import Context, Delayed, Handler, Reply
from odradek.broker.quota.client_quotas import ClientQuotas
from odradek.broker.topics import OFFSETS_TOPIC, Topics
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.runtime.testing.memory_files import MemoryFileSystem
from tests.support.handlers import outcome_of
from tests.support.stored_node import FOLDER, StoredNode


class Client:
    """Requests to a node whose threads are held."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem(folders=[FOLDER])
        self.node = StoredNode(self.files, seed=1, entries_max=1_000)

    def ask(self, handler: Any, request: Any, version: int, **parts: Any) -> AwaitedResponse:
        node = self.node
        services: Any = SimpleNamespace(
            settings=node.settings,
            authorizer=None,
            topics=node.topics,
            auto_topic_creation=node.topic_creation,
            purgatory=node.purgatory,
            client_quotas=ClientQuotas(11, 1_000, 11, 1_000),
        )
        context = Context(services, version, "c", 0, "PLAINTEXT", "192.0.2.1", 1)
        try:
            outcome = outcome_of(handler.run(context, request, **parts))
        except BrokerError as error:
            outcome = Reply(handler.failed(request, error.code, error.message))
        return AwaitedResponse(node, handler, request, outcome)

    def run_notified(self, awaited: list[AwaitedResponse]) -> None:
        """Attempt all that wait: each call attempts one at least, and ends with its slice."""
        for _ in awaited:
            self.node.purgatory.run_notified()

    def ask_for_topics(self, *names: str) -> AwaitedResponse:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return self.ask(metadata, MetadataRequest(topics=topics), 9)

    def ask_for_coordinator(self) -> AwaitedResponse:
        return self.ask(find_coordinator, FindCoordinatorRequest(key="group", key_type=0), 3)

    def ask_for_producer_id(self) -> AwaitedResponse:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
        )
        return self.ask(init_producer_id, request, 4, producer_ids=self.node.producer_ids)


class AwaitedResponse:
    """A response, now or later."""

    def __init__(self, node: StoredNode, handler: Handler, request: Any, outcome: Any) -> None:
        self.node = node
        self.response: Any = None
        self.delayed: Delayed | None = None
        if isinstance(outcome, Reply):
            self.response = outcome.response
            return
        assert isinstance(outcome, Delayed)

        def attempt() -> Any:
            try:
                return outcome_of(outcome.attempt())
            except BrokerError as error:
                return handler.failed(request, error.code, error.message)

        def expire() -> Any:
            return outcome_of(outcome.expire())

        self.delayed = Delayed(outcome.watch, outcome.timeout_ms, attempt, expire)
        node.purgatory.park(self.delayed, 0, self._take)

    def _take(self, response: Any) -> None:
        self.response = response

    def after_syncs(self) -> Any:
        self.node.threads.settle()
        self.node.purgatory.run_notified()
        return self.response


@pytest.fixture
def client() -> Client:
    return Client()


def test_metadata_waits_until_a_topic_of_first_use_is_durable_and_led(client: Client) -> None:
    request = client.ask_for_topics("t", "u")
    client.node.threads.work()
    client.node.purgatory.run_notified()
    assert request.response is None
    response = request.after_syncs()
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", 0), ("u", 0)]
    assert [part.leader_id for topic in response.topics for part in topic.partitions] == [0, 0]


def test_metadata_that_waits_too_long_has_the_error_for_which_clients_ask_again(
    client: Client,
) -> None:
    request = client.ask_for_topics("t")
    assert request.delayed is not None
    response = request.delayed.expire()
    assert [topic.error_code for topic in response.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]


def test_metadata_without_a_controller_waits_and_then_has_an_error_for_each_topic(
    client: Client,
) -> None:
    client.node.topics = Topics(MetadataCache())
    waiting = client.ask_for_topics("t", "u")
    assert waiting.delayed is not None
    assert waiting.delayed.timeout_ms == 5_000
    assert waiting.delayed.attempt() is None
    response = waiting.delayed.expire()
    assert response.brokers == []
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("t", ErrorCode.LEADER_NOT_AVAILABLE),
        ("u", ErrorCode.LEADER_NOT_AVAILABLE),
    ]


def test_metadata_topic_of_kraft_is_not_created_by_its_first_use(client: Client) -> None:
    (topic,) = client.ask_for_topics("__cluster_metadata").response.topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    client.node.threads.settle()
    assert client.node.controller.image.topics == {}


def test_requests_for_the_same_topic_join_one_creation(client: Client) -> None:
    awaited = [client.ask_for_topics("t") for _ in range(20)]
    client.node.threads.settle()
    client.run_notified(awaited)
    assert {request.response.topics[0].topic_id for request in awaited} == {
        client.node.controller.image.topics["t"].topic_id
    }
    journal = client.files.read(f"{FOLDER}/coordination.journal.00000000000000000001")
    assert journal.count(b'/brokers/topics/t\x7b"partitions"') == 1


def test_refused_creation_is_reported_without_waiting(client: Client) -> None:
    response = client.ask_for_topics("not/a/name").response
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_full_disk_leaves_the_client_asking_again(client: Client) -> None:
    client.files.fail_operation(1, OSError(errno.ENOSPC, "full"))
    request = client.ask_for_topics("t")
    response = request.response or request.after_syncs()
    assert [topic.error_code for topic in response.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert client.ask_for_topics("t").after_syncs().topics[0].error_code == ErrorCode.NONE


def test_find_coordinator_waits_for_the_offsets_topic(client: Client) -> None:
    request = client.ask_for_coordinator()
    assert request.response is None
    response = request.after_syncs()
    assert (response.error_code, response.node_id) == (ErrorCode.NONE, 0)
    assert len(client.node.controller.image.topics[OFFSETS_TOPIC].partitions) == 2
    assert client.ask_for_coordinator().response.error_code == ErrorCode.NONE


def test_producers_wait_for_their_block_of_ids(client: Client) -> None:
    awaited = [client.ask_for_producer_id() for _ in range(3)]
    assert [request.response for request in awaited] == [None] * 3
    client.node.threads.settle()
    client.run_notified(awaited)
    assert [request.response.producer_id for request in awaited] == [0, 1, 2]
    assert client.ask_for_producer_id().response.producer_id == 3


def test_producers_ask_again_when_no_block_can_be_stored(client: Client) -> None:
    client.files.fail_operation(1, OSError(errno.ENOSPC, "full"))
    request = client.ask_for_producer_id()
    response = request.response or request.after_syncs()
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.ask_for_producer_id().after_syncs().producer_id == 0
