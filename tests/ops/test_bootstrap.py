"""ops/bootstrap.py: what it refuses, and that it installs once."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
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


def test_python_without_venv_is_refused_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(bootstrap, "PYTHON", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit, match=r"apt install python3\.\d+-venv"):
        bootstrap._make_venv()


def test_stamp_expires_when_the_constraints_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    for name in ("pyproject.toml", "ops/constraints.txt"):
        (tmp_path / name).write_text("one")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    for name, value in (("ROOT", tmp_path), ("VENV", tmp_path / ".venv"), ("PYTHON", python)):
        monkeypatch.setattr(bootstrap, name, str(value))
    Path(bootstrap._stamp_path("embedded")).write_text(bootstrap._fingerprint())
    assert bootstrap._is_stamped("embedded")
    assert not bootstrap._is_stamped("test")
    (tmp_path / "ops/constraints.txt").write_text("two")
    assert not bootstrap._is_stamped("embedded")


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
    assert f"port {port} is taken" in done.stderr
    assert "--port-base" in done.stderr
    assert not (tmp_path / "data").exists()


def test_pip_output_is_shown_only_on_failure(capfd: pytest.CaptureFixture[str]) -> None:
    chatter = "print('Collecting a package'); import sys; sys.exit(len(sys.argv) - 1)"
    bootstrap._run_quietly("Installing it", [sys.executable, "-c", chatter])
    assert re.fullmatch(r"Installing it \.\.\. done in \d+ s\n", capfd.readouterr().out)
    with pytest.raises(SystemExit, match="installation failed"):
        bootstrap._run_quietly("Installing it", [sys.executable, "-c", chatter, "fails"])
    assert "Collecting a package" in capfd.readouterr().out


def test_command_line_uses_the_running_stack_for_unset_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entered: list[tuple[str, str]] = []
    monkeypatch.setattr(bootstrap, "enter", lambda extra, module: entered.append((extra, module)))
    ready = {f"{name}_url": f"http://{name}" for name in ("admin", "database", "redis")}
    (tmp_path / "ready.json").write_text(json.dumps({**ready, "admin_token": "t", "tenant_id": "tenant_a"}))
    (tmp_path / "keys.json").write_text('{"JWT_SECRET": "s"}')
    for name in ("TOMBOLA_ADMIN_URL", "TOMBOLA_TOKEN", "DEFAULT_TENANT", "DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(name, "")  # Counts as unset, and is put back after.
    monkeypatch.setenv("JWT_SECRET", "mine")
    monkeypatch.setenv("TOMBOLA_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    runpy.run_path(str(ROOT / "ops/tombola"))
    assert entered == [("embedded", "runtime")]
    found = {name: os.environ[name] for name in ("TOMBOLA_ADMIN_URL", "TOMBOLA_TOKEN", "DEFAULT_TENANT", "JWT_SECRET")}
    assert list(found.values()) == ["http://admin", "t", "tenant_a", "mine"], "what is set counts before what is found"


def test_scripts_are_executable() -> None:
    assert all(os.access(ROOT / name, os.X_OK) for name in ("ops/up", "ops/test", "ops/tombola", ".ci/run"))
