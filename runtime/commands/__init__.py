"""Operator commands: one module per group, with an `app` that runtime/cli.py adds."""
