"""`python -m runtime` runs `tombola`."""

from __future__ import annotations

from runtime.cli import main

main()
