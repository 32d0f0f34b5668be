"""A directory with the coordination files and no logs: metadata.log.dir outside of log.dirs, and
that of a node that is a controller only."""

from __future__ import annotations

from odradek.broker.node.start_error import StartError
from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.meta_properties import (
    KRAFT_VERSION,
    MetaProperties,
    check_meta_properties,
)
from odradek.storage.directories.log_directory import LogDirectory


class MetadataDirectory:
    """Locked from the beginning until `close`."""

    def __init__(self, files: FileSystem, path: str) -> None:
        """raises  StartError, DirectoryInUse, MetaPropertiesError"""
        self._directory = LogDirectory(files, path)
        try:
            self._directory.open()
        except OSError as error:
            raise StartError(f"{path} cannot be used: {error}") from error

    @property
    def cluster_id(self) -> str | None:
        """The id in meta.properties, or None."""
        meta = self._directory.meta
        return None if meta is None else meta.cluster_id

    def claim(self, *, node_id: int, cluster_id: str, date: str) -> None:
        """Check that the directory belongs to this node, and mark a new one as its own.

        raises  MetaPropertiesError; OSError
        """
        directory = self._directory
        meta = directory.meta
        if meta is None:
            meta = MetaProperties(node_id, cluster_id, version=KRAFT_VERSION)
            directory.write_meta(meta, date=date)
        check_meta_properties({directory.path: meta}, broker_id=node_id, cluster_id=cluster_id)

    def close(self) -> None:
        """Release the lock."""
        self._directory.release()
