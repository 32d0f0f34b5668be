"""Users of Bitnami's image: JAAS configurations of its listeners, and credentials of SCRAM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.container.names import EnvironmentRefused

USERS: Final = "KAFKA_CLIENT_USERS"
PASSWORDS: Final = "KAFKA_CLIENT_PASSWORDS"
USER_VARIABLES: Final = (USERS, "KAFKA_BROKER_USER", "KAFKA_INTER_BROKER_USER")
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class NewScramUser(NamedTuple):
    """A user of SCRAM."""

    name: str
    password: str
    mechanism: str


def jaas_settings(environment: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """`listener.name.NAME.MECHANISM.sasl.jaas.config` for each listener with SASL.

    environment  with Bitnami's names
    raises       EnvironmentRefused when users and passwords are not equally many
    """
    users = _client_users(environment)
    mechanisms = _mechanisms(settings)
    inter_broker = settings.get("inter.broker.listener.name", "INTERNAL").upper()
    jaas: dict[str, str] = {}
    for pair in settings.get("listener.security.protocol.map", "").split(","):
        listener, _, protocol = pair.strip().partition(":")
        if not protocol.strip().upper().startswith("SASL_"):
            continue
        own = _inter_broker_user(environment) if listener.upper() == inter_broker else []
        for mechanism in filter(None, mechanisms):
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            jaas[name] = _jaas(mechanism, users, own)
    return jaas


def scram_users(
    environment: Mapping[str, str], settings: Mapping[str, str]
) -> tuple[NewScramUser, ...]:
    """The users whose credentials are stored before the start.

    environment  with Bitnami's names
    raises       EnvironmentRefused, as above
    """
    users = _client_users(environment)
    mechanisms = [name for name in _mechanisms(settings) if name.startswith("SCRAM-")]
    stored = [NewScramUser(*user, mechanism) for mechanism in mechanisms for user in users]
    between = settings.get("sasl.mechanism.inter.broker.protocol", "")
    if between.startswith("SCRAM-"):
        own = _inter_broker_user(environment)
        stored += [NewScramUser(*user, between) for user in own]
    return tuple(stored)


def _client_users(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    users = _words(environment.get(USERS, environment.get("KAFKA_BROKER_USER", "")))
    passwords = _words(environment.get(PASSWORDS, environment.get("KAFKA_BROKER_PASSWORD", "")))
    if len(users) != len(passwords):
        counts = f"{len(users)} users have {len(passwords)} passwords"
        given = (USERS, "KAFKA_BROKER_USER", PASSWORDS, "KAFKA_BROKER_PASSWORD")
        variable = next(name for name in given if name in environment)
        raise EnvironmentRefused(variable, "sasl.jaas.config", f"{counts} in {PASSWORDS}")
    return [*zip(users, passwords, strict=True)]


def _mechanisms(settings: Mapping[str, str]) -> list[str]:
    return [word.strip() for word in settings.get("sasl.enabled.mechanisms", "").split(",")]


def _words(text: str) -> list[str]:
    return [word for word in text.replace(";", ",").split(",") if word]


def _inter_broker_user(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    user = environment.get("KAFKA_INTER_BROKER_USER")
    return [(user, environment.get("KAFKA_INTER_BROKER_PASSWORD", ""))] if user else []


def _jaas(mechanism: str, users: list[tuple[str, str]], own: list[tuple[str, str]]) -> str:
    options = [
        option
        for user, password in own
        for option in (f'username="{user}"', f'password="{password}"')
    ]
    if mechanism == "PLAIN":
        options += [f'user_{user}="{password}"' for user, password in (*users, *own)]
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return " ".join((module, "required", *options)) + ";"
