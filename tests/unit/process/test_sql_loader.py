import pytest

import sql

TWO = """\
-- A word about the file.

-- name: take_stock
-- Takes n of a prize.
-- No row: sold out.
update prize
-- an inner comment stays
set remaining = remaining - $1;

-- name: give_back
delete from prize
"""


def test_block_has_a_name_a_description_and_a_statement() -> None:
    take_stock = sql.parse("play", TWO)["take_stock"]
    assert take_stock.name == "play.take_stock"
    assert take_stock.doc == "Takes n of a prize.\nNo row: sold out."
    text = "-- play.take_stock\nupdate prize\n-- an inner comment stays\nset remaining = remaining - $1"
    assert take_stock.text == text
    assert sql.parse("play", TWO)["give_back"].doc == "", "it may be left out"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("select 1\n-- name: one\nselect 1", "before the first"),
        ("-- name: one\nselect 1\n-- name: one\nselect 2", "twice"),
        ("-- name: one\n-- only words\n-- name: two\nselect 2", "no statement"),
        ("-- name: Take-Stock\nselect 1", "identifier"),
    ],
)
def test_malformed_file_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        sql.parse("play", text)


def test_unknown_name_says_which_there_are() -> None:
    with pytest.raises(KeyError, match="take_stock, give_back"):
        sql.Queries("play", sql.parse("play", TWO))["take_stok"]


@pytest.mark.parametrize("file", sql.files())
def test_shipped_statements_are_all_described(file: str) -> None:
    for query in sql.load(file).described.values():
        assert query.doc, f"{query.name} has no description"
