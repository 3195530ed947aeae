"""The widget's modules as one: each keeps its own names, there is one of each, and what cannot be held is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runtime.http.pages.bundle import Unbundled, bundle, outside

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs a node to run it")

MODULES = {
    "main.js": 'import { add as plus, Box } from "./sums.js";\nimport words from "./words/en.js";\n'
    "const own = 1;\nexport const main = () => `${plus(own, 2)} ${words.hello} ${new Box().has}`;\n",
    "sums.js": 'import { count } from "./count.js";\nconst own = 0;\nexport function add(a, b) {\n  count();\n'
    "  return a + b + own;\n}\nexport class Box {\n  has = 7;\n}\n",
    "count.js": "let counted = 0;\nexport const count = () => ++counted;\nexport async function later() {}\n",
    "words/en.js": 'export default {\n  hello: "hello",\n};\n',
    "games/one.js": 'import { count } from "../count.js";\nimport { far } from "../far.js";\n'
    "export const mount = () => [count(), far];\n",
    "far.js": 'export const far = "far";\n',
}


def test_it_has_the_entry_with_what_it_imports_and_nothing_else() -> None:
    whole, held = bundle("main.js", MODULES)
    assert held == {"main.js", "sums.js", "count.js", "words/en.js"}
    assert "from" not in whole and "far" not in whole


def ran(folder: Path, files: dict[str, str]) -> str:
    """What `try.js` prints, with the files beside it."""
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    done = subprocess.run(["node", "try.js"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


@needs_node
def test_what_is_outside_shares_the_one_module_that_is_inside(tmp_path: Path) -> None:
    whole, held = bundle("main.js", MODULES)
    files = {"main.js": whole, **{path: MODULES[path] for path in MODULES if path not in held}}
    files["games/one.js"] = outside("games/one.js", MODULES["games/one.js"], "main.js", held)
    files["package.json"] = '{"type": "module"}'
    files["try.js"] = (
        'import { main } from "./main.js";\nimport { mount } from "./games/one.js";\nconsole.log(main(), mount());\n'
    )
    assert ran(tmp_path, files) == "3 hello 7 [ 2, 'far' ]\n"


@pytest.mark.parametrize(
    "line",
    [
        'import * as all from "./count.js";',
        'import {\n  count,\n} from "./count.js";',
        "export let counted = 0;",
        'import "./count.js";',
    ],
)
def test_a_form_that_cannot_be_bundled_is_refused_by_name(line: str) -> None:
    for path in ("sums.js", "main.js"):
        if path == "main.js" and line.startswith("export let"):
            continue  # The entry stays a module: it may export what it likes.
        with pytest.raises(Unbundled, match=re.escape(path)):
            bundle("main.js", {**MODULES, path: f"{line}\n{MODULES[path]}"})
    if line.startswith("import"):
        with pytest.raises(Unbundled, match="games/one"):
            outside("games/one.js", line, "main.js", frozenset({"count.js"}))


@needs_node
def test_a_whole_one_has_what_is_loaded_later_and_names_others_from_where_it_is(tmp_path: Path) -> None:
    modules = {
        "main.js": 'import { html } from "./lib.js";\nexport const page = () => import("./pages/one.js");\n'
        "export const said = html;\n",
        "lib.js": 'import htm from "./vendor/htm.js";\nexport const html = htm("a");\n'
        'export { add, less } from "./vendor/sums.js";\n',
        "pages/one.js": 'import { add, html } from "../lib.js";\nexport default () => `${html} ${add(1, 2)}`;\n'
        'export const big = () => import("../vendor/big.js");\n'
        'export const sheet = new URL("../vendor/big.css", import.meta.url).href;\n'
        "export const picture = (name) => new URL(`../gallery/${name}.svg`, import.meta.url).href;\n",
    }
    whole, held = bundle("main.js", modules, whole=True)
    assert held == modules.keys()
    files = {
        "main.js": whole,
        "vendor/htm.js": "export default (text) => `<${text}>`;\n",
        "vendor/sums.js": "export const add = (a, b) => a + b;\nexport const less = (a, b) => a - b;\n",
        "vendor/big.js": "export const size = 9;\n",
        "package.json": '{"type": "module"}',
        "try.js": 'import { page, said } from "./main.js";\nconst one = await page();\n'
        "const big = await one.big();\n"
        "console.log(said, one.default(), big.size);\n"
        'console.log(...[one.sheet, one.picture("wheel")].map((it) => it.split("/").slice(-2).join("/")));\n',
    }
    assert ran(tmp_path, files) == "<a> <a> 3 9\nvendor/big.css gallery/wheel.svg\n"


def test_modules_that_import_each_other_are_refused() -> None:
    with pytest.raises(Unbundled, match=r"main\.js -> sums\.js -> count\.js -> sums\.js"):
        bundle("main.js", {**MODULES, "count.js": 'import { add } from "./sums.js";\n'})
