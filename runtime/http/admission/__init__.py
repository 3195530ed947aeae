"""What a gameplay request passes before Core is asked: rates, idempotency key and session, in one call."""
