"""build_wheel.py - make the wheel from the package's files and the libquoth.so that `make` built.
`pip wheel python/` calls this file as a build backend (PEP 517). `python3 build_wheel.py FOLDER`
makes the same wheel without pip, and requires no other package.

The library is $QUOTH_LIBRARY, or ../build/libquoth.so. That file is built if it is missing."""
import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def version():
    with open(os.path.join(ROOT, "include", "quoth.h"), encoding="utf-8") as f:
        return re.search(r'#define QUOTH_VERSION "(.*)"', f.read()).group(1)


def library():
    path = os.environ.get("QUOTH_LIBRARY") or os.path.join(ROOT, "build", "libquoth.so")
    if not os.path.exists(path):
        subprocess.run(["make", "-C", ROOT, "build/libquoth.so"], check=True)
    return path


def metadata():
    return (f"Metadata-Version: 2.1\nName: quoth\nVersion: {version()}\n"
            "Summary: Run language models: an inference engine in C behind a small Python package\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\n")


def contents(tag):
    """Return a dict of file names in the wheel and their bytes, and the name of the info folder."""
    files = {}
    package = os.path.join(HERE, "quoth")
    for name in sorted(os.listdir(package)):
        if name.endswith(".py") or name == "py.typed":
            with open(os.path.join(package, name), "rb") as f:
                files[f"quoth/{name}"] = f.read()
    with open(library(), "rb") as f:
        files["quoth/libquoth.so"] = f.read()
    info = f"quoth-{version()}.dist-info/"
    with open(os.path.join(ROOT, "LICENSE"), "rb") as f:
        files[info + "LICENSE"] = f.read()
    files[info + "METADATA"] = metadata().encode()
    files[info + "WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: quoth\nRoot-Is-Purelib: false\nTag: {tag}\n").encode()
    return files, info


def record(files, info):
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(rows) + f"{info}RECORD,,\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    files, info = contents(tag)
    files[info + "RECORD"] = record(files, info).encode()
    name = f"quoth-{version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))  # constant, so that equal files give equal wheels
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    print(os.path.join(sys.argv[1], build_wheel(sys.argv[1])))
