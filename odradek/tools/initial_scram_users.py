"""SCRAM credentials that are stored before a broker has started for the first time (KIP-900).

They are in the coordination files of the node, as if a client had stored them.
Source: Kafka 3.9's ScramParser.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence
from time import time
from typing import Final, NamedTuple

from odradek.broker.security.sasl.scram_users import MECHANISM_TYPES
from odradek.controller.coordination.salvage import replace_all
from odradek.controller.coordination.session import Create
from odradek.controller.coordination.state_files import CoordinationDamaged, find_files, read_tree
from odradek.controller.coordination.tree import Tree
from odradek.controller.znodes.config_znodes import decode_config, encode_config
from odradek.controller.znodes.sanitizer import NOT_NODES, sanitized
from odradek.controller.znodes.zk_data import BadZnode
from odradek.runtime.files import FileSystem
from odradek.runtime.scram_credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    credential_of,
    salted_password,
)
from odradek.runtime.system_files import SystemFileSystem
from odradek.tools.errors import ToolError

SALT_BYTES: Final = 32
USERS: Final = "/config/users"
PARENTS: Final = ("/config", USERS)
TIMEOUT_MS: Final = 18_000


class ScramUser(NamedTuple):
    """A user with a credential of one mechanism."""

    name: str
    mechanism: str
    credential: ScramCredential


def scram_user(name: str, mechanism: str, password: str) -> ScramUser:
    """A user with a password, by the lowest number of iterations and a random salt.

    raises  ToolError for a name that no user can have
    """
    _check_name(name)
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
    return ScramUser(name, mechanism, credential_of(mechanism, salt, salted, ITERATIONS_MIN))


def parse_add_scram(argument: str) -> ScramUser:
    """Read `SCRAM-SHA-256=[name=NAME,password=TEXT]`, which may have `iterations` and `salt`, too,
    and with these `saltedpassword` in place of `password`.

    raises  ToolError, which shows no password
    """
    mechanism, equals, text = argument.strip().partition("=")
    if not equals:
        raise ToolError("Failed to find equals sign in SCRAM argument '[hidden]'")
    if mechanism not in MECHANISM_TYPES:
        raise ToolError(f"The add-scram mechanism {mechanism} is not supported.")
    for has_bracket, place in ((text[:1] == "[", "start with ["), (text[-1:] == "]", "end with ]")):
        if not has_bracket:
            raise ToolError(f"Expected configuration string to {place}")
    fields: dict[str, str] = {}
    for component in text[1:-1].split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise ToolError("No equals sign found in SCRAM component: [hidden]")
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        fields[key] = value[1:-1] if is_quoted else value
    name = fields.pop("name", None)
    if not name:
        raise ToolError("You must supply 'name' to add-scram")
    _check_name(name)
    return ScramUser(name, mechanism, _credential(mechanism, fields))


def _check_name(name: str) -> None:
    if name in NOT_NODES:
        raise ToolError(f"A user of SCRAM must not be called '{name}'")


def _credential(mechanism: str, fields: dict[str, str]) -> ScramCredential:
    salt = _decoded("salt", fields.pop("salt", None))
    iterations = _iterations(mechanism, fields.pop("iterations", str(ITERATIONS_MIN)))
    password = fields.pop("password", None)
    salted = _decoded("saltedPassword", fields.pop("saltedpassword", None))
    if fields:
        raise ToolError(f"Unknown SCRAM configurations: {', '.join(sorted(fields))}")
    if password is not None:
        salt = salt or secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)
    elif salted is None:
        raise ToolError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif salt is None:
        raise ToolError("You must supply 'salt' with 'saltedpassword' to add-scram")
    return credential_of(mechanism, salt, salted, iterations)


def _decoded(name: str, text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ToolError(f"Failed to decode given {name}: [hidden]") from error


def _iterations(mechanism: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise ToolError(f"Failed to parse iterations count: {text}") from error
    if not ITERATIONS_MIN <= number <= ITERATIONS_MAX:
        bound = f">= {ITERATIONS_MIN}" if number < ITERATIONS_MIN else f"<= {ITERATIONS_MAX}"
        kind = mechanism.replace("-", "_")
        raise ToolError(f"The 'iterations' value must be {bound} for add-scram using {kind}")
    return number


def _has_state(files: FileSystem, folder: str) -> bool:
    """Whether coordination files have more than `store_initial_users` writes."""
    snapshots, journals = find_files(files, folder)
    try:
        tree = read_tree(files, folder).tree
    except CoordinationDamaged:
        # A crash leaves an empty journal before the snapshot is there.
        return bool(snapshots) or any(files.read(journal.path) for journal in journals)
    others = [path for path in tree.nodes if path not in ("/", *PARENTS)]
    return not all(path.startswith(f"{USERS}/") for path in others)


def missing_users(folder: str, users: Sequence[ScramUser]) -> list[ScramUser]:
    """The users without a credential of their mechanism in the coordination files of a node; all
    users if the files cannot be read.

    raises  OSError
    """
    try:
        nodes = read_tree(SystemFileSystem(), folder).tree.nodes
    except CoordinationDamaged:
        nodes = {}
    missing: list[ScramUser] = []
    for user in users:
        node = nodes.get(f"{USERS}/{sanitized(user.name)}")
        try:
            is_stored = node is not None and user.mechanism in decode_config(node.data)
        except BadZnode:
            is_stored = False
        if not is_stored:
            missing.append(user)
    return missing


def store_initial_users(folder: str, users: Sequence[ScramUser]) -> None:
    """Write the coordination files of a node that has none, or the users of an interrupted format.

    folder  its first log directory
    raises  ToolError when there is the state of a cluster; OSError
    """
    files = SystemFileSystem()
    if _has_state(files, folder):
        raise ToolError(
            f"{folder} has the metadata of a cluster: users are stored with odradek configs"
        )
    configs: dict[str, dict[str, str]] = {}
    for user in users:
        configs.setdefault(user.name, {})[user.mechanism] = user.credential.text
    tree = Tree()
    tree.open_session(TIMEOUT_MS)
    session_id = tree.last_session_id
    nodes = [Create(path) for path in PARENTS]
    for name, config in configs.items():
        nodes.append(Create(f"{USERS}/{sanitized(name)}", encode_config(config)))
    tree.transact(session_id, nodes, int(time() * 1000))
    tree.close_session(session_id)
    replace_all(files, folder, tree, "")
