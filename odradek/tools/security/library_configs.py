"""TLS and SASL for librdkafka: stores as PEM, credentials, a callback for OAUTHBEARER.

Source: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from typing import Any

from odradek.tools.security.client_security import ClientSecurity
from odradek.tools.security.errors import SecurityError
from odradek.tools.security.sasl_client import OAUTHBEARER, SaslLogin


def library_configs(security: ClientSecurity) -> dict[str, Any]:
    """raises  SecurityError for what librdkafka does not do"""
    configs: dict[str, Any] = {"security.protocol": security.protocol}
    if security.protocol.endswith("SSL"):
        configs["ssl.endpoint.identification.algorithm"] = (
            "https" if security.checks_host else "none"
        )
        if security.trusted is not None:
            configs["ssl.ca.pem"] = security.trusted
        if security.identity is not None:
            configs["ssl.key.pem"] = security.identity.key_pem.decode()
            configs["ssl.certificate.pem"] = security.identity.chain_pem.decode()
        if security.ciphers:
            configs["ssl.cipher.suites"] = ":".join(security.ciphers)
    if security.login is not None:
        configs |= _login_configs(security.login)
    return configs


def _login_configs(login: SaslLogin) -> dict[str, Any]:
    configs: dict[str, Any] = {"sasl.mechanism": login.mechanism}
    if login.mechanism == OAUTHBEARER:
        return {**configs, "oauth_cb": lambda _: (*login.token(), "", login.extensions)}
    if login.is_by_delegation_token:
        raise SecurityError("librdkafka, under this tool, has no login with delegation tokens")
    return {**configs, "sasl.username": login.username, "sasl.password": login.password}
