"""A mirror while a cluster is unavailable, and the report of its failure."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import monotonic
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient

from odradek.pipeline.cli import FAILED, main
from odradek.pipeline.jobs import lifecycle
from odradek.pipeline.mirror import clusters
from odradek.pipeline.mirror.clusters import ClusterUnavailable
from odradek.pipeline.mirror.flow import Flow, Written
from odradek.pipeline.mirror.offsets import Run
from tests.pipeline.mirroring import (
    TIMEOUT_S,
    Sent,
    commit,
    committed,
    create,
    file,
    mirror_of,
    mirror_process,
    partitions_of,
    send,
    until,
)
from tests.support.broker_process import odradek_broker
from tests.support.ports import free_port

START_TIMEOUT_S = 300.0
WITH_UI = (
    *("--set", 'mirror.spark."spark.ui.enabled"=true'),
    *("--set", 'mirror.spark."spark.ui.port"=0'),
)


def now_ms() -> int:
    """The time of heartbeats."""
    return 1_700_000_000_000


def test_batch_waits_for_an_unavailable_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        odradek_broker(tmp_path / "east") as east,
        odradek_broker(tmp_path / "west") as west,
        ThreadPoolExecutor() as threads,
    ):
        mirror = mirror_of(file(east.address, west.address, name="away", pattern="away.*"))
        stop = Event()
        flow = Flow(mirror, now_ms=now_ms, is_stopped=stop.is_set)
        flow.open(is_new=True)
        west.kill()
        create(east.address, "away", 2)
        monkeypatch.setattr(clusters, "REQUEST_S", 0.5)
        monkeypatch.setattr(clusters, "RESPONSE_TIMEOUT_S", 0.3)
        planned = threads.submit(flow.plan)
        until(lambda: "the batch waits" in caplog.text, "the batch waits for the target")
        monkeypatch.setattr(clusters, "RESPONSE_TIMEOUT_S", 300.0)
        west.start()
        assert planned.result(TIMEOUT_S).names["away"] == "east.away"
        assert partitions_of(west.address)["east.away"] == 2

        # After a stop neither a batch nor a turn waits for the target.
        west.kill()
        planned = threads.submit(flow.plan)
        stop.set()
        began_s = monotonic()
        with pytest.raises(ClusterUnavailable, match="cluster west at"):
            planned.result(TIMEOUT_S)
        flow.turn()
        assert monotonic() - began_s < 150.0, "shorter than the time-out of a response"


def test_group_continues_at_the_start_of_a_topic_that_the_target_has_lost(tmp_path: Path) -> None:
    with odradek_broker(tmp_path / "east") as east, odradek_broker(tmp_path / "west") as west:
        mirror = mirror_of(file(east.address, west.address, name="lost", pattern="lost"))
        flow = Flow(mirror, now_ms=now_ms)
        create(east.address, "lost", 1)
        flow.open(is_new=True)
        for address, topic in ((east.address, "lost"), (west.address, "east.lost")):
            send(address, topic, [Sent(0, b"%d" % n) for n in range(50)])
        flow.note([Written("lost", 0, Run(0, 0, 50), 0)])
        commit(east.address, "lost-group", "lost", {0: 30})
        flow.turn()
        assert committed(west.address, "lost-group", "east.lost") == {0: 30}
        admin = AdminClient({"bootstrap.servers": west.address})
        admin.delete_topics(["east.lost"])["east.lost"].result(TIMEOUT_S)
        until(lambda: "east.lost" not in partitions_of(west.address), "the topic is deleted")

        def continues_at_the_start() -> bool:
            # A turn may come while the controller still deletes: then the next one creates.
            flow.turn()
            return committed(west.address, "lost-group", "east.lost") == {0: 0}

        until(continues_at_the_start, "the group is at the start of the topic made again")

        # The same after a restart, and when the group has committed on the source.
        commit(east.address, "lost-group", "lost", {0: 40})
        again = Flow(mirror, now_ms=now_ms)
        again.open(is_new=False)
        again.turn()
        assert committed(west.address, "lost-group", "east.lost") == {0: 0}
        plan = again.plan()
        assert plan.last["lost", 0] == (-1, -1)


def test_unreachable_cluster_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "REACH_TIMEOUT_S", 0.3)
    monkeypatch.setattr(clusters, "RESPONSE_TIMEOUT_S", 1.0)
    unused = f"127.0.0.1:{free_port()}"
    path = tmp_path / "my.toml"
    with odradek_broker(tmp_path / "east") as east:
        path.write_text(file(east.address, unused, name="unreachable", pattern=".*"))
        assert main(["mirror", str(path)]) == FAILED
        error_text = capsys.readouterr().err
        assert error_text == f"{path}: target: no broker responds: {unused}: Connection refused\n"
        taken = ["--metrics-port", str(east.port)]
        assert main(["mirror", str(path), *taken]) == lifecycle.BAD_COMMAND
        assert "Address already in use" in capsys.readouterr().err
    with pytest.raises(
        ClusterUnavailable, match=f"cluster west at {unused} does not respond within 1 s"
    ):
        clusters.ClusterClient(mirror_of(path.read_text()).target).topics()


@pytest.mark.timeout(900)
def test_mirror_has_a_page_and_its_failure_is_its_last_line(tmp_path: Path) -> None:
    with odradek_broker(tmp_path / "east") as east, odradek_broker(tmp_path / "west") as west:
        create(east.address, "taken", 1)
        send(east.address, "taken", [Sent(0, b"v")])
        path = tmp_path / "my.toml"
        path.write_text(
            file(
                *(east.address, west.address),
                name="taken",
                pattern="taken",
                mode="stream",
                # Without one Spark looks for records all the time: ten seconds of a processor.
                more='trigger = "1 second"',
            )
        )
        with mirror_process(path, *WITH_UI) as process:
            process.wait_for_line(r"^taken: batch \d+", timeout_s=START_TIMEOUT_S)
            line = process.wait_for_line(r"^Spark UI: http", timeout_s=START_TIMEOUT_S)
            with urlopen(line.removeprefix("Spark UI: "), timeout=START_TIMEOUT_S) as page:
                assert b"Spark" in page.read()
            admin = AdminClient({"bootstrap.servers": east.address})
            admin.delete_topics(["taken"])["taken"].result(TIMEOUT_S)
            assert process.wait(timeout_s=START_TIMEOUT_S) == FAILED
            assert process.lines()[-1].startswith(
                f"{path}: records were deleted before they were read: Partitions Set(taken-0)"
            )
            assert "Traceback" not in process.tail()
