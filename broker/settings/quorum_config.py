"""KRaft's settings, taken for what they ask: which node coordinates, and which nodes join it.

The quorum of a KRaft cluster is one node here: it keeps the cluster's state in its embedded tree
and serves the tree on its controller listener; the others use that tree as their ZooKeeper.

    controller.quorum.voters             the voter with the lowest id coordinates: the voters are a
                                         set, and each file may list them in another order
    controller.quorum.bootstrap.servers  without voters: the node at the first address coordinates,
                                         by its advertised address or by what the name resolves to

Source: Kafka's KafkaConfig.validateValues, QuorumConfig; KIP-631, KIP-853.
"""

# Differs from Kafka: the metadata are on one node, with a log and snapshots of its own, and the
# other voters stand by without a copy.  While the first one is away, no leader changes.

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.broker.settings.listeners import (
    HOST_RULE,
    PORT_MAX,
    Listener,
    is_host,
    parse_listeners,
)
from odradek.broker.settings.types import INT_MAX, InvalidValueError, split_list

ROLES: Final = "process.roles"
NODE_ID: Final = "node.id"
VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP_SERVERS: Final = "controller.quorum.bootstrap.servers"
CONTROLLER_NAMES: Final = "controller.listener.names"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
TREE_LISTENER: Final = "odradek.embedded.zookeeper.listener"
CLUSTER_WAY: Final = "several nodes with TLS and SASL have a ZooKeeper ensemble (zookeeper.connect)"
ANY_HOST: Final = ("", "0.0.0.0", "::")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

_ADDRESS: Final = re.compile(r"\[?(?P<host>[^\s\[\]@]+?)\]?:(?P<port>[0-9]{1,5})")
_VOTER: Final = re.compile(r"(?P<id>-?[0-9]{1,10})@(?P<address>.+)")


class QuorumNode(NamedTuple):
    """The address of a controller."""

    node_id: int | None
    """None: controller.quorum.bootstrap.servers do not contain it."""
    host: str
    port: int

    @property
    def address(self) -> str:
        """host:port, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class QuorumConfig(NamedTuple):
    """The part of a node in a cluster that is described by KRaft's settings."""

    node_id: int
    is_broker: bool
    is_controller: bool
    coordinator: QuorumNode
    controller_count: int
    """How many controllers the settings name."""
    coordinates: bool
    """Whether this node is `coordinator`, which the others join."""
    tree_listener: Listener | None
    """The listener on which this node serves the coordination; None: on none."""
    standby_listener: Listener | None
    """The listener of a controller that serves nothing on it; None for other nodes."""
    controller_listeners: tuple[str, ...]
    """Names of listeners that are not for clients."""

    @property
    def warning(self) -> str | None:
        """A line for the operator who expects that several controllers replicate the metadata, or
        that others can join a node whose controller has a listener with TLS or SASL."""
        if self.coordinates and self.tree_listener is None:
            return (
                f"nothing is served on the controller's listener {self.standby_listener}, which "
                "is not PLAINTEXT: no other node can join this one"
            )
        if self.controller_count < 2:
            return None
        return (
            f"{self.controller_count} controllers are configured, but the coordination is on one "
            f"node, {self.coordinator.address}: while it is away, no leader changes and no topic "
            "is created; a ZooKeeper ensemble (zookeeper.connect) is the way for production"
        )


def parse_address(key: str, text: str, item: str) -> tuple[str, int]:
    """Host and port of a controller.

    raises  InvalidValueError
    """
    matched = _ADDRESS.fullmatch(item)
    if matched is None or not 0 <= int(matched["port"]) <= PORT_MAX:
        allowed = f"Expected {'id@' if key == VOTERS else ''}host:port, which '{item}' is not"
        raise InvalidValueError(key, text, allowed)
    if not is_host(matched["host"]):
        raise InvalidValueError(key, text, f"'{item}' has no host of that kind: {HOST_RULE}")
    return matched["host"], int(matched["port"])


def parse_voters(entries: Sequence[str]) -> tuple[QuorumNode, ...]:
    """The voters in the order of their ids; the last one of an id counts, as in Kafka.

    raises  InvalidValueError
    """
    text = ",".join(entries)
    voters: dict[int, QuorumNode] = {}
    for entry in entries:
        matched = _VOTER.fullmatch(entry)
        if matched is None or not -INT_MAX - 1 <= int(matched["id"]) <= INT_MAX:
            allowed = f"Expected id@host:port, which '{entry}' is not"
            raise InvalidValueError(VOTERS, text, allowed)
        voter_id = int(matched["id"])
        voters[voter_id] = QuorumNode(voter_id, *parse_address(VOTERS, text, matched["address"]))
    return tuple(voters[voter_id] for voter_id in sorted(voters))


