"""Which SASL mechanisms a listener has, and the login module of each.

Source: Kafka's JaasContext, BrokerSecurityConfigs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.listeners import SASL_PROTOCOLS
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.jaas import JaasError, LoginModule, parse_login_modules, parse_sections

JAAS_CONFIG: Final = "sasl.jaas.config"
JAAS_FILE: Final = "java.security.auth.login.config"
"""The system property of Java that names a JAAS file."""
_PACKAGE: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
"""The mechanisms that are served, and the class that a JAAS config names for each."""
SERVER_SECTION: Final = "KafkaServer"
TOKEN_ENDPOINT: Final = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
)
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A property of Java's in Kafka; here a setting of the file."""
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"


def with_jaas_file(
    written: Mapping[str, str], java_options: str, read: Callable[[str], str]
) -> dict[str, str]:
    """Settings, and for each mechanism of a listener without its sasl.jaas.config that of the file.

    java_options  the environment's KAFKA_OPTS, which may name a file; the last one counts
    read          the text of a file; may raise OSError
    raises        OSError, InvalidValueError
    """
    completed = dict(written)
    paths = re.findall(rf"(?:^|\s)[\"']?-D{re.escape(JAAS_FILE)}==?([^\s\"']+)", java_options)
    protocols = written.get("listeners", "") + written.get("listener.security.protocol.map", "")
    if not paths or "SASL" not in protocols.upper():
        return completed
    try:
        sections = parse_sections(read(paths[-1]))
    except JaasError as error:
        raise InvalidValueError(JAAS_FILE, paths[-1], str(error)) from None
    for listener in re.findall(r"([^,\s]+?)://", written.get("listeners", "")):
        name = listener.lower()
        section = sections.get(f"{name}.{SERVER_SECTION}", sections.get(SERVER_SECTION))
        for mechanism, class_name in LOGIN_MODULES.items():
            for module in section or ():
                if module.class_name == class_name:
                    completed.setdefault(_jaas_key(name, mechanism), module.text)
    return completed


def check_sasl(settings: BrokerSettings) -> None:
    """Check the mechanisms of each SASL listener and of the requests between brokers.

    raises  InvalidValueError
    """
    for listener in settings.listeners:
        if listener.protocol not in SASL_PROTOCOLS:
            continue
        modules = login_modules(settings, listener.name)
        if listener.name != settings.inter_broker_listener_name:
            continue
        mechanism = inter_broker_mechanism(settings)
        if mechanism not in modules:
            allowed = f"Expected a mechanism out of {_MECHANISMS} ({', '.join(modules)})"
            raise InvalidValueError(_INTER_BROKER, mechanism, allowed)


def inter_broker_mechanism(settings: BrokerSettings) -> str:
    """The mechanism with which this broker authenticates to others."""
    return str(settings.of_listener(settings.inter_broker_listener_name, _INTER_BROKER))


def token_endpoint(settings: BrokerSettings, listener_name: str, mechanism: str) -> dict[str, str]:
    """The settings of the endpoint from which this broker gets tokens, of the settings file only:
    none of them is taken over the wire (CVE-2023-25194).

    raises  InvalidValueError
    """
    static, endpoint = settings.static, {}
    prefix = f"listener.name.{listener_name.lower()}."
    for name in TOKEN_ENDPOINT:
        for key in (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}", name):
            if key in static:
                endpoint[name] = static[key]
                break
    url, allowed_urls = endpoint.get(TOKEN_ENDPOINT[0]), static.get(ALLOWED_URLS)
    if url is None:
        return {}
    if allowed_urls is not None and url not in [item.strip() for item in allowed_urls.split(",")]:
        raise InvalidValueError(
            TOKEN_ENDPOINT[0], "[hidden]", f"{ALLOWED_URLS} does not contain it"
        )
    return endpoint


def login_modules(settings: BrokerSettings, listener_name: str) -> dict[str, LoginModule]:
    """The mechanisms of a listener, each with its login module.

    raises  InvalidValueError
    """
    enabled = settings.of_listener(listener_name, _MECHANISMS)
    assert isinstance(enabled, tuple), "a list setting is a tuple"
    if not enabled:
        allowed = f"The listener {listener_name} needs a mechanism"
        raise InvalidValueError(_MECHANISMS, "", allowed)
    return {
        str(mechanism): _login_module(settings, listener_name, str(mechanism))
        for mechanism in enabled
    }


def _jaas_key(listener_name: str, mechanism: str) -> str:
    return f"listener.name.{listener_name.lower()}.{mechanism.lower()}.{JAAS_CONFIG}"


def _login_module(settings: BrokerSettings, listener_name: str, mechanism: str) -> LoginModule:
    class_name = LOGIN_MODULES.get(mechanism)
    if class_name is None:
        allowed = f"Only {', '.join(LOGIN_MODULES)} are served"
        if mechanism == "GSSAPI":
            allowed += ", and Kerberos is not, which is the default"
        raise InvalidValueError(_MECHANISMS, mechanism, allowed)
    key = _jaas_key(listener_name, mechanism)
    text = settings.written.get(key)
    if text is None:
        allowed = (
            f"Expected {class_name} required ...; there, or in a section {SERVER_SECTION} or "
            f"{listener_name.lower()}.{SERVER_SECTION} of the file that -D{JAAS_FILE} names in "
            "KAFKA_OPTS"
        )
        raise InvalidValueError(key, "null", allowed)
    try:
        modules = parse_login_modules(text)
    except JaasError as error:
        raise InvalidValueError(key, "[hidden]", str(error)) from None
    if len(modules) != 1:
        raise InvalidValueError(
            key, "[hidden]", f"Expected one login module, there are {len(modules)}"
        )
    if modules[0].class_name != class_name:
        allowed = f"Expected the login module {class_name} for {mechanism}"
        raise InvalidValueError(key, modules[0].class_name, allowed)
    return modules[0]
