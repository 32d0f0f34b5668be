"""Each vulnerability of Apache Kafka's published list: the test that would find it here, or why it
cannot be here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pytest

from odradek.broker.settings.alter import ConfigChange, decide_broker
from odradek.broker.settings.load import make_settings
from odradek.protocol.errors import BrokerError
from tests.repository.sources import sources

TESTED: Final[Mapping[str, tuple[str, ...]]] = {
    "CVE-2017-12610": ("test_scram_of_another_authorization_id_is_refused",
                       "test_plain_message_is_refused_with_the_text_of_kafka",
                       "test_other_authorization_id_is_refused"),
    "CVE-2022-34917": ("test_many_bytes_after_a_request_close_the_connection",),
    "CVE-2023-25194": ("test_setting_that_names_a_class_a_url_or_a_secret_key_is_not_dynamic",),
    "CVE-2024-27309": ("test_filter_gets_what_no_earlier_filter_has_matched",),
    "CVE-2024-56128": ("test_replayed_and_reflected_last_messages_are_refused",),
    "CVE-2025-27817": ("test_settings_that_cannot_be_used_stop_the_start",
                       "test_setting_that_names_a_class_a_url_or_a_secret_key_is_not_dynamic"),
    "CVE-2026-33557": ("test_token_is_accepted_or_refused",),
    "CVE-2026-33558": ("test_secrets_are_in_no_log_response_page_file_or_process_list",),
    "CVE-2026-41115": ("test_responses_under_acls_are_those_of_apache_kafka",),
}  # fmt: skip
"""The tests of each."""
CANNOT_HAPPEN: Final[Mapping[str, str]] = {
    "CVE-2018-1288": "a fetch with the id of a replica needs ClusterAction",
    "CVE-2018-17196": "the attributes of each batch say what is asked for",
    "CVE-2019-12399": "there is no Kafka Connect",
    "CVE-2021-38153": "passwords and proofs are compared by hmac.compare_digest",
    "CVE-2021-4104": "there is no Log4j",
    "CVE-2021-44228": "there is no Log4j",
    "CVE-2021-45046": "there is no Log4j",
    "CVE-2022-23302": "there is no Log4j",
    "CVE-2022-23305": "there is no Log4j",
    "CVE-2022-23307": "there is no Log4j",
    "CVE-2023-34455": "there is no snappy-java",
    "CVE-2024-31141": "there are no config providers",
    "CVE-2025-27818": "login modules are names, and none is loaded",
    "CVE-2025-27819": "login modules are names, and none is loaded",
    "CVE-2026-35554": "there is no Java producer",
}
"""Why there is no test."""


def test_every_named_test_exists() -> None:
    defined = {
        name
        for source in sources(".py")
        if source.is_in("tests/")
        for name in re.findall(r"^(?:async )?def (test_\w+)", source.text, re.M)
    }
    assert not {name for names in TESTED.values() for name in names} - defined
    assert not TESTED.keys() & CANNOT_HAPPEN.keys()


@pytest.mark.parametrize("name", [
    "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.token.endpoint.url",
    "sasl.server.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.client.callback.handler.class", "authorizer.class.name",
    "password.encoder.secret", "delegation.token.secret.key", "replica.selector.class",
    "zookeeper.connect", "log.dirs",
])  # fmt: skip
@pytest.mark.parametrize("per_broker", [True, False])
def test_setting_that_names_a_class_a_url_or_a_secret_key_is_not_dynamic(
    name: str, *, per_broker: bool
) -> None:
    change = ConfigChange(name, "http://attacker.example/")
    with pytest.raises(BrokerError, match="Cannot update these configs dynamically"):
        decide_broker(make_settings({}), [change], per_broker=per_broker, replaces=False)
