"""Java's names of cipher suites (IANA's), as OpenSSL names them.

Source: RFC 5246, RFC 8446; OpenSSL's ciphers(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

TLS_1_3_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)
OFFERED: Final = TLS_1_3_SUITES[:3]
"""What OpenSSL offers in TLS 1.3; Python's ssl, before 3.15, cannot leave out any."""
OF_TLS_1_2: Final = re.compile(
    r"TLS_(?P<exchange>RSA|(?:EC)?DHE_(?:RSA|DSS|ECDSA))_WITH_"
    r"(?P<cipher>AES_(?:128|256)_(?:CBC|GCM|CCM(?:_8)?)|CHACHA20_POLY1305)(?:_(?P<hash>SHA\d*))?"
)


class CipherSuiteError(ValueError):
    """A list of suites that cannot be kept to; the text is one line."""


def chosen_suites(
    suites: Iterable[str], versions: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the versions that have a suite, the suites of TLS 1.2 by the names of OpenSSL).

    A list without a suite of a version switches that version off, as in Java.
    versions  TLSv1.2, TLSv1.3 or both
    raises    CipherSuiteError
    """
    older, newer = _split(suites)
    left = tuple(version for version in versions if (newer if version == "TLSv1.3" else older))
    if not left:
        raise CipherSuiteError(f"no suite is one of {','.join(versions)}")
    missing = [suite for suite in OFFERED if suite not in newer]
    if "TLSv1.3" in left and missing:
        raise CipherSuiteError(
            f"TLS 1.3 would have {', '.join(missing)}, too, which Python's ssl cannot leave out: "
            "name each of them, or no suite of TLS 1.3"
        )
    return left, tuple(older)


def _split(suites: Iterable[str]) -> tuple[list[str], list[str]]:
    """(suites of TLS 1.2 by the names of OpenSSL, suites of TLS 1.3)."""
    older: list[str] = []
    newer: list[str] = []
    for suite in suites:
        if suite in TLS_1_3_SUITES:
            newer.append(suite)
        else:
            matched = OF_TLS_1_2.fullmatch(suite)
            if matched is None:
                raise CipherSuiteError(
                    f"{suite} is not a cipher suite of TLS 1.2 or 1.3 that OpenSSL has"
                )
            older.append(openssl_name(matched))
    return older, newer


def openssl_name(suite: re.Match[str]) -> str:
    """`ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`."""
    exchange = "" if suite["exchange"] == "RSA" else suite["exchange"].replace("_", "-") + "-"
    cipher = re.sub(r"AES_(\d+)", r"AES\1", suite["cipher"]).replace("_CBC", "").replace("_", "-")
    # OpenSSL leaves out the hash where the cipher has only that one.
    has_hash = suite["hash"] is not None and not cipher.startswith("CHACHA20")
    return f"{exchange}{cipher}-{suite['hash']}" if has_hash else f"{exchange}{cipher}"
