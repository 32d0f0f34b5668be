"""Parts of `odradek configs` that the conversations cannot show."""

from __future__ import annotations

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.tools.configs.command import parse_pairs
from odradek.tools.configs.options import ConfigsError, entity_names, entity_types
from odradek.tools.configs.options import parse_options as parse
from odradek.tools.options import OptionsError
from tests.odradek.cluster_tools import our_tool
from tests.odradek.scripted_broker import scripted_broker

AT = ("--bootstrap-server", "127.0.0.1:1", "--describe")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("a=b,c=d,", {"a": "b", "c": "d"}),
        ("a = b , c= ", {"a": "b", "c": ""}),
        ("a=[b,c],d=[e=f,g]", {"a": "b,c", "d": "e=f,g"}),
        ("a=[[b]]", {"a": "b"}),
        ("a=b,a=c", {"a": "c"}),
    ],
)
def test_added_configs_are_parsed(text: str, pairs: dict[str, str]) -> None:
    assert parse_pairs(text) == pairs


@pytest.mark.parametrize("text", ["", "a", "a=b,c", "a=b=c", "a=b,,c=d"])
def test_added_config_without_one_equals_sign_is_an_error(text: str) -> None:
    with pytest.raises(ConfigsError):
        parse_pairs(text)


@pytest.mark.parametrize(
    ("words", "types", "names"),
    [
        (["--topic", "orders"], ["topics"], ["orders"]),
        (["--entity-type", "brokers"], ["brokers"], []),
        (["--entity-type", "brokers", "--entity-default"], ["brokers"], [""]),
        (["--broker-defaults"], ["brokers"], [""]),
        (["--user", "a", "--client-defaults"], ["users", "clients"], ["a", ""]),
    ],
)
def test_entities_have_types_and_names(
    words: list[str], types: list[str], names: list[str]
) -> None:
    options = parse([*AT, *words])
    assert (entity_types(options), entity_names(options)) == (types, names)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [
                *("--bootstrap-server", "127.0.0.1:1", "--alter", "--user", "a"),
                *("--add-config", "SCRAM-SHA-256=[password=word]"),
            ],
            "Error while executing config command with args '--bootstrap-server 127.0.0.1:1 "
            "--alter --user a --add-config SCRAM-SHA-256=[hidden]'\n"
            "127.0.0.1:1 cannot be reached: Connection refused\n",
        ),
        (
            ["--bootstrap-controller", "127.0.0.1:1", "--describe", "--broker", "1"],
            "Only --bootstrap-server is supported by this tool\n",
        ),
    ],
)
def test_failure_is_reported_without_passwords(words: list[str], message: str) -> None:
    result = our_tool("configs", words)
    assert (result.exit_code, result.output, result.errors) == (1, "", message)


def test_unknown_entity_type_with_zookeeper_names_those_of_zookeeper() -> None:
    with pytest.raises(OptionsError) as raised:
        parse(["--zookeeper", "127.0.0.1:1", "--describe", "--topic", "orders"])
    assert str(raised.value) == (
        "Invalid entity type topics, the entity type must be one of users, brokers with a "
        "--zookeeper argument"
    )


def test_sensitive_config_of_a_broker_prevents_a_change() -> None:
    rows = [
        DescribeConfigsResourceResult(
            name=name, value=None, read_only=False, config_source=2, is_sensitive=True
        )
        for name in ("ssl.key.password", "ssl.keystore.password")
    ]
    result = DescribeConfigsResult(
        error_code=0, error_message=None, resource_type=4, resource_name="0", configs=rows
    )
    script = {
        ApiKey.DESCRIBE_CONFIGS: [
            lambda request: request.response(DescribeConfigsResponse(results=[result]))
        ]
    }
    with scripted_broker(script) as broker:
        done = our_tool(
            "configs",
            [
                *("--bootstrap-server", broker.bootstrap, "--alter", "--broker", "0"),
                *("--add-config", "log.cleaner.threads=2,ssl.key.password=word"),
            ],
        )
    assert (done.exit_code, done.output) == (1, "")
    assert done.errors == (
        "All sensitive broker config entries must be specified for --alter, missing entries: "
        "Set(ssl.keystore.password)\n"
    )
