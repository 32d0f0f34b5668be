"""Whether the data directories suit the settings; nothing is written.

With process.roles a directory must have been formatted, as with Apache Kafka: a lost volume is not
taken for a new node.  One that Apache Kafka has used in KRaft mode is refused, since the metadata
of its topics are in a log that is not read here.

Source: Kafka's KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.verify.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from odradek.broker.node.start_error import StartError
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.meta_properties import (
    KRAFT_VERSION,
    META_PROPERTIES_FILE,
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
)
from odradek.storage.files.names import CLUSTER_METADATA_FOLDER, LOG

FORMAT: Final = "odradek storage format -t CLUSTER_ID -c FILE"
WAY_OUT: Final = (
    "copy its topics into a new cluster with MirrorMaker 2 or a mirror pipeline (odradek pipeline)"
)


def directories_of(settings: BrokerSettings) -> list[str]:
    """log.dirs, and the directory of the metadata where it is not one of them."""
    return list(dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir)))


def check_directories(files: FileSystem, settings: BrokerSettings) -> None:
    """Refuse directories that are not formatted, of another node, or used by Apache's KRaft.

    raises  StartError; MetaPropertiesError
    """
    identities: dict[str, MetaProperties] = {}
    for directory in directories_of(settings):
        # One that cannot be read goes offline later.
        with contextlib.suppress(OSError):
            identity = read_meta_properties(files, directory)
            if identity is not None:
                identities[directory] = identity
            if settings.quorum is not None or _is_kraft(identity):
                _check_unused(files, directory)
    if settings.quorum is None:
        _refuse_kraft(identities)
    elif not identities:
        directories = ", ".join(directories_of(settings))
        raise StartError(
            f"{directories} is not formatted, which process.roles needs: {FORMAT} (or set no "
            "process.roles for a node on its own)"
        )
    else:
        check_meta_properties(identities, broker_id=settings.quorum.node_id, cluster_id=None)


def _is_kraft(identity: MetaProperties | None) -> bool:
    return identity is not None and identity.version == KRAFT_VERSION


def _refuse_kraft(identities: Mapping[str, MetaProperties]) -> None:
    for directory, identity in identities.items():
        if _is_kraft(identity):
            raise StartError(
                f"{directory}/{META_PROPERTIES_FILE} has version 1: the directory was formatted "
                "for KRaft; start with the process.roles and node.id that it was formatted for"
            )


def _check_unused(files: FileSystem, directory: str) -> None:
    """Refuse a directory with a log of KRaft's metadata; a snapshot alone is that of a format."""
    folder = f"{directory}/{CLUSTER_METADATA_FOLDER}"
    if files.is_directory(folder) and any(name.endswith(LOG) for name in files.list(folder)):
        raise StartError(
            f"{folder} has the metadata of a cluster of Apache Kafka in KRaft mode, which are not "
            f"read here: {WAY_OUT}"
        )
