"""Answers of the admin edge that go on: exports, line by line, and what happens now."""
