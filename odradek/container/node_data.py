"""Prepares the data of a container's node before its start.

Without a format of its directories process.roles does not start.  The users of SCRAM that the
environment names are stored:

| coordination | when |
|---|---|
| in this process, or `process.roles` | in new data only, as a format does |
| ZooKeeper | at each start, as Bitnami's image does |

Source: libkafka.sh of Bitnami's image.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.container.names import EnvironmentRefused
from odradek.container.sasl import USERS, NewScramUser
from odradek.runtime.java_properties import properties_text
from odradek.tools.errors import ToolError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from odradek.tools.initial_scram_users import ScramUser


CONNECT_TIMEOUT_S: Final = 60.0
CHANGES: Final = "/config/changes/config_change_"
ROLES: Final = "process.roles"
CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
"""The id for a container without one: that of Apache's image, so that nodes agree."""


def store_users(settings: Mapping[str, str], users: Sequence[NewScramUser]) -> None:
    """Store the users, unless a format has done it.

    settings  of the broker
    raises    EnvironmentRefused, OSError
    """
    if not users or settings.get("process.roles", "").strip():
        return
    # Imported only where there are users: it loads parts of the broker.
    from odradek.tools.initial_scram_users import scram_user

    try:
        credentials = [scram_user(user.name, user.mechanism, user.password) for user in users]
    except ToolError as error:
        raise EnvironmentRefused(USERS, "users of SCRAM", str(error)) from None
    zookeeper = settings.get("zookeeper.connect", "").strip()
    if zookeeper:
        _check_plaintext(settings)
        _store_in_zookeeper(zookeeper, credentials)
    else:
        _store_in_new_data(settings, credentials)


def add_scram_words(users: Sequence[NewScramUser]) -> list[str]:
    """Arguments of `odradek storage format`."""
    return [
        word
        for user in users
        for word in ("--add-scram", f"{user.mechanism}=[name={user.name},password={user.password}]")
    ]


def _check_plaintext(settings: Mapping[str, str]) -> None:
    if settings.get("zookeeper.ssl.client.enable", "false").strip().lower() == "true":
        reason = "not stored through TLS; leave it out, and store users with odradek configs"
        raise EnvironmentRefused(USERS, "zookeeper.ssl.client.enable", reason)


def _store_in_new_data(settings: Mapping[str, str], users: Sequence[ScramUser]) -> None:
    from odradek.controller.coordination.state_files import find_files
    from odradek.runtime.system_files import SystemFileSystem
    from odradek.tools.initial_scram_users import store_initial_users

    folders = settings.get("log.dirs") or settings.get("log.dir") or ""
    folder = folders.partition(",")[0].strip()
    if not folder:
        raise EnvironmentRefused(USERS, "log.dirs", "users of SCRAM need a directory")
    Path(folder).mkdir(parents=True, exist_ok=True)
    if not any(find_files(SystemFileSystem(), folder)):
        store_initial_users(folder, users)


def _store_in_zookeeper(hosts: str, users: Sequence[ScramUser]) -> None:
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    client = KazooClient(hosts=hosts)
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
        for user in users:
            _store_in_znode(client, user)
    except (KazooException, KazooTimeoutError) as error:
        reason = f"ZooKeeper at {hosts} does not take them: {error or type(error).__name__}"
        raise EnvironmentRefused(USERS, "zookeeper.connect", reason) from error
    finally:
        client.stop()
        client.close()


def _store_in_znode(client: KazooClient, user: ScramUser) -> None:
    """Set one credential; another broker may set another one at the same time."""
    from kazoo.exceptions import BadVersionError

    from odradek.controller.znodes.config_znodes import (
        decode_config,
        encode_config,
        encode_config_change,
    )
    from odradek.controller.znodes.sanitizer import sanitized
    from odradek.tools.initial_scram_users import USERS as PARENT

    name = sanitized(user.name)
    path = f"{PARENT}/{name}"
    client.ensure_path(path)
    while True:
        data, stat = client.get(path)
        config = {**decode_config(data), user.mechanism: user.credential.text}
        try:
            client.set(path, encode_config(config), version=stat.version)
        except BadVersionError:
            continue
        break
    client.ensure_path(CHANGES.rpartition("/")[0])
    client.create(CHANGES, encode_config_change(f"users/{name}"), sequence=True)


def format_directories(
    settings: Mapping[str, str],
    cluster_id: str | None,
    *,
    keeps_stored_id: bool = False,
    users: Sequence[NewScramUser] = (),
) -> int:
    """Format what is not formatted; returns the exit code.

    settings         without process.roles nothing is done
    cluster_id       None: that of a directory that is formatted, or else `CLUSTER_ID`
    keeps_stored_id  a directory that is formatted may have another id than `cluster_id`
    users            that a new cluster begins with
    """
    if not settings.get(ROLES, "").strip():
        return 0
    # Imported only with process.roles.
    from odradek.tools.storage import main as storage_command

    # A file that only this process has: the settings may contain secrets, and / may be read-only.
    descriptor = os.memfd_create("server.properties")
    try:
        os.write(descriptor, properties_text(settings).encode())
        path = f"/proc/self/fd/{descriptor}"
        stored = _stored_id(path) if keeps_stored_id or cluster_id is None else None
        chosen = stored or cluster_id or CLUSTER_ID
        words = ["format", "--cluster-id", chosen, "--config", path, "--ignore-formatted"]
        return storage_command(words + add_scram_words(users))
    finally:
        os.close(descriptor)


def _stored_id(path: str) -> str | None:
    """The id in the first directory that has one."""
    from odradek.broker.settings.load import load_settings
    from odradek.broker.settings.types import SettingsError
    from odradek.runtime.system_files import SystemFileSystem
    from odradek.storage.checkpoints.meta_properties import (
        MetaPropertiesError,
        read_meta_properties,
    )

    files = SystemFileSystem()
    try:
        folders: Sequence[str] = load_settings(path, []).log_dirs
        identities = [read_meta_properties(files, folder) for folder in folders]
    except (SettingsError, MetaPropertiesError, OSError):
        # The format reports it.
        return None
    return next((identity.cluster_id for identity in identities if identity is not None), None)
