"""The documentation site: `./ops/docs` builds it from docs/ with MkDocs, and fails on a broken link.

MkDocs also loads this file as a hook (ops/mkdocs.yml): it writes each page as Markdown beside its
HTML, with the files that it includes, and lists all pages in `llms.txt`.
"""

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"^--8<-- \"(.+)\"$", re.MULTILINE)
"""A line that includes a file of docs/ as a code block, titled with its name unless it is a shell script."""
LANGUAGES = {".py": "python", ".js": "js", ".mjs": "js", ".html": "html", ".sh": "sh", ".tsx": "tsx", ".vue": "vue"}

_pages: dict[str, str] = {}
"""The pages' Markdown by address."""

_order: list[Any] = []
"""The pages in navigation order."""


def expanded(text: str) -> str:
    """A page with the files that it includes."""

    def block(found: re.Match[str]) -> str:
        file = ROOT / "docs" / found[1]
        title = "" if file.suffix == ".sh" else f' title="{file.name}"'
        return f"```{LANGUAGES[file.suffix]}{title}\n{file.read_text()}```"

    return INCLUDE.sub(block, text)


def about(text: str) -> str:
    """A page's first sentence."""
    said = next((one for one in text.split("\n\n") if one[:1].isalpha() or one[:1] in '`*"'), "")
    said = said if not said.startswith("```") else ""
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", " ".join(said.split())).partition(". ")[0].rstrip(".:")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    text = expanded(markdown)
    _pages[page.file.dest_uri] = text
    return text


def on_nav(nav: Any, **_: Any) -> None:
    _order[:] = nav.pages


def on_post_build(config: Any, **_: Any) -> None:
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for page in _order:
        text, address = _pages[page.file.dest_uri], page.file.dest_uri.removesuffix("html") + "md"
        (site / address).write_text(text)
        if page.parent and page.parent.children[0] is page:
            lines += ["", f"## {page.parent.title}", ""]
        lines.append(f"- [{page.title}]({address}): {about(text)}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n")


def build(site: Path) -> None:
    """Builds the site. Exits with the errors."""
    from mkdocs.__main__ import build_command

    build_command(["--strict", "--config-file", str(ROOT / "ops/mkdocs.yml"), "--site-dir", str(site)])


if __name__ == "__main__":
    built = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".tombola" / "site"
    print(f"The site is in {built}")
    build(built.absolute())
