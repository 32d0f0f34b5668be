"""How the faults of a plan are made, and how all of them end."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from odradek.controller.image.image import INTERNAL_TOPICS
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.testing.memory_files import UNLIMITED_BYTES
from tests.sim.administration import Administration
from tests.sim.controller_moves import ControllerMoves
from tests.sim.coordinator_deaths import CoordinatorDeaths
from tests.sim.ensemble import HOST, Ensemble
from tests.sim.failovers import TwoFailovers
from tests.sim.killed_copies import KilledCopies
from tests.sim.lagging_followers import LaggingFollowers
from tests.sim.network import Network
from tests.sim.oracle import Oracle
from tests.sim.plan import COPY, LAGGING, Fault
from tests.sim.process import Process
from tests.sim.reassignments import StoppedLeader
from tests.sim.script import Script
from tests.sim.transaction_ends import TransactionEnds
from tests.sim.world import World

OPERATIONS_MAX: Final = 40
CLOCK_MS_MAX: Final = 3_600_000
FREE_BYTES_MAX: Final = 2_000
SLOWNESS: Final = 150
TRUNCATION_MS_MAX: Final = 3_000
LEADER_BIT: Final = 1 << 10
DEPOSED_MS_MAX: Final = 900
"""Shorter than the silence after which a broker gives its connection up."""
BOUNCE_US: Final = 150_000
IN_FLIGHT_US: Final = 300_000
"""From the death of a broker to the last effect of what it sent."""


class Faults:
    """Makes the faults of one simulation."""

    def __init__(
        self,
        world: World,
        network: Network,
        ensemble: Ensemble,
        oracle: Oracle,
        keys: list[TopicPartition],
        administration: Administration,
        *,
        flushes: bool,
        clock_ms_max: int = CLOCK_MS_MAX,
    ) -> None:
        """keys          partitions that count; a fault often hits the leader of one of them
        flushes       every record is flushed before it is acknowledged
        clock_ms_max  how far clocks go wrong
        """
        self._has_internal = keys[-1].topic in INTERNAL_TOPICS
        self._clock_ms_max = clock_ms_max
        self._flushes = flushes
        self._world = world
        self._network = network
        self._ensemble = ensemble
        self._oracle = oracle
        self._administration = administration
        self._keys = keys
        self._script = Script(world, network, ensemble, oracle)
        self.made = 0
        self._exposed: Process | None = None
        """Has lost power, and with it records that it had not flushed: until the controller has
        taken it out of the in-sync replicas, no other one leaves them."""
        self._exposed_until_us = 0
        """Until then a leader may take it into them by a fetch that was sent before."""
        self._acts: dict[str, Callable[[Process, Fault], None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "power": self._power,
            "power in an operation": self._power,
            "power after a truncation": self._power_after_truncation,
            "pause": self._pause,
            **dict.fromkeys(("cut", "cut one way", "isolate", "cut from coordination"), self._cut),
            "expire": self._expire,
            "controller moves": self._move_controller,
            "bounce unseen": self._bounce_unseen,
            "clock": self._clock,
            "disk error": self._disk_error,
            "disk full": self._fill_disk,
            "slow disk": self._slow_disk,
            "topic": lambda _, fault: administration.create_topic(fault.second, fault.length_ms),
            "two failovers": self._fail_twice,
            "stopped leader": self._stop_new_leader,
            COPY: lambda _, fault: KilledCopies(self._script).make(keys[0], fault.second),
            LAGGING: lambda *_: LaggingFollowers(self._script).make(keys[0]),
            "controller moves in a change": self._move_controller_in_a_change,
            "marker of a dead leader": self._end_transaction,
            "disk full at the end": self._end_transaction,
            "outcome of a dead coordinator": self._kill_coordinator,
            "reassign": lambda _, fault: administration.reassign(fault.second, fault.length_ms),
        }

    def schedule(self, faults: tuple[Fault, ...]) -> None:
        """Have each of them happen in its time."""
        for fault in faults:
            self._world.after(fault.at_ms * 1_000, lambda fault=fault: self._make(fault))  # type: ignore[misc]

    def _make(self, fault: Fault) -> None:
        if self._world.is_calm:
            return
        processes = list(self._oracle.processes.values())
        process = processes[fault.first % len(processes)]
        if fault.first & LEADER_BIT:
            # Internal topics come last: where there are some, their leaders are hit as often.
            key = (
                self._keys[-(fault.first >> 11) % min(4, len(self._keys))]
                if self._has_internal
                else self._keys[0]
            )
            state = self._oracle.state_of(key)
            process = self._oracle.processes.get(-1 if state is None else state.leader, process)
        if self._is_exposed():
            self._world.note(f"left out, since records are exposed: {fault}")
            return
        self.made += 1
        self._acts[fault.kind](process, fault)

    def _is_exposed(self) -> bool:
        process = self._exposed
        if process is None:
            return False
        if self._world.now_us < self._exposed_until_us:
            return True
        for key in self._all_keys():
            state = self._oracle.state_of(key)
            if state is None:
                continue
            if process.broker_id not in state.isr and not self._is_coming_into_sync(process, key):
                continue
            node = process.node
            partition = None if node is None else node.parts.partitions.get(*key)
            if partition is None or not process.is_serving:
                return True
            if partition.log.end_offset < len(self._oracle.of(key).batches):
                return True
        self._exposed = None
        return False

    def _is_coming_into_sync(self, process: Process, key: TopicPartition) -> bool:
        """Whether a leader has asked the controller to take it into the in-sync replicas, for what
        it had before; a controller that moves may do so much later."""
        for other in self._oracle.processes.values():
            partition = None if other.node is None else other.node.parts.partitions.get(*key)
            leader = None if partition is None else partition.leader
            if leader is not None and process.broker_id in leader.in_sync.maximal:
                return True
        return False

    def _all_keys(self) -> list[TopicPartition]:
        """Those of topics that come and go, too."""
        return [*self._keys, *self._administration.kept]

    def _is_whole(self) -> bool:
        """Whether nothing is wrong, and all replicas are in sync."""
        is_well = self._has_controller() and all(
            self._is_well(process) and process.has_session()
            for process in self._oracle.processes.values()
        )
        if self._network.cuts or not is_well:
            return False
        states = [self._oracle.state_of(key) for key in self._all_keys()]
        return all(state is not None and len(state.isr) > 2 for state in states)

    def _is_well(self, process: Process) -> bool:
        """Whether a broker serves, and is about to go on."""
        return process.is_serving and not process.is_stopping and not process.loop.is_paused

    def _start_later(self, process: Process, fault: Fault) -> None:
        life = process.life

        def start() -> None:
            if not process.is_up and process.life == life:
                process.start()

        self._world.after(fault.length_ms * 1_000, start)

    def _kill(self, process: Process, fault: Fault) -> None:
        if process.is_up:
            process.kill()
            self._start_later(process, fault)

    def _fail_twice(self, process: Process, fault: Fault) -> None:
        TwoFailovers(self._script, lambda failed: self._start_later(failed, fault)).make(
            self._keys[0]
        )

    def _stop_new_leader(self, process: Process, fault: Fault) -> None:
        key, administration = self._keys[0], self._administration

        def pause(elected: Process) -> None:
            self._pause(elected, fault)
            self._world.after(fault.length_ms * 1_000, lambda: administration.give_back(key))

        StoppedLeader(self._script, administration.move, pause).make(key)

    def _move_controller_in_a_change(self, process: Process, fault: Fault) -> None:
        ControllerMoves(self._script).make(self._keys[0], fault.second)

    def _end_transaction(self, process: Process, fault: Fault) -> None:
        TransactionEnds(
            self._script, self._keys, lambda failed: self._start_later(failed, fault)
        ).make(fault.kind)

    def _kill_coordinator(self, process: Process, fault: Fault) -> None:
        CoordinatorDeaths(
            self._script, self._keys, lambda failed: self._start_later(failed, fault)
        ).make(fault.kind)

    def _stop(self, process: Process, fault: Fault) -> None:
        process.stop()

    def _may_lose_records(self, process: Process, fault: Fault) -> bool:
        """Whether a disk may lose now what was not flushed: nothing that counts, or the others keep
        it."""
        if process.disk.has_forgotten:
            self._world.note(f"left out, since that disk has failed before: {fault}")
            self.made -= 1
            return False
        if self._flushes:
            return True
        is_kept = self._is_whole() or self._is_kept_by_leaders(process)
        if self._is_exposed() or not is_kept:
            self._world.note(f"left out, since not all is well: {fault}")
            self.made -= 1
            return False
        self._exposed = process
        self._exposed_until_us = self._world.now_us + IN_FLIGHT_US
        return True

    def _is_kept_by_leaders(self, process: Process) -> bool:
        """Whether other brokers, with which nothing is wrong, lead what it is in sync for, and stay
        leaders: a new controller takes leadership from those that have registered meanwhile.

        A leader that is paused may take it into the ISR by a fetch that waits to be read; the end
        of a reassignment removes leaders.
        """
        if self._network.cuts or not self._has_controller():
            return False
        for key in self._all_keys():
            state = self._oracle.state_of(key)
            if state is None:
                continue
            assignment = self._oracle.assignment_of(key.topic)
            if key.partition in assignment.adding or key.partition in assignment.removing:
                return False
            is_in_sync = process.broker_id in state.isr
            leader = self._oracle.processes.get(state.leader)
            if leader is None or leader is process or not leader.is_up:
                if is_in_sync:
                    return False
            elif not self._is_well(leader) or leader.disk.is_failing or not leader.has_session():
                return False
        return True

    def _has_controller(self) -> bool:
        controller_id = self._ensemble.controller_id()
        controller = self._oracle.processes.get(-1 if controller_id is None else controller_id)
        return controller is not None and self._is_well(controller) and controller.has_session()

    def _disk_error(self, process: Process, fault: Fault) -> None:
        if process.is_up:
            number = 1 + fault.second % OPERATIONS_MAX
            self._world.note(f"operation {number} of broker {process.broker_id}'s disk will fail")
            process.disk.may_fail = lambda: not self._is_exposed()
            process.disk.fail_operation(number, OSError(errno.EIO, "failed by the simulation"))

    def _fill_disk(self, process: Process, fault: Fault) -> None:
        if not process.is_up:
            return
        disk, life = process.disk, process.life
        disk.capacity_bytes = disk.used_bytes() + fault.second % FREE_BYTES_MAX
        self._world.note(f"the disk of broker {process.broker_id} is full")

        def free() -> None:
            if process.life == life:
                disk.capacity_bytes = UNLIMITED_BYTES

        self._world.after(fault.length_ms * 1_000, free)

    def _slow_disk(self, process: Process, fault: Fault) -> None:
        if not process.is_up:
            return
        loop = process.loop
        loop.slowness = SLOWNESS
        self._world.note(f"the disk of broker {process.broker_id} is slow")
        self._world.counts["slow disk"] += 1

        def recover() -> None:
            loop.slowness = 1

        self._world.after(fault.length_ms * 1_000, recover)

    def _power(self, process: Process, fault: Fault) -> None:
        if not process.is_up or (
            fault.kind == "power" and not self._may_lose_records(process, fault)
        ):
            return
        if fault.kind == "power":
            process.cut_power(0)
            self._start_later(process, fault)
            return

        def may_cut() -> bool:
            if not self._may_lose_records(process, fault):
                return False
            self._start_later(process, fault)
            return True

        process.disk.may_cut = may_cut
        process.cut_power(1 + fault.second % OPERATIONS_MAX)

    def _power_after_truncation(self, process: Process, fault: Fault) -> None:
        """When what was cut off is not synced, it comes back."""
        delay_us = fault.second % TRUNCATION_MS_MAX * 1_000

        def cut() -> None:
            if not self._world.is_calm:
                self._power(process, fault._replace(kind="power"))

        process.on_truncation = lambda: self._world.after(delay_us, cut)

    def _pause(self, process: Process, fault: Fault) -> None:
        if not process.is_up or process.loop.is_paused:
            return
        loop = process.loop
        self._world.note(f"broker {process.broker_id} is paused for {fault.length_ms} ms")
        self._world.counts["pause"] += 1
        loop.pause()

        def resume() -> None:
            if loop.is_paused and not loop.is_ended:
                self._world.note(f"broker {process.broker_id} goes on")
                loop.resume()

        self._world.after(fault.length_ms * 1_000, resume)

    def _cut(self, process: Process, fault: Fault) -> None:
        name = process.host.name
        others = [host for host in self._network.hosts if host not in (name, "clients")]
        if fault.kind == "isolate":
            chosen = others
        elif fault.kind == "cut from coordination":
            chosen = [HOST]
        else:
            chosen = [others[fault.second % len(others)]]
        links = [(name, peer) for peer in chosen]
        if fault.kind != "cut one way":
            links += [(peer, name) for peer in chosen]
        elif fault.second & 256:
            links = [(peer, name) for peer, name in [(other, name) for _, other in links]]
        self._world.note(f"{fault.kind}: {links} for {fault.length_ms} ms")
        self._network.cuts.update(links)

        def heal() -> None:
            if self._network.cuts.issuperset(links):
                self._world.note(f"healed: {links}")
            kept = self._network.cuts.difference(links)
            self._network.heal()
            self._network.cuts.update(sorted(kept))

        self._world.after(fault.length_ms * 1_000, heal)

    def _expire(self, process: Process, fault: Fault) -> None:
        ensemble = self._ensemble
        session_id = process.session_id()
        if session_id in ensemble.sessions:
            self._world.counts["forced expiry"] += 1
            ensemble.expire(session_id)

    def _move_controller(self, process: Process, fault: Fault) -> None:
        """As an administrator's tool does; the controller may learn of it late."""
        controller_id = self._ensemble.controller_id()
        if controller_id is None:
            return
        self._world.note(f"controller {controller_id} is deposed, and learns of it late")
        self._world.counts["controller deposed"] += 1
        link = (HOST, self._oracle.processes[controller_id].host.name)
        if fault.second & 1 and link not in self._network.cuts:
            self._network.cuts.add(link)
            self._world.after(fault.second % DEPOSED_MS_MAX * 1_000, lambda: self._heal_link(link))
        self._ensemble.depose()

    def _heal_link(self, link: tuple[str, str]) -> None:
        kept = sorted(self._network.cuts.difference([link]))
        self._network.heal()
        self._network.cuts.update(kept)

    def _bounce_unseen(self, process: Process, fault: Fault) -> None:
        """A broker loses power and is back before a new controller has looked."""
        controller_id = self._ensemble.controller_id()
        if controller_id is None or not process.is_up:
            return
        controller = self._oracle.processes[controller_id]
        if controller is process or controller.loop.is_paused or not controller.is_up:
            return
        if not self._flushes and not self._is_whole():
            # The controller's session ends as well: a third broker has to keep the records.
            self._world.note(f"left out, since not all is well: {fault}")
            self.made -= 1
            return
        if not self._may_lose_records(process, fault):
            return
        sessions = process.session_id(), controller.session_id()
        process.cut_power(0)
        self._pause(controller, fault._replace(length_ms=max(500, fault.length_ms)))
        self._world.counts["unseen bounce"] += 1
        self._end_session(sessions[0])
        life = process.life

        def go_on() -> None:
            if not process.is_up and process.life == life:
                process.start()
            self._world.after(BOUNCE_US, lambda: self._end_session(sessions[1]))

        self._world.after(BOUNCE_US, go_on)

    def _end_session(self, session_id: int) -> None:
        if session_id in self._ensemble.sessions:
            self._ensemble.expire(session_id)

    def _clock(self, process: Process, fault: Fault) -> None:
        offset_ms = fault.second * 977 % (2 * self._clock_ms_max) - self._clock_ms_max
        self._world.note(f"the clock of broker {process.broker_id} is set to {offset_ms} ms off")
        self._world.counts["clock"] += 1
        process.clock.offset_ms = offset_ms

    def end_all(self) -> None:
        """Everything works again."""
        self._world.is_calm = True
        self._world.note("all faults end")
        self._network.heal()
        for process in self._oracle.processes.values():
            process.disk.cut_at = -1
            process.on_truncation = None
            process.disk.capacity_bytes = UNLIMITED_BYTES
            process.disk.forget_failures()
            process.loop.slowness = 1
            if process.is_up and process.loop.is_paused:
                process.loop.resume()
            if not process.is_up:
                process.start()
