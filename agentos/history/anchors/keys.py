"""The key of a store's anchors: what only its holder can have written carries a proof that others can check, not make."""

from __future__ import annotations

import hashlib
import hmac

from agentos.errors import ConfigurationError
from agentos.secrets import Secret

KEY_CHARS_MIN = 32
"""A shorter key could be guessed by trying, since whoever has an anchor can try."""

_NAME, _PROOF = b"agentos anchor key", b"agentos anchor proof "


class AnchorKey:
    """A secret under its public name. id is made of the secret, so that it is the same from wherever that comes.

    Errors: ConfigurationError for a secret of under KEY_CHARS_MIN characters.
    """

    __slots__ = ("_secret", "id")

    def __init__(self, secret: Secret) -> None:
        length = len(secret.reveal())
        if length < KEY_CHARS_MIN:
            raise ConfigurationError(
                f"the key has {length} characters; at least {KEY_CHARS_MIN} are needed (KEY_CHARS_MIN):"
                " 'openssl rand -hex 32' makes one"
            )
        self._secret = secret
        self.id = self._hmac(_NAME)[:16]

    def proof(self, digest: bytes) -> str:
        """HMAC-SHA256 over the digest of an anchor, as 64 hexadecimal digits."""
        return self._hmac(_PROOF + digest)

    def proves(self, digest: bytes, proof: str) -> bool:
        return hmac.compare_digest(self.proof(digest), proof)

    def __repr__(self) -> str:
        return f"AnchorKey({self.id})"

    def _hmac(self, text: bytes) -> str:
        return hmac.new(self._secret.reveal().encode(), text, hashlib.sha256).hexdigest()
