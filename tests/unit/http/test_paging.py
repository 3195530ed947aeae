import pytest

from runtime.errors import Fault
from runtime.settings import Key
from runtime.stores.paging import Cursors

QUERY = ("games", "tenant_a", "active", "")
CURSORS = Cursors([Key("a", b"a" * 32)])


def walk(items: list[str], limit: int) -> list[list[str]]:
    pages, cursor = [], ""
    while True:
        page = CURSORS.read(cursor, limit, query=QUERY)
        rows = [item for item in items if (item,) > page.after][: page.fetch]
        shown, pagination = CURSORS.write(rows, page.limit, key=lambda row: row, query=QUERY)
        pages.append(shown)
        if not pagination.has_more:
            assert pagination.next_cursor == ""
            return pages
        cursor = pagination.next_cursor


@pytest.mark.parametrize("count", [0, 1, 3, 6, 7])
def test_pages_hold_every_row_once(count: int) -> None:
    items = [f"game_{i:02}" for i in range(count)]
    pages = walk(items, 3)
    assert [item for page in pages for item in page] == items
    assert len(pages) == max(1, -(-count // 3))


def test_limit_is_twenty_unless_given_and_from_one_to_hundred() -> None:
    assert CURSORS.read("", 0, query=QUERY).limit == 20
    assert CURSORS.read("", 100, query=QUERY).limit == 100
    for limit in (-1, 101):
        with pytest.raises(Fault, match="limit"):
            CURSORS.read("", limit, query=QUERY)


def cursor() -> str:
    return CURSORS.write(["a", "b"], 1, key=lambda row: (row, 7, 0.5), query=QUERY)[1].next_cursor


def test_key_of_several_parts_comes_back() -> None:
    assert CURSORS.read(cursor(), 1, query=QUERY).after == ("a", 7, 0.5)


@pytest.mark.parametrize("query", [(), ("games", "tenant_b", "active", ""), ("games", "tenant_a", "draft", "")])
def test_cursor_of_another_query_is_refused(query: tuple[str, ...]) -> None:
    with pytest.raises(Fault, match="cursor"):
        CURSORS.read(cursor(), 1, query=query)


@pytest.mark.parametrize("forged", ["x", "é", "=", "A" * 5000, "AAAAAAAAAAAAAAAAAAAAAAAA", " "])
def test_wrong_cursor_is_refused(forged: str) -> None:
    with pytest.raises(Fault, match="cursor"):
        CURSORS.read(forged, 1, query=QUERY)


def test_changed_cursor_is_refused() -> None:
    good = cursor()
    for i in range(len(good) - 1):
        with pytest.raises(Fault, match="cursor"):
            CURSORS.read(good[:i] + ("A" if good[i] != "A" else "B") + good[i + 1 :], 1, query=QUERY)


def test_cursor_outlives_a_rotation_of_keys_but_not_the_loss_of_its_key() -> None:
    good = cursor()
    assert Cursors([Key("b", b"b" * 32), Key("a", b"a" * 32)]).read(good, 1, query=QUERY).after[0] == "a"
    lost = Cursors([Key("b", b"b" * 32)])
    with pytest.raises(Fault, match="cursor"):
        lost.read(good, 1, query=QUERY)
