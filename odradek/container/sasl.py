"""Users of Bitnami's image, as the JAAS configurations of its listeners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.container.refusal import EnvironmentRefused

USERS: Final = "KAFKA_CLIENT_USERS"
PASSWORDS: Final = "KAFKA_CLIENT_PASSWORDS"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def jaas_settings(environment: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """`listener.name.NAME.MECHANISM.sasl.jaas.config` for each listener with SASL.

    environment  with Bitnami's names
    raises       EnvironmentRefused when users and passwords are not equally many
    """
    variable = USERS if USERS in environment else "KAFKA_BROKER_USER"
    users = _words(environment.get(variable, ""))
    passwords = _words(environment.get(PASSWORDS, environment.get("KAFKA_BROKER_PASSWORD", "")))
    if len(users) != len(passwords):
        counts = f"{len(users)} users have {len(passwords)} passwords"
        raise EnvironmentRefused(variable, "sasl.jaas.config", f"{counts} in {PASSWORDS}")
    mechanisms = [word.strip() for word in settings.get("sasl.enabled.mechanisms", "").split(",")]
    inter_broker = settings.get("inter.broker.listener.name", "INTERNAL").upper()
    jaas: dict[str, str] = {}
    for pair in settings.get("listener.security.protocol.map", "").split(","):
        listener, _, protocol = pair.strip().partition(":")
        if not protocol.strip().upper().startswith("SASL_"):
            continue
        own = _inter_broker_user(environment) if listener.upper() == inter_broker else []
        for mechanism in filter(None, mechanisms):
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            jaas[name] = _jaas(mechanism, [*zip(users, passwords, strict=True)], own)
    return jaas


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
