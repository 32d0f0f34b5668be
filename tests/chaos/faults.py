"""What a run does to a cluster.  Each fault shows that it bites, and is taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Final

from tests.chaos.disks import Disk
from tests.chaos.namespaces import Namespaces
from tests.support.broker_cluster import BrokerCluster
from tests.support.zookeeper import ZooKeeperServer

SESSION_S: Final = 6.0
BROKERS: Final = (1, 2, 3)


class Toothless(AssertionError):
    """A fault did nothing."""


class Scene:
    """The cluster, its ensemble, the network between them, and the disks of the brokers."""

    def __init__(
        self,
        cluster: BrokerCluster,
        servers: Sequence[ZooKeeperServer],
        network: Namespaces,
        disks: Mapping[int, Disk],
        random: Random,
    ) -> None:
        self.disks = disks
        self.cluster = cluster
        self.servers = servers
        self.network = network
        self.random = random
        self.topic = ""

    def broker(self) -> int:
        """The leader of a partition, the controller, or any."""
        match self.random.randrange(3):
            case 0:
                found = self.cluster.leader(self.topic, self.random.randrange(3))
            case 1:
                found = self.cluster.controller()
            case _:
                found = self.random.choice(BROKERS)
        return found if found in self.cluster.running else self.random.choice(self.cluster.running)

    def hold(self, least_s: float, most_s: float) -> None:
        """Let a fault last."""
        Event().wait(self.random.uniform(least_s, most_s))

    def others(self, broker_id: int) -> list[int]:
        return [one for one in BROKERS if one != broker_id]

    def cut_both(self, one: str, other: str) -> None:
        """Neither machine receives what the other sends."""
        self.network.cut(one, other)
        self.network.cut(other, one)

    def hold_and_heal(self) -> None:
        """Let a fault of the network last, beyond a session or not.

        raises  Toothless when nothing was dropped
        """
        self.hold(2.0, 2 * SESSION_S)
        if not self.network.heal():
            raise Toothless("no packet was dropped")


def kill(scene: Scene) -> str:
    """SIGKILL, and a start."""
    victim = scene.broker()
    scene.cluster.kill(victim)
    scene.hold(0.0, 1.5 * SESSION_S)
    scene.cluster.start(victim)
    return f"kill {victim}"


def kill_two(scene: Scene) -> str:
    """SIGKILL of two brokers, shortly after each other."""
    first = scene.broker()
    second = scene.random.choice(scene.others(first))
    for victim in (first, second):
        scene.cluster.kill(victim)
        scene.hold(0.0, 2.0)
    for victim in (first, second):
        scene.cluster.start(victim)
    return f"kill {first} and {second}"


def stop(scene: Scene) -> str:
    """SIGTERM, and a start."""
    victim = scene.broker()
    scene.cluster.stop(victim)
    scene.hold(0.0, 2.0)
    scene.cluster.start(victim)
    return f"stop {victim}"


def pause(scene: Scene) -> str:
    """SIGSTOP, shorter or longer than a session."""
    victim = scene.broker()
    scene.cluster.pause(victim)
    scene.hold(1.0, 2 * SESSION_S)
    pid = scene.cluster.brokers[victim].process.pid
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    scene.cluster.resume(victim)
    if state not in "Tt":
        raise Toothless(f"the paused broker was in state {state}")
    return f"pause {victim}"


def isolate(scene: Scene) -> str:
    """A broker receives nothing."""
    victim = scene.broker()
    scene.network.isolate(f"b{victim}")
    scene.hold_and_heal()
    return f"isolate {victim}"


def cut_from_brokers(scene: Scene) -> str:
    """A broker and the others cannot reach each other; ZooKeeper and clients can."""
    victim = scene.broker()
    for other in scene.others(victim):
        scene.cut_both(f"b{victim}", f"b{other}")
    scene.hold_and_heal()
    return f"cut {victim} from the brokers"


def cut_one_way(scene: Scene) -> str:
    """What a broker sends to the others is lost, or what they send to it."""
    victim = scene.broker()
    is_inbound = scene.random.random() < 0.5
    for other in scene.others(victim):
        source, target = (other, victim) if is_inbound else (victim, other)
        scene.network.cut(f"b{source}", f"b{target}")
    scene.hold_and_heal()
    return f"cut {'to' if is_inbound else 'from'} {victim} one way"


def cut_from_zookeeper(scene: Scene) -> str:
    """A broker reaches all but the ensemble."""
    victim = scene.broker()
    for number in range(1, len(scene.servers) + 1):
        scene.network.cut(f"z{number}", f"b{victim}")
    scene.hold_and_heal()
    return f"cut {victim} from ZooKeeper"


def cut_ring(scene: Scene) -> str:
    """Two brokers cannot reach each other, the third reaches both."""
    victim = scene.broker()
    other = scene.random.choice(scene.others(victim))
    scene.cut_both(f"b{victim}", f"b{other}")
    scene.hold_and_heal()
    return f"cut {victim} from {other}"


def lose_packets(scene: Scene) -> str:
    """A broker loses a third of what it receives."""
    victim = scene.broker()
    scene.network.lose(f"b{victim}", 0.33)
    scene.hold_and_heal()
    return f"lose packets of {victim}"


def fill_disk(scene: Scene) -> str:
    """The disk of a broker is full; a broker without any directory ends, and is started again."""
    victim = scene.broker()
    disk = scene.disks[victim]
    disk.fill()
    is_full = disk.is_full
    scene.hold(2.0, SESSION_S)
    disk.free()
    has_ended = not scene.cluster.brokers[victim].process.running()
    if has_ended:
        scene.cluster.kill(victim)
        scene.cluster.start(victim)
    if not is_full:
        raise Toothless("the disk was not full")
    return f"fill the disk of {victim}{', which ended' if has_ended else ''}"


def kill_zookeeper(scene: Scene) -> str:
    """A server of the ensemble is killed and started."""
    server = scene.random.choice(scene.servers)
    server.kill()
    scene.hold(0.0, 4.0)
    server.start()
    return f"kill zookeeper {server.address}"


def pause_zookeeper(scene: Scene) -> str:
    """A server of the ensemble is silent."""
    server = scene.random.choice(scene.servers)
    server.pause()
    scene.hold(1.0, 2 * SESSION_S)
    server.go_on()
    return f"pause zookeeper {server.address}"


FAULTS: Final[Sequence[Callable[[Scene], str]]] = (
    kill,
    kill_two,
    stop,
    pause,
    isolate,
    cut_from_brokers,
    cut_one_way,
    cut_from_zookeeper,
    cut_ring,
    lose_packets,
    fill_disk,
    kill_zookeeper,
    pause_zookeeper,
)
