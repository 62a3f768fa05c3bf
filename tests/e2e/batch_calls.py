"""Requests of tests that use /v1/files and /v1/batches. This module contains no tests."""
import json
import time

from server import check


def form(parts, boundary="xyz"):
    """Return body and headers of a form of (name, filename, content)."""
    body = b""
    for name, filename, content in parts:
        of = f'; filename="{filename}"' if filename else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{of}\r\n\r\n'.encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def upload(s, text, **headers):
    body, kind = form([("purpose", None, b"batch"), ("file", "in.jsonl", text.encode())])
    status, _, answer = s.ask("POST", "/v1/files", body, {**kind, **headers})
    check(status == 200 and answer["bytes"] == len(text.encode()), answer)
    return answer["id"]


def create(s, file, endpoint="/v1/chat/completions", window="24h", **headers):
    status, _, answer = s.ask("POST", "/v1/batches", {"input_file_id": file, "endpoint": endpoint, "completion_window": window}, headers)
    check(status == 200, answer)
    return answer["id"]


def state(s, batch):
    status, _, answer = s.ask("GET", "/v1/batches/" + batch)
    check(status == 200, answer)
    return answer


def wait(s, batch, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        b = state(s, batch)
        if b["status"] in ("completed", "failed", "expired", "cancelled"):
            return b
        time.sleep(0.02)
    check(False, b)


def content(s, file):
    status, _, data = s.ask("GET", f"/v1/files/{file}/content")
    check(status == 200, data)
    return [json.loads(row) for row in data.decode().splitlines()]
