"""`sasl.jaas.config` of a client: one login module with its options.

Source: Kafka 3.9's JaasConfig.
"""

from __future__ import annotations

from typing import Final

from odradek.runtime.jaas import JaasError, LoginModule, parse_login_modules
from odradek.tools.security.errors import SecurityError

KEY: Final = "sasl.jaas.config"


def parse_jaas(text: str) -> LoginModule:
    """raises  SecurityError, which shows no option's value"""
    try:
        modules = parse_login_modules(text)
    except JaasError as error:
        raise SecurityError(f"{KEY}: {error}") from None
    if len(modules) != 1:
        raise SecurityError(f"{KEY}: expected one login module")
    return modules[0]
