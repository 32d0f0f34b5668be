"""Network namespaces on one bridge, between which packets can be dropped or delayed.  Needs root.

Packets are dropped where they arrive, by iptables of the namespace: one direction at a time.
Links are made slow by token buckets (tc tbf) at both of their ends.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from tests.support.machines import Machine

HOST_NUMBER: Final = 254
QUEUE: Final = "2s"
"""How long packets wait at a slow link."""


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Namespaces:
    """Machines 10.77.n.1, 2, ... by name; this process is 10.77.n.254."""

    def __init__(self, names: Sequence[str]) -> None:
        number = os.getpid() % 250
        self._bridge = f"chaos{number}"
        self._addresses = {
            name: f"10.77.{number}.{place}" for place, name in enumerate(names, start=1)
        }
        self._here = f"10.77.{number}.{HOST_NUMBER}"
        self._forward = ("FORWARD", "-i", self._bridge, "-o", self._bridge, "-j", "ACCEPT")

    def machine(self, name: str) -> Machine:
        """Where processes of this name run."""
        return Machine(self._addresses[name], ("ip", "netns", "exec", self._namespace(name)))

    def _namespace(self, name: str) -> str:
        return f"{self._bridge}-{name}"

    def open(self) -> None:
        """Make all of it."""
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self._here}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        # A container engine drops what bridges of others pass on.
        _run("iptables", "-I", *self._forward)
        for place, (name, address) in enumerate(self._addresses.items()):
            namespace, outer = self._namespace(name), f"{self._bridge}o{place}"
            inner = f"{self._bridge}i{place}"
            _run("ip", "netns", "add", namespace)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
            _run("ip", "link", "set", inner, "netns", namespace)
            _run("ip", "link", "set", outer, "master", self._bridge)
            _run("ip", "link", "set", outer, "up")
            self._within(name, "ip", "addr", "add", f"{address}/24", "dev", inner)
            self._within(name, "ip", "link", "set", inner, "up")
            self._within(name, "ip", "link", "set", "lo", "up")

    def close(self) -> None:
        """Remove all of it, as far as it is there."""
        for place, name in enumerate(self._addresses):
            # The kernel ends a namespace later: until then its links keep their names.
            subprocess.run(["ip", "link", "del", f"{self._bridge}o{place}"], check=False)
            subprocess.run(["ip", "netns", "del", self._namespace(name)], check=False)
        subprocess.run(["iptables", "-D", *self._forward], check=False)
        subprocess.run(["ip", "link", "del", self._bridge], check=False)

    def _within(self, name: str, *words: str) -> str:
        return _run(*self.machine(name).prefix, *words)

    def cut(self, source: str, target: str) -> None:
        """Drop what `source` sends to `target`, and nothing of the other direction."""
        self._within(target, "iptables", "-A", "INPUT", "-s", self._addresses[source], "-j", "DROP")

    def isolate(self, name: str) -> None:
        """Drop all that a machine receives; what it sends arrives and is not answered."""
        self._within(name, "iptables", "-A", "INPUT", "!", "-i", "lo", "-j", "DROP")

    def lose(self, name: str, share: float) -> None:
        """Drop some of what a machine receives."""
        chance = ("-m", "statistic", "--mode", "random", "--probability", str(share))
        self._within(name, "iptables", "-A", "INPUT", "!", "-i", "lo", *chance, "-j", "DROP")

    def slow(self, name: str, kilobits: int) -> None:
        """Carry so many kbit/s in each direction; packets wait, and are dropped after seconds."""
        shape = ("tbf", "rate", f"{kilobits}kbit", "burst", "4kb", "latency", QUEUE)
        for run, device in self._devices(name):
            run("tc", "qdisc", "add", "dev", device, "root", *shape)

    def waited(self, name: str) -> int:
        """How many packets had to wait at a slow link."""
        waited = 0
        for run, device in self._devices(name):
            (queue,) = json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", device))
            waited += int(queue["overlimits"])
        return waited

    def hasten(self, name: str) -> None:
        """The end of `slow`."""
        for run, device in self._devices(name):
            run("tc", "qdisc", "del", "dev", device, "root")

    def _devices(self, name: str) -> list[tuple[Callable[..., str], str]]:
        """Both ends of the link of a machine, and how a command runs there."""
        place = list(self._addresses).index(name)
        inner, outer = f"{self._bridge}i{place}", f"{self._bridge}o{place}"
        return [(partial(self._within, name), inner), (_run, outer)]

    def dropped(self) -> int:
        """How many packets were dropped since the last `heal`."""
        dropped = 0
        for name in self._addresses:
            rules = self._within(name, "iptables", "-nvxL", "INPUT")
            dropped += sum(
                int(packets) for packets in re.findall(r"^\s*(\d+)\s+\d+ DROP", rules, re.M)
            )
        return dropped

    def heal(self) -> None:
        """Drop nothing any more."""
        for name in self._addresses:
            self._within(name, "iptables", "-F", "INPUT")


@contextmanager
def namespaces(names: Sequence[str]) -> Iterator[Namespaces]:
    """Made, and removed at the end."""
    made = Namespaces(names)
    try:
        made.open()
        yield made
    finally:
        made.close()
