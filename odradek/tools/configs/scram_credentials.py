"""Stores SCRAM credentials of users.

Source: Kafka 3.9's ConfigCommand (alterUserScramCredentialConfigs).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.tools.client import Client
from odradek.tools.configs.options import ConfigsError
from odradek.tools.errors import check

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT_BYTES: Final = 32
ITERATIONS: Final = 4096
"""The default, and the lowest number."""
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")


def alter_credentials(
    client: Client, user: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Set and delete credentials of a user, by mechanism.

    added   `iterations=N,password=TEXT`, or without the first
    raises  ToolError
    """
    numbers = {name: number for number, name in MECHANISMS.items()}
    _send(
        client,
        AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name=user, mechanism=numbers[name]) for name in deleted
            ],
            upsertions=[
                _upsertion(user, name, numbers[name], text) for name, text in added.items()
            ],
        ),
    )


def store_scram_credential(client: Client, user: str, mechanism: str, password: str) -> None:
    """Let a user log in with a password, by ITERATIONS rounds of the mechanism.

    raises  ToolError
    """
    number = next(number for number, name in MECHANISMS.items() if name == mechanism)
    upsertion = _upsertion(user, mechanism, number, f"password={password}")
    _send(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


def _send(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    response = client.controller(request, AlterUserScramCredentialsResponse)
    check(*response.results)


def _upsertion(user: str, mechanism: str, number: int, text: str) -> ScramCredentialUpsertion:
    # The message does not show the password, which Kafka's does.
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ConfigsError(f"Invalid credential property {mechanism}=[hidden]")
    iterations = ITERATIONS if match[1] in (None, "", "-1") else int(match[1])
    if iterations < ITERATIONS:
        raise ConfigsError(
            f"Iterations {iterations} is less than the minimum {ITERATIONS} required for "
            f"{mechanism}"
        )
    salt = secrets.token_bytes(SALT_BYTES)
    return ScramCredentialUpsertion(
        name=user,
        mechanism=number,
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(HASHES[mechanism], match[2].encode(), salt, iterations),
    )
