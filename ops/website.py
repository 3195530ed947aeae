"""The documentation's site: `./ops/docs` builds it from docs/ with MkDocs, and fails at a broken link.

MkDocs also loads this file, as ops/mkdocs.yml names it among its hooks: each page is written as Markdown beside its
HTML, with the files that it includes, and `llms.txt` lists all of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"^--8<-- \"(.+)\"$", re.MULTILINE)
"""A line that stands for a file of docs/, as a block of code. Each but a shell's has its name above it."""
LANGUAGES = {".py": "python", ".js": "js", ".html": "html", ".sh": "sh", ".tsx": "tsx", ".vue": "vue"}

_pages: dict[str, tuple[str, str]] = {}
"""The pages by their address: title and Markdown."""


def expanded(text: str) -> str:
    """A page with the files that it includes."""

    def block(found: re.Match[str]) -> str:
        file = ROOT / "docs" / found[1]
        title = "" if file.suffix == ".sh" else f' title="{file.name}"'
        return f"```{LANGUAGES[file.suffix]}{title}\n{file.read_text()}```"

    return INCLUDE.sub(block, text)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    text = expanded(markdown)
    _pages[page.file.dest_uri.removesuffix("html") + "md"] = (page.title, text)
    return text


def on_post_build(config: Any, **_: Any) -> None:
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for address, (title, text) in _pages.items():
        (site / address).write_text(text)
        lines.append(f"- [{title}]({address})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n")


def build(site: Path) -> None:
    """Builds the site there. Ends the process with what is wrong."""
    from mkdocs.__main__ import build_command

    build_command(["--strict", "--config-file", str(ROOT / "ops/mkdocs.yml"), "--site-dir", str(site)])


if __name__ == "__main__":
    built = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".tombola" / "site"
    print(f"The site is in {built}")
    build(built.absolute())
