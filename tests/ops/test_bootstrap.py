import ast
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ops import bootstrap

ROOT = Path(__file__).parents[2]


def test_old_python_is_refused_with_the_version_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer; this is 3\.9"):
        bootstrap.require_python()


@pytest.mark.parametrize("name", ["ops/up", "ops/test", "ops/tombola", "ops/bootstrap.py", "ops/__init__.py"])
def test_files_that_run_before_the_version_check_parse_on_old_pythons(name: str) -> None:
    assert ast.parse((ROOT / name).read_text(), feature_version=(3, 7)).body


def test_python_without_venv_is_refused_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bootstrap, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(bootstrap, "PYTHON", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit, match=r"apt install python3\.\d+-venv"):
        bootstrap._make_venv()


def test_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = min(taken.getsockname()[1], 65532)
        done = subprocess.run(
            [ROOT / "ops/up", "--port-base", str(port), "--data", str(tmp_path / "data")],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stderr
    assert "--port-base" in done.stderr
    assert not (tmp_path / "data").exists()
