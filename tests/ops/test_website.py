"""The documentation's site: `./ops/docs` builds it, whole, and it loads nothing from elsewhere."""

import re
from pathlib import Path

import pytest

from ops.website import ROOT, build, expanded

LOADED = re.compile(
    r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//|@import|url\([\"']?(?:https?:)?//"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    with pytest.raises(SystemExit) as ended:
        build(made)  # strict: a broken link, or a page that the navigation lacks, ends it with 1
    assert ended.value.code in (0, None)
    return made


def test_site_has_each_page_as_html_and_markdown_and_in_llms_txt(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 10
    for page in pages:
        assert (site / page).read_text().strip() in expanded((ROOT / "docs" / page).read_text()), page
        assert (site / page.with_suffix(".html")).exists() and f"]({page})" in listed


def test_site_loads_nothing_from_another_host(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert files and [path.name for path in files if LOADED.search(path.read_text())] == []
