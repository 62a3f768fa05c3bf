#!/usr/bin/env python3
"""Goal: the web page at "/" works by mouse and by keyboard, wide and narrow, in light and dark.
Texts of models and files are never code. Long streams are smooth. Method: page_acts.py drives
Chromium (QUOTH_CHROMIUM: another program) with scripted answers of page_stub.py. QUOTH_SHOTS: a
folder for screenshots. QUOTH_LONG=1: every width by mouse and by keyboard, and all texts. Without
Chromium, the test only checks the files and their headers."""
import gzip
import os
import re
import shutil
import subprocess

from server import FEW, LONG, ROOT, Server, check, first_server, run
from venv_for import python_with

PACKAGES = {"playwright": "playwright", "axe_playwright_python": "axe-playwright-python"}
main = first_server()


def files():
    """files have their types, a policy and no other hosts; all together are small"""
    total = 0
    folder = os.path.join(ROOT, "src", "web")
    for name in sorted(f for f in os.listdir(folder) if not f.endswith((".c", ".h", ".def"))):
        for path in [f"/page/{name}"] + (["/"] if name == "index.html" else []):
            status, headers, body = main.ask("GET", path)
            with open(os.path.join(folder, name), "rb") as f:
                check(status == 200 and body == f.read(), path)
            check(headers["Content-Security-Policy"].startswith("default-src 'self';") and headers["X-Content-Type-Options"] == "nosniff", headers)
            kind = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[os.path.splitext(name)[1]]
            check(headers["Content-Type"].split(";")[0] == kind, headers)
        total += len(gzip.compress(body))
        text = body.decode()
        check(not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), name)
        check(not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", text), name)
    check(total <= 150_000, f"{total} bytes with gzip")
    for path in ("/page", "/page/", "/page/none", "/page/../web.c", "/page/%2e%2e/web.c", "/page/index.html/x"):
        status = main.ask("GET", path)[0]
        check(status == 404, (path, status))


def keys():
    """reading the page needs no key, but its requests to the API need a key"""
    s = Server("--api-key", "sk-one")
    try:
        check(s.ask("GET", "/")[0] == 200 and s.ask("GET", "/page/app.js")[0] == 200, "the page")
        check(s.ask("GET", "/v1/models")[0] == 401, "the API")
    finally:
        s.stop()


def browser():
    """all acts by mouse and keyboard, hostile texts, accessibility, a long stream"""
    if FEW:
        return "the build without sanitizers runs it"
    chromium = os.environ.get("QUOTH_CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        return "no Chromium: apt-get install chromium"
    python, why = python_with("page-for-tests", PACKAGES)
    if not python:
        return why
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_acts.py")
    shots = os.environ.get("QUOTH_SHOTS")
    r = subprocess.run([python, script, str(main.port), chromium, shots or "", str(int(LONG))], capture_output=True, text=True,
                       timeout=3000 if LONG else 280)
    if r.returncode == 77:
        return r.stdout.strip().split("\n")[0][:200]
    print("".join(f"     {line}\n" for line in r.stdout.splitlines()), end="")
    check(r.returncode == 0, (r.stdout + r.stderr)[-600:])
    return None


def stop():
    """the server stops on a signal"""
    main.stop()


run([files, keys, browser, stop])
