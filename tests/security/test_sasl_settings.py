"""JAAS texts, and what a start with SASL refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.settings.load import load_settings
from odradek.broker.settings.sasl import LOGIN_MODULES, login_modules
from odradek.broker.settings.types import InvalidValueError, SettingsError
from odradek.runtime.jaas import JaasError, LoginModule, parse_login_modules, parse_sections

PLAIN = LOGIN_MODULES["PLAIN"]
SCRAM = LOGIN_MODULES["SCRAM-SHA-256"]
LISTENERS = "listeners=SASL_PLAINTEXT://127.0.0.1:0"
INTER_BROKER = "security.inter.broker.protocol=SASL_PLAINTEXT"
PLAIN_KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
ONLY_PLAIN = "sasl.enabled.mechanisms=PLAIN"
BETWEEN_BROKERS = "sasl.mechanism.inter.broker.protocol=PLAIN"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('a.B required user_x="y";', {"user_x": "y"}),
        ("a.B required;", {}),
        ("a.B REQUIRED\n  user_x='y'\n  user_z=word ; ", {"user_x": "y", "user_z": "word"}),
        ('a.B required // no user\n /* user_a="b" */ user_x="a//b";', {"user_x": "a//b"}),
        (r'a.B sufficient x="\"\\\n\101";', {"x": '"\\\nA'}),
        ('a.B optional "user_a b"="=;{}";', {"user_a b": "=;{}"}),
        ('a.B required user_x="first" user_x="second";', {"user_x": "second"}),
    ],
)
def test_login_module_is_read_as_java_reads_it(text: str, options: dict[str, str]) -> None:
    (module,) = parse_login_modules(text)
    assert (module.class_name, module.options) == ("a.B", options)
    assert parse_login_modules(module.text) == [module]
    assert "first" not in repr(module)


@pytest.mark.parametrize(
    "text",
    [
        "a.B",
        "a.B required",
        "a.B maybe;",
        'a.B required secret="s3cret"',
        "a.B required password=1s3cret;",
        "a.B required password;",
        'a.B required password="s3cret;',
        "a.B required password=s3cret};",
        "=;",
        '"',
        "\\",
    ],
)
def test_other_text_is_refused_without_a_value(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_login_modules(text)
    assert "s3cret" not in str(refused.value)


def test_jaas_file_has_sections() -> None:
    text = 'KafkaServer { a.B required x="1"; c.D optional; };\n// more\ninternal.KafkaServer {};'
    assert parse_sections(text) == {
        "KafkaServer": [LoginModule("a.B", {"x": "1"}), LoginModule("c.D", {})],
        "internal.KafkaServer": [],
    }


@pytest.mark.parametrize(
    "text", ["KafkaServer", "KafkaServer { a.B required; }", "KafkaServer {", "A {}; A {};", "};"]
)
def test_other_jaas_file_is_refused(text: str) -> None:
    with pytest.raises(JaasError):
        parse_sections(text)


@pytest.mark.parametrize(
    ("overrides", "allowed"),
    [
        ([], "Kerberos is not"),
        (["sasl.enabled.mechanisms=PLAIN,GSSAPI"], f"Expected {PLAIN} required"),
        (["sasl.enabled.mechanisms="], "needs a mechanism"),
        (["sasl.enabled.mechanisms=CRAM-MD5"], "are served"),
        ([ONLY_PLAIN, f"{PLAIN_KEY}={SCRAM} required;"], f"Expected the login module {PLAIN}"),
        (
            [ONLY_PLAIN, f"{PLAIN_KEY}=com.sun.security.auth.module.JndiLoginModule required;"],
            f"Expected the login module {PLAIN}",
        ),
        ([ONLY_PLAIN, f"{PLAIN_KEY}={PLAIN} required; {PLAIN} required;"], "there are 2"),
        ([ONLY_PLAIN, f'{PLAIN_KEY}={PLAIN} required password="s3cret"'], "semi-colon"),
        ([ONLY_PLAIN, f"{PLAIN_KEY}={PLAIN} required;"], "out of sasl.enabled.mechanisms (PLAIN)"),
    ],
)
def test_start_is_refused_with_a_line(overrides: list[str], allowed: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        load_settings(None, [LISTENERS, INTER_BROKER, *overrides])
    assert allowed in refused.value.line
    assert "s3cret" not in refused.value.line


def test_jaas_file_of_the_environment_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(
        f'KafkaServer {{ {SCRAM} required; {PLAIN} required user_a="of all"; }};\n'
        f'internal.KafkaServer {{ {PLAIN} required user_a="of one \\"\\\\"; }};\n'
        "KafkaClient { any.Thing required; };\n"
    )
    option = f"-Djava.security.auth.login.config={path}"
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g {option} -Dx=y")
    overrides = [
        "listeners=SASL_PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name=INTERNAL",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        "listener.name.internal.sasl.enabled.mechanisms=PLAIN",
        BETWEEN_BROKERS,
    ]
    settings = load_settings(None, overrides)
    public = login_modules(settings, "SASL_PLAINTEXT")
    assert {name: module.options for name, module in public.items()} == {
        "PLAIN": {"user_a": "of all"},
        "SCRAM-SHA-512": {},
    }
    assert login_modules(settings, "INTERNAL")["PLAIN"].options == {"user_a": 'of one "\\'}
    # The setting is stronger than the file.
    settings = load_settings(None, [*overrides, f'{PLAIN_KEY}={PLAIN} required user_b="c";'])
    assert login_modules(settings, "SASL_PLAINTEXT")["PLAIN"].options == {"user_b": "c"}
    # Plaintext needs no file.
    path.unlink()
    load_settings(None, [])
    with pytest.raises(SettingsError, match=r"KAFKA_OPTS: .*jaas\.conf: No such file"):
        load_settings(None, overrides)
