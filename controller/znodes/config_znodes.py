"""JSON of the znodes of configs and notifications; written and read as in `zk_data`.

Source: Kafka's ZkData, ConfigEntityChangeNotification.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.controller.znodes.zk_data import (
    LOG_DIRECTORY_FAILED,
    BadZnode,
    decode_json,
    encode_json,
    field,
    shown,
)


def encode_config(config: Mapping[str, str]) -> bytes:
    """/config/<type>/<entity>."""
    return encode_json({"version": 1, "config": dict(config)})


def decode_config(data: bytes | None) -> dict[str, str]:
    """Overrides; an empty node (the parent of a user's clients) has none.

    raises  BadZnode
    """
    if not data:
        return {}
    config = field(decode_json(data), "config", dict)
    return {str(key): str(config[key]) for key in config}


def encode_config_change(entity_path: str) -> bytes:
    """/config/changes/config_change_N, version 2."""
    return encode_json({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> tuple[str, str]:
    """(entity type, the entity's path below it) of versions 1 and 2.

    raises  BadZnode
    """
    value = decode_json(data)
    version = value.get("version")
    if version == 1:
        entity_type, rest = field(value, "entity_type", str), field(value, "entity_name", str)
        return _checked(entity_type), _checked(rest)
    if version != 2:
        raise BadZnode(f"version is {shown(version)}")
    entity_type, slash, rest = field(value, "entity_path", str).partition("/")
    if not slash or not rest:
        raise BadZnode(f"not the path of an entity: {shown(data)}")
    return _checked(entity_type), _checked(rest)


def _checked(path: str) -> str:
    """A part of an entity's path, if ZooKeeper takes it: a refused read would be tried again for
    ever, and with it all later changes.

    raises  BadZnode
    """
    names = path.split("/")
    if not all(names) or "." in names or ".." in names or not path.isprintable():
        raise BadZnode(f"not the path of an entity: {shown(path)}")
    return path


def encode_log_directory_event(broker_id: int) -> bytes:
    """/log_dir_event_notification/log_dir_event_N: a directory of the broker failed."""
    return encode_json({"version": 1, "broker": broker_id, "event": LOG_DIRECTORY_FAILED})


def decode_log_directory_event(data: bytes | None) -> int:
    """The id of the broker.

    raises  BadZnode
    """
    return int(field(decode_json(data), "broker", int))
