#!/usr/bin/env python3
"""Goal: scripts/image makes an image for two processors that tools can read, and whose programs
serve. Its configuration is that of deploy/Dockerfile. Method: check the layout, and run each program
alone in a root of its image's files, the other processor's under qemu-user. QUOTH_LONG=1 makes the
image, as root, with the cross compiler."""
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import shutil
import subprocess
import tarfile
import time

from server import LONG, ROOT, TMP, check, free_port, run
from urllib import request

FOLDER = os.path.join(TMP, "image")
QEMU = {"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}  # static, because they run in a root


def script():
    """Return scripts/image as a module."""
    loader = importlib.machinery.SourceFileLoader("image_script", os.path.join(ROOT, "scripts", "image"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("image_script", loader))
    loader.exec_module(module)
    return module


SCRIPT = script()
OWN = SCRIPT.own_arch()


def configuration():
    """the configuration is that of deploy/Dockerfile, and the packages are those of a build"""
    check(SCRIPT.config() == {
        "User": "65532:65532", "ExposedPorts": {"8000/tcp": {}}, "Env": ["XDG_CACHE_HOME=/cache"], "StopSignal": "SIGTERM",
        "Entrypoint": ["/quoth", "serve", "--host", "0.0.0.0", "--port", "8000"],
        "Healthcheck": {"Test": ["CMD", "/quoth", "health"], "Interval": 10 * 10**9, "Timeout": 3 * 10**9, "StartPeriod": 1800 * 10**9,
                        "Retries": 3}}, SCRIPT.config())
    names = SCRIPT.packages()
    check(len(names) > 8 and {"libc6-dev", "libjansson-dev", "zlib1g-dev"} <= set(names), names)
    check(not any(c in name for name in names for c in ":$ "), names)


def blob(descriptor):
    """Return the data of a descriptor, whose digest and size are checked."""
    with open(os.path.join(FOLDER, "blobs", *descriptor["digest"].split(":")), "rb") as f:
        data = f.read()
    check(len(data) == descriptor["size"] and "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"], descriptor)
    return data


def images_of():
    """Return the files of the image of each processor."""
    with open(os.path.join(FOLDER, "index.json"), "rb") as f:
        index = json.loads(blob(json.load(f)["manifests"][0]))
    images = {}
    for m in index["manifests"]:
        manifest = json.loads(blob(m))
        config, files = json.loads(blob(manifest["config"])), blob(manifest["layers"][0])
        arch = m["platform"]["architecture"]
        check(config["architecture"] == arch and config["config"]["User"] == "65532:65532", config)
        images[arch] = tarfile.open(fileobj=io.BytesIO(files))
        if shutil.which("skopeo"):
            r = subprocess.run(["skopeo", "inspect", "--override-arch", arch, f"oci:{FOLDER}:latest"], capture_output=True, text=True)
            check(r.returncode == 0 and json.loads(r.stdout)["Architecture"] == arch, r.stderr)
    return images


def layout():
    """every descriptor has its blob, and skopeo reads the image of each processor"""
    check(sorted(images_of()) == ["amd64", "arm64"])


def serves():
    """the program of each image serves in a root that contains nothing else"""
    for arch, files in images_of().items():
        root, port = os.path.join(TMP, arch), free_port()
        files.extractall(root, filter="fully_trusted")
        check(sorted(os.listdir(root)) == ["cache", "quoth", "tmp"], os.listdir(root))
        words = ["/quoth", "serve", "--host", "127.0.0.1", "--port", str(port)]
        if arch != OWN:
            shutil.copy(shutil.which(QEMU[arch]), os.path.join(root, "qemu"))
            words = ["/qemu", *words]
        p = subprocess.Popen(["chroot", "--userspec=65532:65532", root, *words], env={**os.environ, "XDG_CACHE_HOME": "/cache"},
                             stderr=subprocess.PIPE, text=True)
        try:
            end = time.monotonic() + 300
            while True:
                try:
                    request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60).read()
                    break
                except OSError:
                    check(p.poll() is None and time.monotonic() < end, p.poll())
                    time.sleep(0.2)
            body = {"messages": [{"role": "user", "content": "What is 2 + 3?"}], "temperature": 0, "max_tokens": 8}
            ask = request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            got = json.loads(request.urlopen(ask, timeout=300).read())
            check("5" in got["choices"][0]["message"]["content"], got)
        finally:
            p.terminate()
            check(p.wait(60) == 0, p.stderr.read())


def reason():
    """Return the reason for making no image; None if there is none."""
    if not LONG or os.getuid() != 0:
        return "QUOTH_LONG=1 makes it, as root"
    if OWN not in QEMU:
        return f"no image for {OWN}"
    tools = ["debootstrap", "chroot"]
    for arch in QEMU.keys() - {OWN}:
        tools += [f"{SCRIPT.GNU[arch]}-gcc", SCRIPT.QEMU[arch], QEMU[arch]]
    missing = [t for t in tools if not shutil.which(t)]
    return f"no {', '.join(missing)}" if missing else None


def made():
    """scripts/image makes the image"""
    r = subprocess.run([os.path.join(ROOT, "scripts", "image"), FOLDER], capture_output=True, text=True)
    check(r.returncode == 0, r.stderr)


if __name__ == "__main__":
    why = reason()
    if why:
        print(f"skip image ({why})")
    run([configuration] if why else [configuration, made, layout, serves])
