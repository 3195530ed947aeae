"""The service token (SERVICE_TOKEN) that every client of Core must send, over REST, gRPC and the stream.

It adds to the network's own protection. Without it, Core's ports serve only health, metrics and service descriptions
(the documents, gRPC reflection).
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from runtime.errors import Fault, Status


def check_bearer(tokens: Sequence[str], authorization: str) -> None:
    """Checks an Authorization header: if tokens are set, TOKEN_MISSING or TOKEN_INVALID without one."""
    if not tokens:
        return
    scheme, _, shown = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not shown:
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "send Core's service token as a Bearer token")
    check_service_token(tokens, shown.strip())


def check_service_token(tokens: Sequence[str], shown: str) -> None:
    """Checks a token: if tokens are set, TOKEN_INVALID unless it is one of them."""
    sent = shown.encode(errors="surrogateescape")
    if tokens and not any(hmac.compare_digest(sent, token.encode()) for token in tokens):
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", "the service token is invalid")
