"""For the tests of clients: Python packages that are not part of the repository, in a virtual environment under build/.
Not a test by itself."""
import os
import subprocess
import sys

ROOT = os.environ.get("QUOTH_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def python_with(name, packages, seconds=200):
    """(path of a Python that has the packages (import name -> what pip calls it), None), or (None, why there is none)."""
    home = os.path.join(ROOT, "build", name)
    python = os.path.join(home, "bin", "python")
    ready = [python, "-c", "import " + ", ".join(packages)]
    if os.path.exists(python) and subprocess.run(ready, capture_output=True).returncode == 0:
        return python, None
    try:
        subprocess.run([sys.executable, "-m", "venv", home], capture_output=True, check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--timeout", "10", "--retries", "1", *packages.values()],
                       capture_output=True, timeout=seconds)
    except (subprocess.SubprocessError, OSError) as e:
        return None, f"no virtual environment: {type(e).__name__}"
    if subprocess.run(ready, capture_output=True).returncode:
        return None, f"{', '.join(packages.values())} cannot be installed"
    return python, None
