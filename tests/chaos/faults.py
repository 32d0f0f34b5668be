"""What a run does to a cluster.  Each fault shows that it bites, and is taken back.

The faults of a lane follow each other; those of different lanes are there at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

from tests.chaos.scene import BROKERS, HOLD_MAX_S, SESSION_S, Lane, Toothless

BITE_S: Final = 30.0
TURN_S: Final = 4.0
"""Longer than the time between two checkpoints of the high watermarks."""
POLL_S: Final = 0.05
SLOWEST_KBITS: Final = 64
FASTEST_KBITS: Final = 256
PAUSED: Final = "T"
ZOMBIE: Final = "Z"
ENDED: Final = ""

Fault = Callable[[Lane], str]


def wait_for_bite(bitten: Callable[[], bool], what: str) -> None:
    """Raises Toothless when nothing happens."""
    deadline = monotonic() + BITE_S
    while not bitten():
        if monotonic() > deadline:
            raise Toothless(f"{what}, and nothing happened in {BITE_S} s")
        Event().wait(POLL_S)


# Brokers and their disks.


def state_of(pid: int) -> str:
    """That of a process, as ps shows it; `ENDED` when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ENDED


def end(pid: int, end_it: Callable[[], None], what: str) -> None:
    """End a process; raises Toothless when it had ended by itself, or does not end."""
    if state_of(pid) in (ENDED, ZOMBIE):
        raise Toothless(f"{what} had ended by itself")
    end_it()
    if state_of(pid) not in (ENDED, ZOMBIE):
        raise Toothless(f"{what} runs on")


def kill_broker(lane: Lane, victim: int) -> None:
    """SIGKILL."""
    pid = lane.cluster.brokers[victim].process.pid
    end(pid, lambda: lane.cluster.kill(victim), f"broker {victim}")


def stop_broker(lane: Lane, victim: int) -> None:
    """SIGTERM; the stop is in order."""
    pid = lane.cluster.brokers[victim].process.pid
    end(pid, lambda: lane.cluster.stop(victim), f"broker {victim}")


def kill(lane: Lane) -> str:
    """SIGKILL, and a start."""
    victim = lane.broker()
    kill_broker(lane, victim)
    lane.hold(0.0, HOLD_MAX_S)
    lane.cluster.start(victim)
    return f"kill {victim}"


def kill_two(lane: Lane) -> str:
    """SIGKILL of two brokers, shortly after each other."""
    first = lane.broker()
    second = lane.random.choice(lane.others(first))
    for victim in (first, second):
        kill_broker(lane, victim)
        lane.hold(0.0, 2.0)
    for victim in (first, second):
        lane.cluster.start(victim)
    return f"kill {first} and {second}"


def stop(lane: Lane) -> str:
    """SIGTERM, and a start."""
    victim = lane.broker()
    stop_broker(lane, victim)
    lane.hold(0.0, 2.0)
    lane.cluster.start(victim)
    return f"stop {victim}"


def roll(lane: Lane) -> str:
    """Each broker is stopped and started in turn."""
    order = lane.random.sample(BROKERS, len(BROKERS))
    for victim in order:
        stop_broker(lane, victim)
        lane.cluster.start(victim)
    return f"restart {', '.join(map(str, order))} in turn"


def pause(lane: Lane) -> str:
    """SIGSTOP, shorter or longer than a session."""
    victim = lane.broker()
    pid = lane.cluster.brokers[victim].process.pid
    lane.cluster.pause(victim)
    lane.hold(0.5, HOLD_MAX_S)
    state = state_of(pid)
    lane.cluster.resume(victim)
    if state.upper() != PAUSED:
        raise Toothless(f"the paused broker was in state {state}")
    return f"pause {victim}"


def fill_disk(lane: Lane) -> str:
    """The disk of a directory is full; a broker that has lost directories is started again."""
    victim = lane.broker()
    disk = lane.random.choice(lane.scene.disks[victim])
    disk.fill()
    is_full = disk.is_full
    lane.hold(1.0, SESSION_S)
    disk.free()
    is_damaged = lane.scene.restart_damaged(victim)
    if not is_full:
        raise Toothless("the disk was not full")
    return f"fill {disk.path.name} of {victim}{', which lost it' if is_damaged else ''}"


def fail_syncs(lane: Lane) -> str:
    """fsync fails in one directory, which goes offline; then it is started with good disks.

    A directory without a log that is written to is not synced: the next one has its turn then.
    """
    victim = lane.broker()
    paths = [disk.path for disk in lane.scene.disks[victim]]
    lane.random.shuffle(paths)
    syncs = lane.scene.syncs[victim]
    turns = cycle(paths)
    directory = next(turns)
    syncs.begin(directory)
    turn_began_s = monotonic()

    def has_failed() -> bool:
        nonlocal directory, turn_began_s
        if syncs.failed() > 0:
            return True
        if monotonic() - turn_began_s > TURN_S:
            directory, turn_began_s = next(turns), monotonic()
            syncs.turn_to(directory)
        return False

    try:
        wait_for_bite(has_failed, f"fsync fails in {', '.join(map(str, paths))} in turn")
        wait_for_bite(lambda: lane.scene.is_damaged(victim), f"{syncs.failed()} fsyncs have failed")
    finally:
        syncs.end()
    lane.hold(0.0, 2.0)
    lane.scene.restart_damaged(victim)
    repeated = syncs.repeated()
    assert not repeated, f"fsync was called again after it had failed: {repeated}"
    return f"fail fsync in {directory.name} of {victim}"


