"""What settings of TLS mean, and which are refused in one line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Name, NameAttribute, RelativeDistinguishedName
from cryptography.x509.oid import NameOID

from odradek.broker.security.tls.contexts import read_stores, server_context
from odradek.broker.security.tls.distinguished_name import distinguished_name
from odradek.broker.security.tls.principal_mapper import NoMatchingRule, SslPrincipalMapper
from odradek.broker.security.tls.tls_config import listener_tls
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.certificate_stores import StoreError
from odradek.runtime.cipher_suites import OFFERED
from tests.support.certificates import (
    DAY,
    PASSWORD,
    Authority,
    emptied_by_keytool,
    make_key,
    unsigned,
)

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,FRONT://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,FRONT:SSL",
}
OF_TLS_1_3 = "TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def stores_of(written: Mapping[str, str]) -> list[str]:
    """Subjects of the key's chain and of what is trusted; the context takes both."""
    config = listener_tls(make_settings({**LISTENERS, **written}), "FRONT")
    stores = read_stores(config)
    server_context(config, stores)
    assert stores.key is not None
    return [
        certificate.subject.rfc4514_string()
        for certificate in (*stores.key.certificates, *(stores.trusted or ()))
    ]


def inline(path: Path) -> str:
    """PEM as a line of a settings file may contain it."""
    return " ".join(path.read_text().split("\n"))


def test_stores_of_each_type_are_read(authority: Authority) -> None:
    server = authority.server()
    chain = ["CN=server", "CN=authority"]
    cases: list[tuple[dict[str, str], list[str]]] = [
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(server.pem)}, chain),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(server.encrypted_pem("other")),
                "ssl.key.password": "other",
            },
            chain,
        ),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": inline(server.key_file),
                "ssl.keystore.certificate.chain": inline(server.certificate_file),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": inline(authority.trusted),
            },
            [*chain, "CN=authority"],
        ),
        (
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(server.pkcs12()),
                "ssl.keystore.password": PASSWORD,
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(authority.trusted_pkcs12()),
                "ssl.truststore.password": PASSWORD,
            },
            [*chain, "CN=authority"],
        ),
        # JKS is Kafka's default, and what keytool has written since Java 9 is PKCS#12 in truth.
        ({"ssl.keystore.location": str(server.pkcs12()), "ssl.keystore.password": PASSWORD}, chain),
        (
            {
                "ssl.keystore.location": "/missing",
                "ssl.keystore.password": "x",
                "listener.name.front.ssl.keystore.location": str(server.pkcs12()),
                "listener.name.front.ssl.keystore.password": PASSWORD,
            },
            chain,
        ),
    ]
    for written, subjects in cases:
        assert stores_of(written) == subjects, written


def test_unusable_stores_are_refused_in_one_line_without_secrets(authority: Authority) -> None:
    server = authority.server()
    pem = {"ssl.keystore.type": "PEM"}
    other = authority.issue("other")
    cases: list[tuple[dict[str, str], str]] = [
        ({}, "needs a key store"),
        ({"ssl.keystore.location": str(server.pkcs12())}, "ssl.keystore.password"),
        (
            {"ssl.keystore.location": str(server.pkcs12()), "ssl.keystore.password": "hush"},
            "the password is wrong",
        ),
        ({**pem, "ssl.keystore.location": "/missing"}, "No such file"),
        ({**pem, "ssl.keystore.location": str(authority.trusted)}, "one private key"),
        ({**pem, "ssl.keystore.location": str(server.key_file)}, "no certificate"),
        ({**pem, "ssl.keystore.location": str(server.encrypted_pem("hush"))}, "ssl.key.password"),
        (
            {
                **pem,
                "ssl.keystore.location": str(server.encrypted_pem("hush")),
                "ssl.key.password": "hash",
            },
            "the password is wrong",
        ),
        (
            {**pem, "ssl.keystore.location": str(server.pem), "ssl.keystore.password": "hush"},
            "a PEM store has no password",
        ),
        ({**pem, "ssl.keystore.key": server.key_text()}, "come together"),
        (
            {
                **pem,
                "ssl.keystore.key": other.key_text(),
                "ssl.keystore.certificate.chain": server.chain_text(),
            },
            "the key of CN=server cannot be used",
        ),
        ({"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type: served: PEM, PKCS12, JKS"),
    ]
    for written, reason in cases:
        check_refusal(written, reason)


def check_refusal(written: Mapping[str, str], reason: str) -> None:
    """Check that stores are refused in one line with a reason and without secrets."""
    with pytest.raises((InvalidValueError, StoreError)) as caught:
        stores_of(written)
    text = str(caught.value)
    assert reason in text, written
    assert "\n" not in text
    assert "hush" not in text
    assert "PRIVATE" not in text.replace("one private", "")


def test_stores_in_javas_own_format_are_read(authority: Authority) -> None:
    server, trusted = authority.server(), str(authority.trusted_java_key_store(by_keytool=True))
    rsa = authority.issue("rsa", is_rsa=True)
    of_rsa = {
        "ssl.keystore.location": str(rsa.java_key_store(by_keytool=True)),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": trusted,
    }
    assert stores_of(of_rsa) == ["CN=rsa", "CN=authority", "CN=authority"]
    own_password = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(server.java_key_store("of the key", by_keytool=True)),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": "of the key",
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": trusted,
        "ssl.truststore.password": PASSWORD,
    }
    assert stores_of(own_password) == ["CN=server", "CN=authority", "CN=authority"]


