"""The models of the named statements: a module for each file of sql/, a function for each statement.

A function is as long as its SQL and says the same; what the SQL's comment says is not said again. `commit.sql` is one
statement in parts, and one function.
"""
