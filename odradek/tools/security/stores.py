"""Key and trust stores of a client, from its properties.

Source: Kafka 3.9's DefaultSslEngineFactory.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.tools.security.errors import SecurityError

if TYPE_CHECKING:
    from odradek.runtime.certificate_stores import KeyMaterial, StoreConfig

T = TypeVar("T")

KEY_STORE: Final = ("location", "key", "certificate.chain")


def identity(configs: Mapping[str, str]) -> KeyMaterial | None:
    """The key store, or None when the client has none.

    raises  SecurityError
    """
    if not any(configs.get(f"ssl.keystore.{name}") for name in KEY_STORE):
        return None
    # Imported where a client has a store: reading certificates takes 100 ms to load.
    from odradek.runtime.certificate_stores import PEM, StoreConfig, read_key_store

    key_password = configs.get("ssl.key.password") or None
    key, chain = configs.get("ssl.keystore.key"), configs.get("ssl.keystore.certificate.chain")
    if key or chain:
        if not key or not chain:
            raise SecurityError("ssl.keystore.key and ssl.keystore.certificate.chain go together")
        store: StoreConfig | None = StoreConfig(
            PEM, "ssl.keystore.key", key_password=key_password, key=key, certificates=chain
        )
    else:
        store = _file(configs, "ssl.keystore", key_password)
    return None if store is None else _read(read_key_store, store)


def trusted_certificates(configs: Mapping[str, str]) -> str | None:
    """The trust store as PEM, or None when the client has none.

    raises  SecurityError
    """
    text = configs.get("ssl.truststore.certificates")
    if not text and not configs.get("ssl.truststore.location"):
        return None
    from odradek.runtime.certificate_stores import PEM, StoreConfig, pem_of, read_trust_store

    store = (
        StoreConfig(PEM, "ssl.truststore.certificates", certificates=text)
        if text
        else _file(configs, "ssl.truststore", None)
    )
    return None if store is None else pem_of(_read(read_trust_store, store)).decode()


def _file(configs: Mapping[str, str], prefix: str, key_password: str | None) -> StoreConfig | None:
    from odradek.runtime.certificate_stores import JKS, STORE_TYPES, StoreConfig

    path = configs.get(f"{prefix}.location", "").strip()
    if not path:
        return None
    # Java reads a file of PKCS#12 by Kafka's default type, too.
    kind = configs.get(f"{prefix}.type", JKS).strip().upper()
    if kind not in STORE_TYPES:
        raise SecurityError(f"{prefix}.type={kind}: expected one of {', '.join(STORE_TYPES)}")
    password = configs.get(f"{prefix}.password") or None
    return StoreConfig(kind, f"{prefix}.location", path, password, key_password)


def load_key(context: ssl.SSLContext, key: KeyMaterial) -> None:
    """raises  SecurityError when key and certificate do not fit"""
    from odradek.runtime.certificate_stores import StoreError

    try:
        key.load_into(context)
    except StoreError as error:
        raise SecurityError(str(error)) from None


def _read(read: Callable[[StoreConfig], T], store: StoreConfig) -> T:
    from odradek.runtime.certificate_stores import StoreError

    try:
        return read(store)
    except StoreError as error:
        text = str(error)
        is_named = text.startswith(f"{store.setting}: ")
        raise SecurityError(text if is_named else f"{store.setting}: {text}") from None