def test_unusable_stores_in_javas_own_format_are_refused(authority: Authority) -> None:
    java = {"ssl.keystore.location": str(authority.server().java_key_store())}
    trusted = authority.trusted_java_key_store()
    damaged = trusted.with_suffix(".damaged.jks")
    damaged.write_bytes(trusted.read_bytes()[:-100])
    empty = trusted.with_suffix(".empty.jks")
    empty.write_bytes(b"")
    old = trusted.with_suffix(".jceks")
    old.write_bytes(b"\xce\xce\xce\xce" + trusted.read_bytes()[4:])
    password = {"ssl.keystore.password": PASSWORD}
    cases: list[tuple[dict[str, str], str]] = [
        ({**java, "ssl.keystore.password": "hush"}, "the password is wrong"),
        ({**java, **password, "ssl.key.password": "hush"}, "the password of its key is wrong"),
        ({"ssl.keystore.location": str(trusted), **password}, "no key with a certificate"),
        ({**java, **password, "ssl.truststore.location": str(damaged)}, "it is damaged"),
        (
            {**java, **password, "ssl.truststore.location": str(empty)},
            f"{empty}: the file is empty",
        ),
        (
            {"ssl.keystore.location": str(old), **password},
            f"keytool -importkeystore -srckeystore {old}",
        ),
    ]
    for written, reason in cases:
        check_refusal(written, reason)


def test_stores_without_entries_are_not_taken_for_ones_with_another_password(
    authority: Authority,
) -> None:
    for path in (authority.trusted_java_key_store(by_keytool=True), authority.trusted_pkcs12()):
        emptied = emptied_by_keytool(path, "authority")
        store = {"ssl.keystore.location": str(emptied), "ssl.keystore.password": PASSWORD}
        check_refusal(store, f"{emptied}: it contains no key with a certificate")
        trusted = {
            "ssl.keystore.location": str(authority.server().pkcs12()),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": str(emptied),
        }
        check_refusal({**trusted, "ssl.truststore.password": PASSWORD}, "contains no certificate")
    check_refusal(trusted, f"{emptied}: it needs a password")


def test_java_store_without_its_library_says_what_to_install_or_convert(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = authority.server().java_key_store()
    monkeypatch.delitem(sys.modules, "odradek.runtime.java_key_stores", raising=False)
    monkeypatch.setitem(sys.modules, "jks", None)
    with pytest.raises(StoreError) as caught:
        stores_of({"ssl.keystore.location": str(path), "ssl.keystore.password": PASSWORD})
    text = str(caught.value)
    assert "pip install '.[jks]' in a clone of Odradek" in text
    assert text.endswith(
        f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 "
        "-deststoretype PKCS12"
    )


@pytest.mark.parametrize(
    ("written", "versions", "ciphers"),
    [
        ({}, ("TLSv1.2", "TLSv1.3"), ()),
        ({"ssl.enabled.protocols": "TLSv1.2"}, ("TLSv1.2",), ()),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
            ("TLSv1.2",),
            ("ECDHE-RSA-AES128-GCM-SHA256",),
        ),
        ({"ssl.cipher.suites": OF_TLS_1_3}, ("TLSv1.3",), ()),
        (
            {
                "ssl.enabled.protocols": "TLSv1.2",
                "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            },
            ("TLSv1.2",),
            ("ECDHE-RSA-AES128-GCM-SHA256",),
        ),
        (
            {
                "ssl.cipher.suites": f"{OF_TLS_1_3},TLS_RSA_WITH_AES_256_CBC_SHA,"
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
            },
            ("TLSv1.2", "TLSv1.3"),
            ("AES256-SHA", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ),
    ],
)
def test_versions_and_suites(
    authority: Authority,
    written: dict[str, str],
    versions: tuple[str, ...],
    ciphers: tuple[str, ...],
) -> None:
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(authority.server().pem)}
    config = listener_tls(make_settings({**LISTENERS, **store, **written}), "FRONT")
    assert (config.versions, config.ciphers) == (versions, ciphers)
    context = server_context(config, read_stores(config))
    names = [suite["name"] for suite in context.get_ciphers()]
    assert [name for name in names if not name.startswith("TLS_")][: len(ciphers)] == list(ciphers)
    # A suite of TLS 1.3 that is not among `OFFERED` would be offered whatever the list.
    assert {name for name in names if name.startswith("TLS_")} <= set(OFFERED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.enabled.protocols", "TLSv1.1"),
        ("ssl.cipher.suites", "TLS_NULL_WITH_NULL_NULL"),
        ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
        ("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("ssl.endpoint.identification.algorithm", "LDAPS"),
        ("ssl.engine.factory.class", "com.example.Factory"),
        ("ssl.principal.mapping.rules", "RULE:^CN=(.*$/$1/"),
        ("ssl.principal.mapping.rules", "DEFAULT,OTHER"),
        ("ssl.principal.mapping.rules", "RULE:a/b/X"),
        ("ssl.truststore.password", "x"),
    ],
)
def test_refused_value_names_its_setting(authority: Authority, name: str, value: str) -> None:
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(authority.server().pem)}
    with pytest.raises(InvalidValueError, match=name.replace(".password", "")):
        listener_tls(make_settings({**LISTENERS, **store, name: value}), "FRONT")


SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", SUBJECT, SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", SUBJECT, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", SUBJECT, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/U, DEFAULT", SUBJECT, "DUKE@SERVICEUSERS"),
        ("RULE:^CN=x.*$/$1/, DEFAULT", SUBJECT, SUBJECT),
        ("RULE:^CN=(.*?),.*$/$1@$4/", SUBJECT, "Duke@$4"),
        ("RULE:^CN=(.*?),.*$/$12/", SUBJECT, "Duke2"),
        (r"RULE:^CN=(.*?),.*$/\$1/", SUBJECT, "$1"),
        (r"RULE:^CN=(?<who>.*?),.*$/${who}\/x/", SUBJECT, "Duke/x"),
        ("RULE:^.*$/all/", "CN=a", "all"),
        ("RULE:^CN=.*$/a,b/L,DEFAULT", "CN=a", "a,b"),
        ("", SUBJECT, None),
        ("RULE:^CN=Duk/x/", SUBJECT, None),
    ],
)
def test_rules_map_names_as_kafka_does(rules: str, name: str, mapped: str | None) -> None:
    mapper = SslPrincipalMapper(rules)
    if mapped is None:
        with pytest.raises(NoMatchingRule):
            mapper.name_of(name)
    else:
        assert mapper.name_of(name) == mapped


def test_names_are_shown_as_java_shows_them() -> None:
    """The texts are those that X500Principal.getName() of OpenJDK 17 has returned."""

    def attribute(oid: x509.ObjectIdentifier, value: str) -> NameAttribute[str]:
        return NameAttribute(oid, value)

    cases = [
        (
            Name(
                [
                    attribute(NameOID.COUNTRY_NAME, "CZ"),
                    attribute(NameOID.ORGANIZATION_NAME, 'A, B+C="x";<y>#\\z'),
                    attribute(NameOID.COMMON_NAME, " lead and trail "),
                ]
            ),
            'CN=\\ lead and trail\\ ,O=A\\, B\\+C\\=\\"x\\"\\;\\<y\\>\\#\\\\z,C=CZ',
        ),
        (
            Name(
                [
                    attribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
                    attribute(NameOID.COMMON_NAME, "žluťoučký"),
                    attribute(NameOID.SERIAL_NUMBER, "77"),
                    attribute(NameOID.SURNAME, "x"),
                ]
            ),
            "2.5.4.4=#0c0178,2.5.4.5=#13023737,CN=žluťoučký,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            Name(
                [
                    RelativeDistinguishedName(
                        [attribute(NameOID.COMMON_NAME, "one"), attribute(NameOID.USER_ID, "two")]
                    ),
                    RelativeDistinguishedName([attribute(NameOID.DOMAIN_COMPONENT, "example")]),
                    RelativeDistinguishedName([attribute(NameOID.STREET_ADDRESS, "s 1")]),
                    RelativeDistinguishedName([attribute(NameOID.LOCALITY_NAME, "l")]),
                    RelativeDistinguishedName([attribute(NameOID.STATE_OR_PROVINCE_NAME, "st")]),
                    RelativeDistinguishedName([attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "#o")]),
                ]
            ),
            "OU=\\#o,ST=st,L=l,STREET=s 1,DC=example,CN=one+UID=two",
        ),
        (Name([attribute(NameOID.COMMON_NAME, " ")]), "CN=\\ "),
        (
            Name([attribute(NameOID.TITLE, "t" * 200), attribute(NameOID.COMMON_NAME, "a  b")]),
            f"CN=a  b,2.5.4.12=#0c81c8{'74' * 200}",
        ),
    ]
    key = make_key()
    for name, shown in cases:
        certificate = unsigned(name, name, key, starts=-DAY, ends=DAY).sign(key, SHA256())
        assert distinguished_name(certificate.subject) == shown
