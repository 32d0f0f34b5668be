"""Reads stores in Java's own format (JKS) by `purejks`, of the extra `jks`.

Not JCEKS: it may contain serialized objects, and Java does not read it as JKS either.
Source: Java's sun.security.provider.JavaKeyStore, KeyProtector.
"""

from __future__ import annotations

import jks
from pyasn1.error import PyAsn1Error

X509 = "X.509"


class JavaStoreError(ValueError):
    """A store that cannot be read; the text is a reason without secrets."""


class JavaKeyStore:
    """The entries of one store."""

    def __init__(self, content: bytes, password: str | None) -> None:
        """
        password  of the store; None: its digest is not checked, as in Java
        raises    JavaStoreError
        """
        try:
            self._store = jks.KeyStore.loads(content, password, try_decrypt_keys=False)
        except jks.KeystoreSignatureException:
            raise JavaStoreError("the password is wrong, or the file is damaged") from None
        except (jks.KeystoreException, ValueError) as error:
            raise JavaStoreError(f"it is damaged: {error}") from None

    def key(self, password: str) -> tuple[bytes, list[bytes]] | None:
        """The first private key (PKCS#8) and its certificates (X.509), as DER.

        password  of the key
        raises    JavaStoreError
        """
        for entry in self._store.private_keys.values():
            try:
                entry.decrypt(password)
            except (jks.KeystoreException, PyAsn1Error):
                raise JavaStoreError("the password of its key is wrong") from None
            return entry.pkey_pkcs8, [der for kind, der in entry.cert_chain if kind == X509]
        return None

    def trusted(self) -> list[bytes]:
        """The certificates that are trusted, and that of each key, as DER."""
        entries = [entry.cert for entry in self._store.certs.values() if entry.type == X509]
        for entry in self._store.private_keys.values():
            entries += [der for kind, der in entry.cert_chain[:1] if kind == X509]
        return entries
