"""Dual control: the DUAL_* settings make some requests wait for a second person's approval.

These are balance movements and turns above a limit, changes of a live game's odds, and bulk revocations
(docs/reference/settings.md). Such a request is stored, and answered 202 APPROVAL_NEEDED. Within 7 days another person
approves or rejects it, or its requester withdraws it.
"""
