"""Admission control, before a gameplay request reaches Core: rate limits, idempotency key and session, in one call."""
