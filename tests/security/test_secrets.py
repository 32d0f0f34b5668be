"""Secrets are stored encoded, change their encoding with the secret, and appear nowhere."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.load import make_settings, with_dynamic
from odradek.broker.settings.password_encoder import (
    Encoding,
    UndecodableError,
    decode,
    decoded,
    encoded,
    encoding,
)
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime.testing.seeded_randomness import SeededRandomness

NAME = "listener.name.plaintext.ssl.key.password"
OF_APACHE = (
    "initializationVector:Yxohr5vz2btOLlRtmlL7FQ==,keyLength:128,salt:TGwIvxJ/XWN9K6JZMMXEVwG51IKtUGhm"
    "UakJD5PJ1XXZlLJb3oCQa4n50YCBjPgGR+LBIMgEvEb9Sq7t9n75TqinHfmVjaTHyHMkyCqFPDD/u2+So6b4AUNkMUGpjpSJ"
    "7lfCjVUn1tX5FfC/qtcmaINlXXDqaNhEdt6r3aSJwBwM2gz49WyoXX00FNS1qQGa6+oATUJJbmPXpxsEpkCc+W7r8ISSoN40"
    "aYtGPP5i5eV/1X1/ZgGw2e9X0YW+HF3Y0BszDg0P1euUeZsKVVv1E4JsL3RDKSGcyW72MF9Ap7DAWvc/agYYJi8B4NdGu4hE"
    "7j35v6rm1zhDAzyAuBIMHQ==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:"
    "AES/CBC/PKCS5Padding,iterations:4096,passwordLength:6,encryptedPassword:9KYTYQ9NtvbM7DLmpLdCxg=="
)
"""Written by Apache Kafka 3.9.2 with the secret `geheim`."""


def by(secret: str = "geheim", **more: str) -> Encoding:
    settings = {f"password.encoder.{name.replace('_', '.')}": text for name, text in more.items()}
    made = encoding(make_settings({"password.encoder.secret": secret, **settings}).raw)
    assert made is not None
    return made


def test_password_of_apache_is_decoded() -> None:
    assert decode("geheim", OF_APACHE) == "s3cret"


@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"])
@pytest.mark.parametrize("key_length", ["128", "192", "256"])
@pytest.mark.parametrize("password", ["", "x", "p" * 1_000, "ü🙂,:"])
def test_encoded_password_is_decoded_with_its_secret_only(
    cipher: str, key_length: str, password: str
) -> None:
    made = by(
        cipher_algorithm=cipher, key_length=key_length, keyfactory_algorithm="PBKDF2WithHmacSHA256"
    )
    text = made.encode(password, SeededRandomness(1).bytes)
    assert decode("geheim", text) == password
    with pytest.raises(UndecodableError):
        decode("Geheim", text)


@pytest.mark.parametrize("text", [
    "", "s3cret", "a:b", OF_APACHE.replace("keyLength:128", "keyLength:x"),
    OF_APACHE.replace("salt:T", "salt:*"),
    OF_APACHE.replace("passwordLength:6", "passwordLength:7"),
    OF_APACHE.replace("iterations:4096", "iterations:4096000000"),
    OF_APACHE.replace("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
    OF_APACHE.replace("SHA512", "SHA3"), OF_APACHE.replace("==,keyLength", "=,keyLength"),
])  # fmt: skip
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(UndecodableError) as raised:
        decode("geheim", text)
    assert "geheim" not in str(raised.value)


def test_undecodable_password_is_left_out_with_a_warning_that_does_not_show_it() -> None:
    settings = make_settings({"password.encoder.secret": "other"})
    stored = {NAME: OF_APACHE, "log.cleaner.threads": "2"}
    changed = with_dynamic(settings, DynamicSettings({}, stored))
    assert changed.dynamic.broker == {"log.cleaner.threads": "2"}
    (warning,) = changed.warnings
    assert NAME in warning
    assert "TGwIvxJ" not in warning
    plain = with_dynamic(make_settings({}), DynamicSettings({}, {NAME: "in-the-clear"}))
    assert plain.dynamic.broker == {}
    assert "in-the-clear" not in str(plain.warnings)


def test_old_secret_decodes_what_the_new_one_then_encodes() -> None:
    raw = make_settings(
        {"password.encoder.secret": "new", "password.encoder.old.secret": "geheim"}
    ).raw
    texts, warnings = decoded(raw, {NAME: OF_APACHE, "a": "b"})
    assert (texts, warnings) == ({NAME: "s3cret", "a": "b"}, [])
    stored = encoded(by("new"), texts, {NAME: OF_APACHE}, SeededRandomness(1).bytes)
    assert decode("new", stored[NAME]) == "s3cret"
    # What the new secret has encoded keeps its text.
    assert encoded(by("new"), texts, stored, SeededRandomness(2).bytes) == stored


@pytest.mark.parametrize(("name", "text"), [
    ("cipher.algorithm", "DES/CBC/PKCS5Padding"), ("key.length", "64"),
    ("keyfactory.algorithm", "PBKDF2WithHmacMD5"), ("iterations", "100000000"),
])  # fmt: skip
def test_encoding_that_is_not_served_stops_the_start(name: str, text: str) -> None:
    with pytest.raises(InvalidValueError, match=f"password.encoder.{name}"):
        make_settings({"password.encoder.secret": "x", f"password.encoder.{name}": text})


SECRETS: Mapping[str, str] = {
    "password.encoder.secret": "marked-1",
    "password.encoder.old.secret": "marked-2",
    "delegation.token.secret.key": "marked-3",
    "listener.name.plaintext.plain.sasl.jaas.config": 'marked.Module required password="marked-4";',
    "ssl.keystore.password": "marked-5",
    "zookeeper.ssl.truststore.password": "marked-6",
}


def test_no_representation_of_settings_shows_a_secret() -> None:
    settings = make_settings(SECRETS)
    made = encoding(settings.raw)
    for shown in (repr(settings), str(settings), repr(made), f"{made!s}"):
        assert "marked" not in shown
