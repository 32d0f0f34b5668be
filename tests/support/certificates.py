"""An authority and certificates for 127.0.0.1, made by openssl for the length of a test."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """`trusted` is the file with its certificate."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.trusted = folder / "authority.pem"
        self._key = folder / "authority.key"
        self._run(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=authority", "-keyout", str(self._key), "-out", str(self.trusted),
        )  # fmt: skip

    def certify(self, name: str) -> Path:
        """A file with a key and its certificate."""
        key, request, made = (self._folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self._folder / "extensions"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        self._run(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", str(key), "-out", str(request),
        )  # fmt: skip
        self._run(
            "x509", "-req", "-days", "2", "-in", str(request), "-CA", str(self.trusted),
            "-CAkey", str(self._key), "-CAcreateserial", "-extfile", str(extensions),
            "-out", str(made),
        )  # fmt: skip
        both = self._folder / f"{name}.pem"
        both.write_text(key.read_text() + made.read_text())
        return both

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
