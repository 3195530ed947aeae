"""The consumer groups' code: the loop that reads a stream, and what each group does (runtime/groups.py lists them)."""
