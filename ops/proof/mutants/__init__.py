"""Mutation testing of the SQL guards and the play path: `./ops/mutate`.

statements  mutants of a named statement (sql/*.sql): conditions, branches, locks, limits ...
code        mutants of a Python function
worker      runs tests in forked children, each with one mutant, on one PostgreSQL and one Valkey
"""
