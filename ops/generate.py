"""Makes runtime/messages from runtime/rpc/game.proto: `python ops/generate.py [OUT_DIR]`.

Two things are added to what the compiler emits. A `google.protobuf.Struct` field becomes a plain
`dict` (betterproto2 unwraps well-known types, but not this one). And the descriptor set is kept
beside the code, so that gRPC reflection can serve it without generating the messages twice.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = ROOT / "runtime" / "rpc"
PLUGIN = "protoc-gen-python_betterproto2"
STRUCT_FIELD = re.compile(
    r'"__google__protobuf__\.Struct \| None" = '
    r"betterproto2\.field\(\s*(\d+), betterproto2\.TYPE_MESSAGE, optional=True\s*\)"
)


def generate(out_dir: Path) -> None:
    """Writes game.py, google_protobuf.py and game.binpb into `out_dir`."""
    from grpc_tools import protoc  # a development dependency: not needed to run

    # The compiler's plugin formats what it emits with the `ruff` that it finds on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={PROTO_DIR}",
                f"--proto_path={Path(protoc.__file__).parent / '_proto'}",
                f"--plugin={PLUGIN}={Path(sys.executable).parent / PLUGIN}",
                f"--python_betterproto2_out={scratch}",
                "--python_betterproto2_opt=client_generation=none",
                f"--descriptor_set_out={out_dir / 'game.binpb'}",
                str(PROTO_DIR / "game.proto"),
            ]
        )
        if status != 0:
            raise SystemExit(f"protoc failed with status {status}")
        for package in ("game/v1", "google/protobuf"):
            shutil.copytree(Path(scratch) / package, out_dir / package, dirs_exist_ok=True)
            for folder in [out_dir / package, *(out_dir / package).parents]:
                if folder == out_dir:
                    break
                (folder / "__init__.py").touch()
        shutil.copy(Path(scratch) / "message_pool.py", out_dir / "message_pool.py")
    game = out_dir / "game/v1/__init__.py"
    text = STRUCT_FIELD.sub(
        r'"dict[str, Any] | None" = betterproto2.field(\n'
        r"        \1, betterproto2.TYPE_MESSAGE, optional=True, unwrap=lambda: JsonObject\n    )",
        game.read_text(),
    )
    text = text.replace(
        "from dataclasses import dataclass\n", "from dataclasses import dataclass\nfrom typing import Any\n", 1
    )
    text = text.replace("from ...google import protobuf as __google__protobuf__\n", "")
    text = text.replace(
        "from ...message_pool import default_message_pool\n",
        "from ...json_object import JsonObject\nfrom ...message_pool import default_message_pool\n",
        1,
    )
    game.write_text(text)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runtime" / "messages")
