"""The token that edges, and all others who ask Core, show where SERVICE_TOKEN is set: by REST, gRPC, and the stream.

It is a second lock behind the network's own: whoever reaches Core's ports without it gets health, metrics, and what
describes the service (the documents, gRPC's reflection), and nothing of anybody's.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from runtime.errors import Fault, Status


def check_bearer(tokens: Sequence[str], authorization: str) -> None:
    """Of a header Authorization: TOKEN_MISSING or TOKEN_INVALID where tokens are set and it shows none of them."""
    if not tokens:
        return
    scheme, _, shown = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not shown:
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "Core wants its service token as a Bearer token")
    check_shown(tokens, shown.strip())


def check_shown(tokens: Sequence[str], shown: str) -> None:
    """Of a token itself: TOKEN_INVALID where tokens are set and it is none of them."""
    sent = shown.encode(errors="surrogateescape")
    if tokens and not any(hmac.compare_digest(sent, token.encode()) for token in tokens):
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "this is not the service token of this Core")
