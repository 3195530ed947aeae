"""Dual control: what a setting holds back waits for a second person.

Balances moved above a limit, turns given above one, the odds of a live game and revocations in bulk (DUAL_* in
docs/reference/settings.md) are not done when they are asked for, but kept, and answered 202 APPROVAL_NEEDED; another
person approves or rejects them within 7 days, or who asked withdraws them.
"""
