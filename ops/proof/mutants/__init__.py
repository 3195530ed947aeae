"""Breaks what guards money and stock, one place at a time, and asks whether a test notices: `./ops/mutate`.

statements  the places of a named statement (sql/*.sql) that may be broken: conditions, branches, locks, limits ...
code        the same of Python functions
hook        gives the tests' connections the broken statement, or notes which test executes which statement
record      a pytest plugin that keeps that note: `pytest -p ops.proof.mutants.record`
worker      runs tests against one mutant after the other, on one PostgreSQL and one Valkey
survivors   the mutants that no test can tell from the original, and why (survivors.toml)
score       where they stand, and which tests kill (score.json, docs/mutants.md)
"""
