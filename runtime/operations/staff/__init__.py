"""A tenant's API tokens."""

from __future__ import annotations

from runtime.operations.staff.tokens import ROWS as ROWS
