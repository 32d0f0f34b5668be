"""Transactions of version 2 (KIP-890): partitions join by a batch, ends raise the epoch."""

from __future__ import annotations

from functools import partial
from struct import unpack_from
from typing import Any, Final

from odradek.broker.transaction.records import read_value, transaction_record
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnResponse
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.records.record import Record
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.chapters.cluster import GROUP, TRANSACTION, wait_for_coordinator
from tests.scripts.chapters.fetch import fetch_request
from tests.scripts.chapters.groups_offsets import Place
from tests.scripts.chapters.transaction_coordinator import SETTINGS as SETTINGS
from tests.scripts.chapters.transaction_coordinator import (
    STATE_TOPIC,
    Producer,
    add_request,
    begin,
    end_request,
    init_request,
    look,
    records_of,
    settle,
    transaction,
)
from tests.scripts.chapters.transactions import marker
from tests.scripts.chapters.transactions_offsets import txn_commit
from tests.scripts.talk import Talk, metadata_of

NAME: Final = "transactions-v2"
PRODUCE: Final = 12
COMMIT: Final = 5
END: Final = 5
MARKERS: Final = 2
MARKED: Final = "transactions-v2-markers"
CONCURRENT_TRANSACTIONS: Final = 51


def play(talk: Talk) -> None:
    """One id for each subject."""
    finalize(talk)
    talk.make_topic(NAME, 4)
    talk.make_topic(MARKED, 3)
    for kind in (GROUP, TRANSACTION):
        wait_for_coordinator(talk, kind)
    ends(talk)
    nothing(talk)
    late_end(talk)
    joining(talk)
    refused_batches(talk)
    offsets(talk)
    fencing(talk)
    timing_out(talk)
    continuing(talk)
    mixed(talk)
    stored(talk)
    markers(talk)
    listing(talk)


def finalize(talk: Talk) -> None:
    """Version 2, which a new cluster of Apache Kafka 4 has already."""
    key = FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)
    response = talk.quiet(UpdateFeaturesRequest(feature_updates=[key]), 1)
    assert response.error_code == 0, response


