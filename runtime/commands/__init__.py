"""Operator commands: one module each, with an `app` that runtime/cli.py adds."""
