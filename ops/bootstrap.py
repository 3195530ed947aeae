"""Creates `.venv` with what a script needs, and continues in it. Runs on a bare Python: standard library only.

This file must also parse on Pythons too old for Tombola (3.7 on), so that they print an explanation instead of
a SyntaxError: no match, no walrus, and no newer standard library.

A stamp in `.venv` (a hash of pyproject.toml, ops/constraints.txt, this directory and the interpreter)
lets later starts skip pip.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
OLDEST = (3, 11)
CONTAINED = {
    "embedded": ("embedded",),
    "test": ("test", "embedded", "docs"),
    "docs": ("docs",),
    "dev": ("dev", "test", "embedded", "docs"),
}
"""The extras of pyproject.toml, and those that each includes."""


def require_python() -> None:
    """Continues in a Python that is new enough, or exits with what to install."""
    if sys.version_info >= OLDEST:
        return
    for minor in (14, 13, 12, 11):
        found = shutil.which(f"python3.{minor}")
        # A version manager's shim may exist without its Python.
        if found and subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            os.execv(found, [found, *sys.argv])
    sys.exit(
        f"Tombola needs Python 3.11 or newer; this is {_version()} ({sys.executable}).\n"
        "Install one (Debian, Ubuntu: apt install python3.11 python3.11-venv) and start this again."
    )


def enter(extra: str, module: str, arguments: list[str] | None = None) -> None:
    """Installs `tombola[extra]` if missing, and becomes `.venv/bin/python -m module arguments`."""
    install(extra)
    os.environ["VIRTUAL_ENV"] = VENV
    os.environ["PATH"] = os.path.join(VENV, "bin") + os.pathsep + os.environ.get("PATH", "")
    os.environ["PYTHONPATH"] = ROOT
    os.execv(PYTHON, [PYTHON, "-m", module] + (sys.argv[1:] if arguments is None else arguments))


def install(extra: str) -> None:
    """Installs `extra` into the virtual environment. Exits with what to do if that fails."""
    if _is_stamped(extra):
        return
    with open(os.path.join(ROOT, ".venv.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two concurrent installations would overwrite each other
        if _is_stamped(extra):
            return
        _make_venv()
        command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
        command += ["--constraint", os.path.join(ROOT, "ops", "constraints.txt"), "--editable", f"{ROOT}[{extra}]"]
        _run_quietly(f"Installing tombola[{extra}] into .venv (the first time only)", command)
        for name in CONTAINED[extra]:
            with open(_stamp_path(name), "w") as stamp:
                stamp.write(_fingerprint())


def _run_quietly(what: str, command: list[str]) -> None:
    """Runs a command behind one line of progress. On failure prints its output and exits."""
    started = time.monotonic()
    print(f"{what} ...", end="", flush=True)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        while True:
            try:
                code = process.wait(1)
                break
            except subprocess.TimeoutExpired:
                if sys.stdout.isatty():
                    print(f"\r{what} ... {time.monotonic() - started:.0f} s", end="", flush=True)
        if code != 0:
            said.seek(0)
            print(f" failed\n{said.read().decode(errors='replace')}", flush=True)
            sys.exit("The installation failed: see the lines above. Is a package index within reach?")
    print(
        f"{chr(13) + what + ' ...' if sys.stdout.isatty() else ''} done in {time.monotonic() - started:.0f} s",
        flush=True,
    )


def _make_venv() -> None:
    if os.path.exists(PYTHON) and subprocess.call([PYTHON, "-m", "pip", "--version"], stdout=subprocess.DEVNULL) == 0:
        return
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        sys.exit(
            f"This Python ({sys.executable}) has no venv module with pip.\n"
            f"Install it (Debian, Ubuntu: apt install python{_version()}-venv) and start this again."
        )
    try:
        venv.create(VENV, clear=True, symlinks=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"The virtual environment {VENV} could not be made: {error}")


def _version() -> str:
    """The running version, as packages name it: "3.9"."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _is_stamped(extra: str) -> bool:
    try:
        with open(_stamp_path(extra)) as stamp:
            return os.path.exists(PYTHON) and stamp.read() == _fingerprint()
    except OSError:
        return False


def _stamp_path(extra: str) -> str:
    return os.path.join(VENV, f".tombola-{extra}")


def _fingerprint() -> str:
    """The inputs of the installation, including the directory, which an editable installation refers to."""
    # The interpreter behind .venv, not the running one: it is the one that will be used.
    digest = hashlib.sha256((ROOT + os.path.realpath(PYTHON)).encode())
    for name in ("pyproject.toml", os.path.join("ops", "constraints.txt")):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()
