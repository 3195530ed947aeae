"""Renders docs/pictures/up.svg, a newcomer's terminal: `python -m ops.picture READY_FILE`, for a running stack."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.syntax import Syntax
from rich.terminal_theme import MONOKAI

from ops.api import Api
from ops.ready import welcome

PICTURE: Final = Path(__file__).parents[1] / "docs" / "pictures" / "up.svg"
COLUMNS: Final = 92


def play(ready: dict[str, Any]) -> dict[str, Any]:
    """The response to a winning spin of the demo's wheel."""
    edge = Api(ready["consumer_url"], **{"X-Player-Id": "ada"})
    game = ready["demo"]["games"]["spin_wheel"]
    while True:
        session = edge.post(f"/games/{game}/start", {})["session_id"]
        played = edge.post(f"/games/{game}/play", {"session_id": session, "payload": {}})
        if played["rewards"]:
            return {"code": "OK", "data": played}


def shortened(value: Any) -> Any:
    """The value with long texts shortened to fit the picture."""
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in value]
    return f"{value[:14]}..." if isinstance(value, str) and len(value) > 26 else value


def draw(ready: dict[str, Any]) -> str:
    """The picture as a self-contained SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    text = welcome({**shortened(ready), "demo": ready["demo"]}, 9.1, "./ops/tombola games list")
    console.print("[bold green]$[/] ./ops/up --ready-file ready.json")
    console.print(re.sub(r"127\.0\.0\.1:\d+(\d)\b", r"127.0.0.1:808\1", text.split("\nSpin the wheel")[0]))
    console.print('[bold green]$[/] curl -X POST $API/games/$GAME/play -H "X-Player-Id: ada" -d "{...}"')
    answer = json.dumps(shortened(play(ready)), indent=2, ensure_ascii=False)
    console.print(Syntax(answer, "json", theme="monokai", background_color="default"))
    made = console.export_svg(title="Tombola", theme=MONOKAI, unique_id="up")
    return re.sub(r"@font-face \{.*?\}", "", made, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(draw(json.loads(Path(sys.argv[1]).read_text())))
