"""Makes `.venv` with what a script needs, and goes on in it. Runs on a bare Python: standard library only.

This file alone must also parse on Pythons too old for Tombola, so that they get a sentence and not a
SyntaxError: no annotations beyond the simplest, no match, no walrus.

A stamp in `.venv` (a hash of pyproject.toml, ops/constraints.txt, this directory and the interpreter)
lets later starts skip pip.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
OLDEST = (3, 11)
CONTAINED = {"embedded": ("embedded",), "test": ("test", "embedded"), "dev": ("dev", "test", "embedded")}
"""An extra of pyproject.toml, and those that it brings along."""


def require_python():
    """Goes on in a Python that is new enough, or ends with what to install."""
    if sys.version_info >= OLDEST:
        return
    for minor in (14, 13, 12, 11):
        found = shutil.which("python3.%d" % minor)
        # A version manager's shim may be there without its Python.
        if found and subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            os.execv(found, [found] + sys.argv)
    sys.exit(
        "Tombola needs Python 3.11 or newer; this is %d.%d (%s).\n"
        "Install one (Debian, Ubuntu: apt install python3.11 python3.11-venv) and start this again."
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )


def enter(extra, module, arguments=None):
    """Installs `tombola[extra]` where it is missing, and becomes `.venv/bin/python -m module arguments`."""
    install(extra)
    os.environ["VIRTUAL_ENV"] = VENV
    os.environ["PATH"] = os.path.join(VENV, "bin") + os.pathsep + os.environ.get("PATH", "")
    os.environ["PYTHONPATH"] = ROOT
    os.execv(PYTHON, [PYTHON, "-m", module] + (sys.argv[1:] if arguments is None else arguments))


def install(extra):
    """Makes the virtual environment hold `extra`. Ends the process with what to do where that fails."""
    if _is_stamped(extra):
        return
    with open(os.path.join(ROOT, ".venv.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two scripts started together would install over each other
        if _is_stamped(extra):
            return
        started = time.monotonic()
        _make_venv()
        print("Installing tombola[%s] into .venv (the first time only) ..." % extra, flush=True)
        command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
        command += ["--constraint", os.path.join(ROOT, "ops", "constraints.txt"), "--editable", "%s[%s]" % (ROOT, extra)]
        if subprocess.call(command) != 0:
            sys.exit("The installation failed: see the lines above. Is a package index within reach?")
        for name in CONTAINED[extra]:
            with open(_stamp_path(name), "w") as stamp:
                stamp.write(_fingerprint())
        print("Installed in %.0f s." % (time.monotonic() - started), flush=True)


def _make_venv():
    if os.path.exists(PYTHON) and subprocess.call([PYTHON, "-m", "pip", "--version"], stdout=subprocess.DEVNULL) == 0:
        return
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        sys.exit(
            "This Python (%s) has no venv module with pip.\n"
            "Install it (Debian, Ubuntu: apt install python%d.%d-venv) and start this again."
            % (sys.executable, sys.version_info[0], sys.version_info[1])
        )
    print("Making .venv with %s ..." % sys.executable, flush=True)
    try:
        venv.create(VENV, clear=True, symlinks=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit("The virtual environment %s could not be made: %s" % (VENV, error))


def _is_stamped(extra):
    try:
        with open(_stamp_path(extra)) as stamp:
            return os.path.exists(PYTHON) and stamp.read() == _fingerprint()
    except OSError:
        return False


def _stamp_path(extra):
    return os.path.join(VENV, ".tombola-%s" % extra)


def _fingerprint():
    """What was installed from: another directory counts, since an editable installation names it."""
    # The interpreter behind .venv, and not ours: it is what would run.
    digest = hashlib.sha256((ROOT + os.path.realpath(PYTHON)).encode())
    for name in ("pyproject.toml", os.path.join("ops", "constraints.txt")):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()
