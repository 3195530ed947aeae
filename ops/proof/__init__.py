"""What is asked of the tests themselves: that they would fail.

lint      no test without an assertion, no swallowed exception, no sleep in place of a fact
faults    which test is behind each fault that docs/faults.md names, and what it asserts
mutants   guards and code broken on purpose, one at a time: each must be seen by a test (`./ops/mutate`)
"""