# The network.


def cut_both(lane: Lane, machine: str, other: str) -> None:
    """Neither machine receives what the other sends."""
    lane.network.cut(machine, other)
    lane.network.cut(other, machine)


def hold_and_heal(lane: Lane) -> None:
    """Let a fault of the network last, beyond a session or not, and until packets were dropped."""
    lane.hold(0.5, HOLD_MAX_S)
    try:
        wait_for_bite(lambda: lane.network.dropped() > 0, "packets are dropped")
    finally:
        lane.network.heal()


def isolate(lane: Lane) -> str:
    """A broker receives nothing."""
    victim = lane.broker()
    lane.network.isolate(f"b{victim}")
    hold_and_heal(lane)
    return f"isolate {victim}"


def cut_from_brokers(lane: Lane) -> str:
    """A broker and the others cannot reach each other; ZooKeeper and clients can."""
    victim = lane.broker()
    for other in lane.others(victim):
        cut_both(lane, f"b{victim}", f"b{other}")
    hold_and_heal(lane)
    return f"cut {victim} from the brokers"


def cut_one_way(lane: Lane) -> str:
    """What a broker sends to the others is lost, or what they send to it."""
    victim = lane.broker()
    is_inbound = lane.random.random() < 0.5
    for other in lane.others(victim):
        source, target = (other, victim) if is_inbound else (victim, other)
        lane.network.cut(f"b{source}", f"b{target}")
    hold_and_heal(lane)
    return f"cut {'to' if is_inbound else 'from'} {victim} one way"


def cut_from_zookeeper(lane: Lane) -> str:
    """A broker reaches all but the ensemble."""
    victim = lane.broker()
    for number in BROKERS:
        lane.network.cut(f"z{number}", f"b{victim}")
    hold_and_heal(lane)
    return f"cut {victim} from ZooKeeper"


def cut_ring(lane: Lane) -> str:
    """Two brokers cannot reach each other, the third reaches both."""
    victim = lane.broker()
    other = lane.random.choice(lane.others(victim))
    cut_both(lane, f"b{victim}", f"b{other}")
    hold_and_heal(lane)
    return f"cut {victim} from {other}"


def split(lane: Lane) -> str:
    """A broker and a server of ZooKeeper are the minority; clients reach both sides."""
    victim, server = lane.broker(), lane.random.choice(BROKERS)
    majority = [f"b{broker_id}" for broker_id in lane.others(victim)] + [
        f"z{server_id}" for server_id in lane.others(server)
    ]
    for machine in (f"b{victim}", f"z{server}"):
        for other in majority:
            cut_both(lane, machine, other)
    hold_and_heal(lane)
    return f"split {victim} and zookeeper {server} from the majority"


def lose_packets(lane: Lane) -> str:
    """A broker loses a third of what it receives."""
    victim = lane.broker()
    lane.network.lose(f"b{victim}", 0.33)
    hold_and_heal(lane)
    return f"lose packets of {victim}"


def slow_link(lane: Lane) -> str:
    """The link of a broker carries little."""
    victim = lane.broker()
    name = f"b{victim}"
    kilobits = lane.random.randint(SLOWEST_KBITS, FASTEST_KBITS)
    lane.network.slow(name, kilobits)
    lane.hold(1.0, HOLD_MAX_S)
    try:
        wait_for_bite(lambda: lane.network.waited(name) > 0, f"{victim} has {kilobits} kbit/s")
    finally:
        lane.network.hasten(name)
    return f"slow the link of {victim} to {kilobits} kbit/s"


# ZooKeeper.


def kill_zookeeper(lane: Lane) -> str:
    """A server of the ensemble is killed and started."""
    number = lane.random.choice(BROKERS)
    server = lane.scene.servers[number - 1]
    end(server.pid, server.kill, f"zookeeper {number}")
    lane.hold(0.0, 4.0)
    server.start()
    return f"kill zookeeper {number}"


def pause_zookeeper(lane: Lane) -> str:
    """A server of the ensemble is silent."""
    number = lane.random.choice(BROKERS)
    server = lane.scene.servers[number - 1]
    server.pause()
    lane.hold(0.5, HOLD_MAX_S)
    state = state_of(server.pid)
    server.go_on()
    if state.upper() != PAUSED:
        raise Toothless(f"the paused server was in state {state}")
    return f"pause zookeeper {number}"


LANES: Final[Mapping[str, Sequence[Fault]]] = {
    "brokers": (kill, kill_two, stop, roll, pause, fill_disk, fail_syncs),
    "network": (
        isolate,
        cut_from_brokers,
        cut_one_way,
        cut_from_zookeeper,
        cut_ring,
        split,
        lose_packets,
        slow_link,
    ),
    "zookeeper": (kill_zookeeper, pause_zookeeper),
}
GAPS_S: Final[Mapping[str, float]] = {"brokers": 1.0, "network": 1.0, "zookeeper": 6.0}
"""The longest time between two faults of a lane."""
