"""Puts a broker with a control channel together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from odradek.testing.node.control.advanced_wheel import AdvancedClock
from odradek.testing.node.control.listener import ControlListener, Server
from odradek.testing.node.control.node import ControlledNode


def controlled_node(
    control: ControlListener, clock: AdvancedClock, keep_data: Callable[[], None]
) -> Callable[..., ControlledNode]:
    """What is called with the arguments of `Node`; the channel is served once the node is.

    clock      the time of the broker; read after its end, too
    keep_data  called when the data are not to be removed after the end
    """
    return partial(
        ControlledNode,
        control=control,
        clock=clock,
        make_server=lambda node: _serve(node, control, keep_data),
    )


def _serve(node: ControlledNode, control: ControlListener, keep_data: Callable[[], None]) -> Server:
    # Imported here: a test that asks for nothing does not pay for them.
    from odradek.testing.node.control.broker_routes import BrokerRoutes
    from odradek.testing.node.control.calls import ControlCalls
    from odradek.testing.node.control.client_routes import ClientRoutes
    from odradek.testing.node.control.clock_routes import ClockRoutes
    from odradek.testing.node.control.fault_routes import FaultRoutes
    from odradek.testing.node.control.routes import Routes
    from odradek.testing.node.control.topic_routes import TopicRoutes

    routes = Routes()
    for group in (
        BrokerRoutes(node, keep_data),
        ClientRoutes(node),
        ClockRoutes(node),
        FaultRoutes(node),
        TopicRoutes(node),
    ):
        group.add_to(routes)
    return ControlCalls(node.loop, control.socket, routes, control.access)
