"""Cells of exports that a spreadsheet would work out."""

from __future__ import annotations

import pytest

from runtime.operations.reporting.exports import escape_formula


@pytest.mark.parametrize("first", "=+-@\t\r\uff1d\uff0b\uff0d\uff20")
def test_cell_that_a_spreadsheet_would_work_out_is_a_text(first: str) -> None:
    assert escape_formula(f"{first}1+1") == f"'{first}1+1"
