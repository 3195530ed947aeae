"""`python -m runtime` is `tombola`."""

from __future__ import annotations

from runtime.cli import main

main()
