"""The format of a node's directories, without which process.roles does not start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.container.sasl import NewScramUser
from odradek.container.stored_users import add_scram_words
from odradek.runtime.java_properties import properties_text

ROLES: Final = "process.roles"
CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
"""The id for a container without one: that of Apache's image, so that nodes agree."""


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
