"""The tests of this repository pass the lint over tests."""

from __future__ import annotations

from ops.proof import lint


def test_repository_tests_pass_the_lint() -> None:
    assert list(map(str, lint.lint(lint.sources()))) == []
