"""Python packages that are not part of the repository, for the tests of clients. The packages are
in virtual environments under build/ (QUOTH_VENVS: another folder). This module contains no
tests."""
import fcntl
import os
import subprocess
import sys

ROOT = os.environ.get("QUOTH_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = os.environ.get("QUOTH_VENVS") or os.path.join(ROOT, "build")
UV = os.path.join(HOME, "uv-for-tests")


def uv():
    """Return the path of uv in the environment; None if missing. uv installs several times faster
    than pip."""
    program = os.path.join(UV, "bin", "uv")
    if not os.path.exists(program):
        subprocess.run([sys.executable, "-m", "venv", UV], capture_output=True, check=True)
        pip(os.path.join(UV, "bin", "python"), ["uv"], 60)
    return program if os.path.exists(program) else None


def pip(python, packages, seconds):
    subprocess.run([python, "-m", "pip", "install", "-q", "--timeout", "10", "--retries", "1", *packages], capture_output=True,
                   timeout=seconds)


def install(python, packages, seconds):
    program = uv()
    if program:
        r = subprocess.run([program, "pip", "install", "-q", "--python", python, *packages], capture_output=True, timeout=seconds,
                           env={**os.environ, "UV_CACHE_DIR": os.path.join(HOME, "uv-cache"), "UV_HTTP_TIMEOUT": "10"})
        if r.returncode == 0:
            return
    pip(python, packages, seconds)


def python_with(name, packages, seconds=200):
    """Return (path of a Python with the packages, None), or (None, the reason). packages: import
    name -> pip's name. A lock lets concurrent scripts make environments one after the other.
    """
    os.makedirs(HOME, exist_ok=True)
    with open(os.path.join(HOME, "venvs.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return made(name, packages, seconds)


def made(name, packages, seconds):
    home = os.path.join(HOME, name)
    python = os.path.join(home, "bin", "python")
    ready = [python, "-P", "-c", "import " + ", ".join(packages)]
    if os.path.exists(python) and subprocess.run(ready, capture_output=True).returncode == 0:
        return python, None
    try:
        subprocess.run([sys.executable, "-m", "venv", home], capture_output=True, check=True)
        install(python, list(packages.values()), seconds)
    except (subprocess.SubprocessError, OSError) as e:
        return None, f"no virtual environment: {type(e).__name__}"
    if subprocess.run(ready, capture_output=True).returncode:
        return None, f"{', '.join(packages.values())} cannot be installed"
    return python, None
