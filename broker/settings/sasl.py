"""Which SASL mechanisms a listener has, and the login module of each.

Source: Kafka's JaasContext, BrokerSecurityConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.jaas import JaasError, LoginModule, parse_login_modules
from odradek.broker.settings.types import InvalidValueError

JAAS_CONFIG: Final = "sasl.jaas.config"
_PACKAGE: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
"""The mechanisms that are served, and the class that a JAAS config names for each."""
SERVER_SECTION: Final = "KafkaServer"


def login_modules(
    settings: BrokerSettings, listener_name: str, sections: Mapping[str, Sequence[LoginModule]]
) -> dict[str, LoginModule]:
    """The mechanisms of a listener, each with its login module.

    sections  those of the JAAS file, by name
    raises    InvalidValueError
    """
    key = "sasl.enabled.mechanisms"
    enabled = settings.of_listener(listener_name, key)
    assert isinstance(enabled, tuple), "a list setting is a tuple"
    if not enabled:
        raise InvalidValueError(key, "", f"The listener {listener_name} needs a mechanism")
    return {
        str(mechanism): login_module(settings, listener_name, str(mechanism), sections, key)
        for mechanism in enabled
    }


def login_module(
    settings: BrokerSettings,
    listener_name: str,
    mechanism: str,
    sections: Mapping[str, Sequence[LoginModule]],
    mechanism_key: str,
) -> LoginModule:
    """The login module of one mechanism.

    mechanism_key  the setting that names the mechanism
    raises         InvalidValueError
    """
    class_name = LOGIN_MODULES.get(mechanism)
    if class_name is None:
        allowed = f"Only {', '.join(LOGIN_MODULES)} are served"
        if mechanism == "GSSAPI":
            allowed += ": Kerberos is not, which is Kafka's default"
        raise InvalidValueError(mechanism_key, mechanism, allowed)
    prefix = f"listener.name.{listener_name.lower()}"
    key = f"{prefix}.{mechanism.lower()}.{JAAS_CONFIG}"
    text = settings.written.get(key)
    if text is not None:
        modules = _parsed(key, text)
        if len(modules) != 1:
            allowed = f"Expected one login module, there are {len(modules)}"
            raise InvalidValueError(key, "[hidden]", allowed)
        if modules[0].class_name != class_name:
            allowed = f"Expected the login module {class_name} for {mechanism}"
            raise InvalidValueError(key, modules[0].class_name, allowed)
        return modules[0]
    own_section = f"{listener_name.lower()}.{SERVER_SECTION}"
    section = sections.get(own_section, sections.get(SERVER_SECTION))
    for module in section or ():
        if module.class_name == class_name:
            return module
    allowed = (
        f"{mechanism} needs {class_name} there, or in the section {SERVER_SECTION} or {own_section}"
        " of the file that -Djava.security.auth.login.config names in KAFKA_OPTS"
    )
    raise InvalidValueError(key, "null", allowed)


def _parsed(key: str, text: str) -> list[LoginModule]:
    try:
        return parse_login_modules(text)
    except JaasError as error:
        raise InvalidValueError(key, "[hidden]", str(error)) from None