def controller_names(written: Mapping[str, str]) -> tuple[str, ...]:
    """The names in controller.listener.names, in capitals."""
    return tuple(name.upper() for name in split_list(written.get(CONTROLLER_NAMES, "")) if name)


def with_controller_protocols(
    written: Mapping[str, str], protocols: Mapping[str, str]
) -> Mapping[str, str]:
    """Security protocols by listener name, with PLAINTEXT for the controller's listeners.

    Not when the map is set, or when a listener is named after a protocol of TLS or SASL.
    Source: Kafka's KafkaConfig.effectiveListenerSecurityProtocolMap.
    """
    if not is_kraft(written) or PROTOCOL_MAP in written:
        return protocols
    names = controller_names(written)
    listeners = [item.partition("://")[0] for item in split_list(written.get("listeners", ""))]
    if any(name.upper() in ("SSL", "SASL_SSL", "SASL_PLAINTEXT") for name in (*names, *listeners)):
        return protocols
    return {**protocols, **dict.fromkeys(names, "PLAINTEXT")}


def is_kraft(written: Mapping[str, str]) -> bool:
    """Whether process.roles is set."""
    return bool(written.get(ROLES, "").strip())


def quorum_config(
    written: Mapping[str, str],
    values: Mapping[str, Any],
    protocols: Mapping[str, str],
    is_own_address: Callable[[str], bool],
) -> QuorumConfig | None:
    """The part of this node in the cluster; None without process.roles.

    written         names and texts
    values          the parsed value of each known setting
    protocols       security protocols by listener name
    is_own_address  whether a host is this machine; called where the advertised address of the
                    controller is another
    raises          InvalidValueError
    """
    if not is_kraft(written):
        return None
    roles: tuple[str, ...] = values[ROLES]
    _require(len({*roles}) == len(roles), ROLES, ",".join(roles), "Each role stands once")
    _check_contradictions(written, values)
    node_id: int = values[NODE_ID]
    voters = parse_voters(values[VOTERS])
    servers: tuple[str, ...] = values[BOOTSTRAP_SERVERS]
    addresses = [parse_address(BOOTSTRAP_SERVERS, ",".join(servers), item) for item in servers]
    allowed = f"Expected id@host:port with {ROLES}, or host:port in {BOOTSTRAP_SERVERS}"
    _require(bool(voters or addresses), VOTERS, "", allowed)
    names = controller_names(written)
    allowed = f"Expected at least one name with {ROLES}"
    _require(bool(names), CONTROLLER_NAMES, values[CONTROLLER_NAMES] or "", allowed)
    is_broker, is_controller = "broker" in roles, "controller" in roles
    listeners = parse_listeners("listeners", values["listeners"], protocols, ports_differ=True)
    if is_controller:
        _check_controller(node_id, is_broker, voters, names, listeners, values)
    else:
        _check_broker(node_id, voters, names, listeners, protocols, values)
    own = next((listener for listener in listeners if listener.name == names[0]), None)
    if voters:
        coordinator = voters[0]
        coordinates = is_controller and coordinator.node_id == node_id
    else:
        coordinator = QuorumNode(None, *addresses[0])
        coordinates = is_controller and _is_first(addresses, own, values, protocols, is_own_address)
        if coordinates:
            coordinator = coordinator._replace(node_id=node_id)
    if not coordinates:
        _check_reachable(VOTERS if voters else BOOTSTRAP_SERVERS, coordinator)
    controller_count = len(voters) or len(addresses)
    is_alone = is_broker and coordinates and controller_count == 1
    is_plaintext = _is_plaintext(names, protocols, is_alone=is_alone)
    return QuorumConfig(
        node_id=node_id,
        is_broker=is_broker,
        is_controller=is_controller,
        coordinator=coordinator,
        controller_count=controller_count,
        coordinates=coordinates,
        tree_listener=own if coordinates and is_plaintext else None,
        standby_listener=own if is_controller and not (coordinates and is_plaintext) else None,
        controller_listeners=names,
    )


def _check_reachable(name: str, coordinator: QuorumNode) -> None:
    allowed = "0.0.0.0 is not an address that other nodes can connect to"
    _require(coordinator.host not in ANY_HOST, name, coordinator.address, allowed)