def send(
    talk: Talk,
    label: str,
    name: str,
    producer: Producer,
    sequence: int = 0,
    *,
    partition: int = 0,
    version: int = PRODUCE,
    topic: str = NAME,
) -> Any:
    """Two records; a response that asks for another attempt is not written down."""
    content = batch(
        2,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    request = produce_request(topic, content, partition=partition, transactional_id=name)
    response = talk.until(
        f"the markers of the last transaction of {name}",
        lambda: talk.quiet(request, version),
        lambda response: (
            response.responses[0].partition_responses[0].error_code != CONCURRENT_TRANSACTIONS
        ),
    )
    talk.write_response(f"{label}, PRODUCE v{version}", response, version)
    return response


def finish(
    talk: Talk, label: str, name: str, producer: Producer, *, is_commit: bool = True
) -> Producer:
    """Commit or abort, and wait for the markers; what the producer goes on with."""
    response: EndTxnResponse = talk.ask(
        label, end_request(name, producer, is_commit=is_commit), END
    )
    settle(talk, name)
    return response.producer_id, response.producer_epoch


def log_of(talk: Talk, label: str, partition: int, *, topic: str = NAME) -> None:
    """What committed readers get of a partition, and its producers."""
    request = fetch_request(topic, ZERO_UUID, 0, partition=partition, isolation_level=1)
    talk.ask(f"{label}: read committed", request, 12)
    places = [TopicRequest(name=topic, partition_indexes=[partition])]
    talk.ask(f"{label}: producers", DescribeProducersRequest(topics=places), 0)


def ends(talk: Talk) -> None:
    """Commit and abort, again, otherwise, and of others."""
    name = "ends"
    producer = begin(talk, name)
    for is_commit in (True, False):
        what = "commit" if is_commit else "abort"
        send(talk, f"{what}: a batch", name, producer)
        look(talk, f"{what}: open", name)
        after = finish(talk, f"{what}: ends", name, producer, is_commit=is_commit)
        look(talk, f"{what}: ended", name)
        talk.ask(f"{what}: again", end_request(name, producer, is_commit=is_commit), END)
        talk.ask(f"{what}: otherwise", end_request(name, producer, is_commit=not is_commit), END)
        past = (producer[0], producer[1] - 1)
        talk.ask(f"{what}: an older epoch", end_request(name, past), END)
        later = (after[0], after[1] + 1)
        talk.ask(f"{what}: a later epoch", end_request(name, later), END)
        talk.ask(f"{what}: another producer", end_request(name, (77, 0)), END)
        producer = after
    log_of(talk, "after both", 0)
    talk.ask("an unknown id ends", end_request("never", (77, 0)), END)
    talk.ask("an empty id ends", end_request("", (77, 0)), END)


def nothing(talk: Talk) -> None:
    """Ends without a transaction."""
    name = "nothing"
    producer = begin(talk, name)
    for state in ("new", "aborted", "committed"):
        talk.ask(f"{state}: commit of nothing", end_request(name, producer), END)
        producer = finish(talk, f"{state}: abort of nothing", name, producer, is_commit=False)
        look(talk, f"{state}: after the abort of nothing", name)
        if state == "aborted":
            send(talk, "something", name, producer)
            producer = finish(talk, "commit of something", name, producer)


def late_end(talk: Talk) -> None:
    """An EndTxn that arrives when the next transaction is open."""
    name = "late"
    first = begin(talk, name)
    send(talk, "the first transaction", name, first, partition=1)
    second = finish(talk, "the first ends", name, first, is_commit=False)
    send(talk, "the second transaction", name, second, partition=1)
    for is_commit in (True, False):
        ended = end_request(name, first, is_commit=is_commit)
        talk.ask(f"the first ends late, commit {is_commit}", ended, END)
        talk.ask(f"the first ends late by version 1, commit {is_commit}", ended, 4)
    look(talk, "the second is open", name)
    finish(talk, "the second ends", name, second)
    log_of(talk, "after a late end", 1)


def joining(talk: Talk) -> None:
    """Partitions that a broker adds, and those that it only verifies."""
    name = "joins"
    producer = begin(talk, name)
    send(talk, "version 1 adds nothing", name, producer, partition=2, version=11)
    talk.ask(
        "a broker adds",
        AddPartitionsToTxnRequest(transactions=[transaction(name, producer, 3, topic=NAME)]),
        5,
    )
    send(talk, "added before", name, producer, partition=3, version=11)
    send(talk, "added by the batch", name, producer, partition=2)
    send(talk, "the next batch", name, producer, 2, partition=2)
    look(talk, "both joined", name)
    producer = finish(talk, "both end", name, producer)
    send(talk, "a sequence of the last epoch", name, producer, 4, partition=2)
    send(talk, "the first sequence", name, producer, partition=2)
    finish(talk, "it ends too", name, producer)
    log_of(talk, "after joining", 2)


def refused_batches(talk: Talk) -> None:
    """Batches of producers that the coordinator does not know so."""
    name = "refused"
    producer = begin(talk, name)
    for version in (11, PRODUCE):
        send(talk, "an unknown id", "never", (77, 0), version=version)
        send(talk, "another producer", name, (77, 0), version=version)
        send(talk, "a later epoch", name, (producer[0], 5), version=version)
        send(talk, "a partition that is not there", name, producer, partition=9, version=version)
    look(talk, "after refusals", name)
    send(talk, "a batch that opens", name, producer, partition=3)
    newer = finish(talk, "it is ended", name, producer)
    for version in (11, PRODUCE):
        send(talk, "the ended epoch", name, producer, 2, partition=3, version=version)
    look(talk, "after the ended epoch", name)
    send(talk, "no first sequence", name, newer, 7, partition=0)
    log_of(talk, "after refused batches", 3)
    name = "first-sequence"
    producer = begin(talk, name)
    send(talk, "version 2 begins with a later sequence", name, producer, 7)
    producer = finish(talk, "it is aborted", name, producer, is_commit=False)
    talk.ask("it is added", add_request(name, producer, 0, topic=NAME), 3)
    send(talk, "version 1 begins with a later sequence", name, producer, 7, version=11)
    talk.ask("it is ended by version 1", end_request(name, producer), 4)
    settle(talk, name)


def offsets(talk: Talk) -> None:
    """A group whose offsets join by their commit."""
    name = "offsets"
    producer = begin(talk, name)
    place: Place = (NAME, 0)

    def commit(label: str, given: Producer, version: int = COMMIT, at: Place = place) -> None:
        request = txn_commit(
            "group-v2", given[0], (at, 5), transactional_id=name, producer_epoch=given[1]
        )
        talk.ask(label, request, version)

    commit("version 1 adds nothing", producer, 4)
    commit("another producer", (77, 0))
    commit("a later epoch", (producer[0], 5))
    commit("a partition that is not there", producer, at=(NAME, 9))
    look(talk, "no offsets joined", name)
    commit("offsets join", producer)
    commit("offsets once more", producer)
    look(talk, "offsets joined", name)
    after = finish(talk, "offsets are committed", name, producer)
    commit("offsets of the ended epoch", producer)
    commit("offsets of the next epoch", after)
    finish(talk, "offsets are aborted", name, after, is_commit=False)


def fencing(talk: Talk) -> None:
    """A second producer ends the transaction of the first one."""
    name = "fenced"
    zombie = begin(talk, name)
    send(talk, "the zombie writes", name, zombie, partition=1)
    talk.ask("the second begins", init_request(name), 5)
    settle(talk, name)
    look(talk, "the zombie's transaction is aborted", name)
    talk.ask("the second begins again", init_request(name), 5)
    send(talk, "the zombie writes late", name, zombie, 2, partition=1)
    for is_commit in (True, False):
        ended = end_request(name, zombie, is_commit=is_commit)
        talk.ask(f"the zombie ends, commit {is_commit}", ended, END)
    talk.ask("the zombie continues", init_request(name, zombie), 5)
    look(talk, "nothing of the zombie", name)


def timing_out(talk: Talk) -> None:
    """A transaction that is open for too long."""
    name = "slow-v2"
    producer = begin(talk, name, timeout_ms=300)
    send(talk, "the slow one writes", name, producer, partition=2)
    request = DescribeTransactionsRequest(transactional_ids=[name])
    talk.until(
        "the time-out",
        lambda: talk.quiet(request, 0).transaction_states[0].transaction_state,
        lambda state: state == "CompleteAbort",
    )
    look(talk, "after the time-out", name)
    send(talk, "it writes late", name, producer, 2, partition=2)
    talk.ask("it commits late", end_request(name, producer), END)
    after = finish(talk, "it aborts late", name, producer, is_commit=False)
    talk.ask("it continues late", init_request(name, producer), 5)
    send(talk, "it goes on", name, after, partition=2)
    finish(talk, "its next transaction ends", name, after)


def continuing(talk: Talk) -> None:
    """KIP-360 between transactions of version 2."""
    name = "continues"
    first = begin(talk, name)
    send(talk, "before it continues", name, first, partition=3)
    second = finish(talk, "it ends before it continues", name, first)
    talk.ask("it continues with the ended epoch", init_request(name, first), 5)
    talk.ask("it continues", init_request(name, second), 5)
    talk.ask("it continues again", init_request(name, second), 5)
    look(talk, "it has continued", name)


def mixed(talk: Talk) -> None:
    """Clients of both versions, one after the other, on one id."""
    name = "mixed"
    old = begin(talk, name)
    talk.ask("version 1 adds", add_request(name, old, 0, topic=NAME), 3)
    send(talk, "version 1 writes", name, old, version=11)
    talk.ask("version 1 ends", end_request(name, old), 4)
    settle(talk, name)
    new = begin(talk, name)
    send(talk, "version 2 writes", name, new)
    new = finish(talk, "version 2 ends", name, new)
    talk.ask("version 1 ends late", end_request(name, old), 4)
    talk.ask("version 1 adds with the epoch of 2", add_request(name, new, 0, topic=NAME), 3)
    send(talk, "version 1 writes with the epoch of 2", name, new, version=11)
    newest = finish(talk, "version 2 ends what version 1 began", name, new)
    talk.ask("version 1 adds again", add_request(name, newest, 0, topic=NAME), 3)
    talk.ask("version 1 ends again", end_request(name, newest), 4)
    settle(talk, name)
    talk.ask("version 1 repeats its end", end_request(name, newest), 4)
    talk.ask("version 2 repeats the end of version 1", end_request(name, newest), END)
    look(talk, "after both versions", name)
    log_of(talk, "after both versions", 0)


def stored(talk: Talk) -> None:
    """The records of each id in their order."""
    written: dict[str, list[Any]] = {}
    partitions = len(talk.quiet(metadata_of([STATE_TOPIC]), 12).topics[0].partitions)
    for partition in range(partitions):
        for record in records_of(talk, partition):
            name, shown = _shown(record)
            written.setdefault(name, []).append(shown)
    for name in sorted(written):
        talk.write(f"stored: {name}", written[name])


def _shown(record: Record) -> tuple[str, list[Any]]:
    """The id, and of the value: version, state, epoch, partitions, whether the id was and will be
    another one, the version of the client, and whether ours has the same bytes."""
    assert record.key is not None, "every record of the topic has a key"
    assert record.value is not None, "no id of the chapter expires"
    (length,) = unpack_from(">h", record.key, 2)
    name = record.key[4 : 4 + length].decode()
    value = read_value(record.value)
    again = transaction_record(name, value, 0, transaction_version=2)
    return name, [
        record.value[1],
        value.state.kafka_name,
        value.producer_epoch,
        sorted(f"{topic}-{index}" for topic, index in value.partitions),
        value.last_producer_id == value.producer_id,
        value.next_producer_id,
        value.client_version,
        (again.key, again.value) == (record.key, record.value),
    ]


def write_marker(
    talk: Talk,
    producer_id: int,
    place: tuple[str, int],
    version: int,
    label: str,
    epoch: int,
    *,
    is_commit: bool = True,
) -> None:
    """The end of a transaction in one partition."""
    one_marker = marker(producer_id, place, epoch=epoch, is_commit=is_commit)
    one_marker.transaction_version = version
    request = WriteTxnMarkersRequest(markers=[one_marker])
    talk.ask(f"a marker of version {version}, {label}", request, MARKERS)


def markers(talk: Talk) -> None:
    """Which epochs a marker of each version of transactions may have."""
    for partition, version in ((0, 2), (1, 1), (2, 0)):
        name = f"marked-{version}"
        begin(talk, name)
        producer_id, epoch = begin(talk, name)

        write = partial(write_marker, talk, producer_id, (MARKED, partition), version)

        write("of an unknown producer", epoch)
        producer = (producer_id, epoch)
        send(talk, f"marked by {version}", name, producer, partition=partition, topic=MARKED)
        write("with the epoch before", epoch - 1)
        write("with the epoch of the batch", epoch)
        write("with the next epoch", epoch + 1, is_commit=False)
        write("repeated", epoch + 1, is_commit=False)
        write("of the transaction before, late", epoch)
        log_of(talk, f"after markers of version {version}", partition, topic=MARKED)


def listing(talk: Talk) -> None:
    """Ids that match a pattern as a whole."""
    for pattern in ("ends", "en.s", "en", "[e]nds|never", "ENDS", "(?i)ENDS", "(", "*", "e{1001}"):
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
        )
        talk.ask(f"ids like {pattern}", request, 2)
    for nothing in (None, ""):
        request = ListTransactionsRequest(
            state_filters=["Dead"], producer_id_filters=[], transactional_id_pattern=nothing
        )
        talk.ask(f"ids with the pattern {nothing!r}", request, 2)
