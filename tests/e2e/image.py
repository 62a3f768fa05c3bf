#!/usr/bin/env python3
"""Goal: scripts/image makes an image for two processors that tools can read, and whose programs
serve. Method: check the layout, and run each program alone in a root of its image's files, the
other processor's under qemu-user. QUOTH_LONG=1 runs it, as root, with the cross compiler."""
import hashlib
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
QEMU = {"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}
OWN = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)


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


def missing():
    """Return the missing tools."""
    return [t for t in ("debootstrap", "aarch64-linux-gnu-gcc", "chroot", *(q for a, q in QEMU.items() if a != OWN)) if not shutil.which(t)]


if __name__ == "__main__":
    if not LONG or os.getuid() != 0 or OWN != "amd64" or missing():
        print("skip image", "(QUOTH_LONG=1 runs it, as root)" if not LONG or os.getuid() else f"(no {missing()})")
    else:
        r = subprocess.run([os.path.join(ROOT, "scripts", "image"), FOLDER], capture_output=True, text=True)
        if r.returncode != 0:
            print(f"FAIL image: {r.stderr}")
        else:
            run([layout, serves])
