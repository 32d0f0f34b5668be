"""The versions by which `odradek broker-api-versions` says what clients of Kafka 3.9 can use."""

from __future__ import annotations

from odradek.tools.broker_api_versions import LATEST, OF_CONTROLLERS, name_of, rows
from tests.support import upstream_schemas


def test_table_of_versions_is_that_of_kafka_3_9() -> None:
    requests = {
        schema["apiKey"]: schema
        for schema in upstream_schemas.schemas("3.9.2").values()
        if schema["type"] == "request"
    }
    assert sorted(requests) == list(range(len(LATEST)))
    for key, schema in requests.items():
        oldest, _, latest = schema["validVersions"].partition("-")
        assert (oldest, latest or oldest) == ("0", str(LATEST[key])), schema["name"]
        assert (schema["listeners"] == ["controller"]) == (key in OF_CONTROLLERS), schema["name"]
        assert f"{name_of(key)}Request" == schema["name"]


def test_versions_are_usable_up_to_those_of_both_sides() -> None:
    served = {0: (0, 5), 1: (3, 99), 2: (50, 60), 4: (1, 1), 3000: (0, 7), 3001: (2, 2)}
    texts = {text.partition(":")[0]: text for text in rows(served)}
    assert texts["Produce(0)"] == "Produce(0): 0 to 5 [usable: 5]"
    assert texts["Fetch(1)"] == "Fetch(1): 3 to 99 [usable: 17]"
    assert texts["ListOffsets(2)"] == "ListOffsets(2): 50 to 60 [unusable: node too new]"
    assert texts["Metadata(3)"] == "Metadata(3): UNSUPPORTED"
    assert texts["LeaderAndIsr(4)"] == "LeaderAndIsr(4): 1 [usable: 1]"
    assert texts["StopReplica(5)"] == "StopReplica(5): UNSUPPORTED"
    assert "Vote(52)" not in texts
    assert texts["UNKNOWN(3000)"] == "UNKNOWN(3000): 0 to 7"
    assert list(texts)[-1] == "UNKNOWN(3001)"
