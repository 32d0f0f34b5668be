"""TLS of a node: its listeners, its connections to other brokers and to ZooKeeper.

Key stores and trust stores are read again when a setting names others, and when a file changes.
New connections have the new certificates, old ones go on with theirs.
Differs from Kafka, which looks at the files only when a setting of the listener is altered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.interbroker.network_client import OpenConnection
from odradek.broker.node.platform import Platform
from odradek.broker.node.start_error import StartError
from odradek.broker.settings.broker_settings import BrokerSettings, CurrentSettings
from odradek.broker.settings.listeners import TLS_PROTOCOLS
from odradek.broker.settings.types import SettingsError

if TYPE_CHECKING:
    import asyncio
    from ssl import SSLContext

    from odradek.broker.security.tls.tls_listener import TlsListener

CHECK_MS: Final = 10_000
"""How often the files of stores are looked at."""
DAY_MS: Final = 86_400_000
WARNING_DAYS: Final = 30

logger = logging.getLogger("odradek.security")


class NodeTls:
    """The listeners whose security protocol has TLS."""

    def __init__(self, settings: BrokerSettings) -> None:
        """raises  StartError for a store that cannot be used"""
        names = [name.name for name in settings.listeners if name.protocol in TLS_PROTOCOLS]
        self._listeners: dict[str, TlsListener] = {}
        self._check: Callable[[], None] = lambda: None
        if not names:
            return
        # Imported where a listener needs it: reading certificates takes 100 ms to load.
        from odradek.broker.security.tls.tls_listener import TlsListener
        from odradek.runtime.certificate_stores import StoreError

        for name in names:
            try:
                self._listeners[name] = TlsListener(settings, name)
            except StoreError as error:
                raise StartError(f"listener {name}: {error}") from error
            except SettingsError as error:
                raise StartError(error.line) from error

    def get(self, name: str) -> TlsListener | None:
        """TLS of a listener; None for one without."""
        return self._listeners.get(name)

    def open_connection(self, platform: Platform, name: str) -> OpenConnection | None:
        """Connects to this listener of other brokers; None: as the loop does."""
        listener = self._listeners.get(name)
        if listener is None:
            return platform.open_connection
        open_connection = platform.open_connection or platform.loop.create_connection

        def connect(
            protocol: Callable[[], asyncio.BufferedProtocol], host: str, port: int
        ) -> Coroutine[Any, Any, Any]:
            context = listener.state.client
            return open_connection(protocol, host, port, ssl=context, server_hostname=host)

        return connect

    def check_stores(self, settings: BrokerSettings) -> str | None:
        """Why the listeners cannot use the stores that the settings name; None: they can.

        Reads files: for a thread.
        """
        if not self._listeners:
            return None
        from odradek.runtime.certificate_stores import StoreError

        for listener in self._listeners.values():
            try:
                listener.check(settings)
            except (StoreError, SettingsError) as error:
                return f"listener {listener.name}: {error}"
        return None

    def serve(self, platform: Platform, settings: CurrentSettings) -> None:
        """From now on look at the files, and at the days that certificates are valid."""
        if not self._listeners:
            return
        is_running = False

        async def check() -> None:
            nonlocal is_running
            try:
                for listener in self._listeners.values():
                    await platform.loop.run_in_executor(
                        platform.executor, listener.refresh, settings.value
                    )
            finally:
                is_running = False
            self._note_expiry(platform)

        def begin() -> None:
            nonlocal is_running
            if not is_running:
                is_running = True
                platform.supervisor.start("reading certificates", check())

        self._check = begin
        platform.wheel.every(CHECK_MS, begin)
        platform.wheel.every(DAY_MS, partial(self._warn_of_expiry, platform))
        self._note_expiry(platform)
        self._warn_of_expiry(platform)

    def on_settings_changed(self, settings: BrokerSettings) -> None:
        """Read the stores that the settings name now."""
        self._check()

    def _note_expiry(self, platform: Platform) -> None:
        expires_ms = min(
            listener.state.stores.first_expiry_ms for listener in self._listeners.values()
        )
        platform.metrics.certificate_expires_ms = expires_ms

    def _warn_of_expiry(self, platform: Platform) -> None:
        now_ms = platform.clock.now_ms()
        for name, listener in self._listeners.items():
            left_ms = listener.state.stores.first_expiry_ms - now_ms
            if left_ms <= 0:
                logger.warning("the certificate of listener %s has expired", name)
            elif left_ms < WARNING_DAYS * DAY_MS:
                days = left_ms // DAY_MS
                logger.warning("the certificate of listener %s expires in %d days", name, days)


def zookeeper_context(settings: BrokerSettings) -> SSLContext:
    """TLS to ZooKeeper.

    raises  StartError for a store that cannot be used
    """
    # Imported where the settings ask for it, as above.
    from odradek.broker.security.tls.contexts import client_context, read_stores
    from odradek.broker.security.tls.tls_config import zookeeper_tls
    from odradek.runtime.certificate_stores import StoreError

    try:
        config = zookeeper_tls(settings)
        return client_context(config, read_stores(config))
    except StoreError as error:
        raise StartError(str(error)) from error
    except SettingsError as error:
        raise StartError(error.line) from error
