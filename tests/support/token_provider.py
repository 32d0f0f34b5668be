"""A provider of access tokens: keys, tokens that `joserfc` signs, HTTP endpoints."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

Key = RSAKey | ECKey | OKPKey | OctKey

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"
LIFETIME_S: Final = 600


class TokenProvider:
    """What a server of OpenID Connect has: the newest key signs."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {}
        self.fetches = 0
        """How often the keys were fetched."""
        self.requests: list[tuple[str, str]] = []
        """Authorization and body of each request for a token."""
        self.moved_to = ""
        """Where requests for tokens are redirected to, if anywhere."""
        self.is_down = False
        self.lifetime_s = LIFETIME_S
        self.address = ""
        self.add("first", RSAKey.generate_key(2048))

    def add(self, key_id: str, key: Key) -> None:
        """Sign with this key from now on."""
        self.keys[key_id] = key

    @property
    def jwks(self) -> dict[str, Any]:
        """Public keys only, apart from secrets, which have no public part."""
        return {
            "keys": [
                {**key.as_dict(private=isinstance(key, OctKey)), "kid": key_id}
                for key_id, key in self.keys.items()
            ]
        }

    def token(
        self,
        claims: Mapping[str, object] | None = None,
        *,
        key: Key | None = None,
        **header: object,
    ) -> str:
        """A token of `alice`; None among claims and header leaves one out."""
        now = int(time.time())
        complete = {
            "iss": ISSUER,
            "sub": "alice",
            "aud": AUDIENCE,
            "scope": "write",
            "iat": now,
            "exp": now + self.lifetime_s,
            **(claims or {}),
        }
        newest = list(self.keys)[-1]
        protected = {"alg": "RS256", "kid": newest, **header}
        return jws.serialize_compact(
            {name: value for name, value in protected.items() if value is not None},
            json.dumps({name: value for name, value in complete.items() if value is not None}),
            self.keys[newest] if key is None else key,
            registry=jws.JWSRegistry(algorithms=[str(protected["alg"])], strict_check_header=False),
        )


@contextmanager
def serving(provider: TokenProvider) -> Iterator[str]:
    """Serve the keys at /jwks and tokens at /token; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.fetches += 1
            self._respond(503 if provider.is_down else 200, provider.jwks)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            provider.requests.append((self.headers["Authorization"], body.decode()))
            if provider.moved_to:
                self._respond(307, {}, Location=provider.moved_to)
                return
            token = provider.token()
            content = {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": provider.lifetime_s,
            }
            self._respond(200, content)

        def _respond(self, status: int, content: object, **headers: str) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        provider.address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield provider.address
        finally:
            server.shutdown()
            thread.join()