def _is_plaintext(names: Sequence[str], protocols: Mapping[str, str], *, is_alone: bool) -> bool:
    """Whether the coordination may be served on the listeners of the controller.

    is_alone  the node is the only controller and a broker: it needs no listener
    raises    InvalidValueError
    """
    for name in names:
        if protocols[name] != "PLAINTEXT":
            allowed = (
                f"Only PLAINTEXT is served on the listeners of the controller ({name}); TLS and "
                f"SASL are taken where {ROLES} is broker,controller and no other controller is "
                f"named, for a node that none joins; {CLUSTER_WAY}"
            )
            _require(is_alone, PROTOCOL_MAP, protocols[name], allowed)
            return False
    return True


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise InvalidValueError(name, value, allowed)


def _check_contradictions(written: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Refuse settings of ZooKeeper mode beside process.roles, and a missing node.id."""
    node_id = values[NODE_ID]
    _require(node_id >= 0, NODE_ID, node_id, f"Value must be at least 0 with {ROLES}")
    # Differs from Kafka, which ignores zookeeper.connect then: a file that names two coordination
    # services may join the wrong one.
    allowed = f"Value must be empty with {ROLES}; moving from ZooKeeper to KRaft is not served"
    connect = values["zookeeper.connect"] or ""
    _require(not connect, "zookeeper.connect", connect, allowed)
    allowed = f"Value must be empty with {ROLES}, whose controller listener serves the coordination"
    tree = written.get(TREE_LISTENER, "").strip()
    _require(not tree, TREE_LISTENER, tree, allowed)
    name = "control.plane.listener.name"
    _require(values[name] is None, name, values[name], f"Value must be empty with {ROLES}")


def _check_controller(
    node_id: int,
    is_broker: bool,
    voters: Sequence[QuorumNode],
    names: Sequence[str],
    listeners: Sequence[Listener],
    values: Mapping[str, Any],
) -> None:
    """Kafka's rules for a node with the role of a controller."""
    ids = ", ".join(str(voter.node_id) for voter in voters)
    allowed = f"A node with the role controller must be a voter of {VOTERS} ({ids})"
    is_voter = any(voter.node_id == node_id for voter in voters)
    _require(is_voter or not voters, NODE_ID, node_id, allowed)
    bound = [listener.name for listener in listeners]
    shown = values[CONTROLLER_NAMES] or ""
    allowed = f"Expected names out of listeners ({', '.join(bound)}) with the role controller"
    _require(all(name in bound for name in names), CONTROLLER_NAMES, shown, allowed)
    if not is_broker:
        allowed = f"Expected only listeners of {CONTROLLER_NAMES} ({shown}) without the role broker"
        is_own = all(name in names for name in bound)
        _require(is_own, "listeners", values["listeners"], allowed)


def _check_broker(
    node_id: int,
    voters: Sequence[QuorumNode],
    names: Sequence[str],
    listeners: Sequence[Listener],
    protocols: Mapping[str, str],
    values: Mapping[str, Any],
) -> None:
    """Kafka's rules for a node that is a broker and not a controller."""
    allowed = f"A voter of {VOTERS} must have the role controller in {ROLES}"
    is_voter = any(voter.node_id == node_id for voter in voters)
    _require(not is_voter, NODE_ID, node_id, allowed)
    for listener in listeners:
        allowed = f"A name out of listeners ({listener}) needs the role controller in {ROLES}"
        _require(listener.name not in names, CONTROLLER_NAMES, listener.name, allowed)
    for name in names:
        _require(
            name in protocols, CONTROLLER_NAMES, name, f"No security protocol in {PROTOCOL_MAP}"
        )


def _is_first(
    addresses: Sequence[tuple[str, int]],
    own: Listener | None,
    values: Mapping[str, Any],
    protocols: Mapping[str, str],
    is_own_address: Callable[[str], bool],
) -> bool:
    """Whether a controller is the one at the first address of controller.quorum.bootstrap.servers.

    raises  InvalidValueError when the addresses of its listener do not tell
    """
    assert own is not None, "a controller listens"
    advertised = parse_listeners(
        "advertised.listeners", values["advertised.listeners"] or "", protocols, ports_differ=False
    )
    listener = next((listener for listener in advertised if listener.name == own.name), own)
    host, port = addresses[0]
    if listener.port != port:
        return False
    is_same = listener.host not in ANY_HOST and listener.host.lower() == host.lower()
    if host in LOOPBACK or is_same or is_own_address(host):
        return True
    text = ",".join(values[BOOTSTRAP_SERVERS])
    allowed = f"Set the address of {own.name} in advertised.listeners, or {VOTERS}: {own} is not "
    allowed += "enough to tell which of the addresses is this node's"
    _require(listener.host not in ANY_HOST, BOOTSTRAP_SERVERS, text, allowed)
    return False
