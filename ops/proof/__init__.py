"""Checks of the tests themselves.

lint      tests that assert nothing, and sleeps
faults    which test is behind each fault that docs/reference/faults.md names, and what it asserts
mutants   mutation testing of the SQL guards and the play path (`./ops/mutate`)
"""
