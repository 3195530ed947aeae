"""Who works with a tenant's things: the API tokens of its machines."""

from __future__ import annotations

from runtime.operations.staff.tokens import ROWS as ROWS
