"""A hub of models for tests: the interface of Hugging Face, a container registry as Ollama's, and a
second server that has the files. Attributes set the faults. This module contains no tests."""
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

SMALL = 1000  # files below this size are not in LFS


known = {}  # (function, id of bytes): (bytes, hash), because a request must not wait for hashes


def remember(function, data):
    key = (function, id(data))
    if key not in known:
        known[key] = (data, function(data))
    return known[key][1]


def sha256(data):
    return remember(compute_sha256, data)


def git_hash(data):
    return remember(compute_git, data)


def compute_sha256(data):
    return hashlib.sha256(data).hexdigest()


def compute_git(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def is_large(path, data):
    return len(data) >= SMALL or path.endswith((".gguf", ".safetensors"))


def hash_of(path, data):
    """Return the name of a file's blob in the cache."""
    return sha256(data) if is_large(path, data) else git_hash(data)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.server.hub.record(self)
        try:
            self.server.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_HEAD = do_GET


class Site(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, hub, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub, self.answer = hub, answer
        self.port = self.server_address[1]
        self.handle_error = lambda *args: None  # the client was killed
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


class Hub:
    """repos: {name: {revision: {path: bytes}}}. models: {"space/name": {tag: [(kind, bytes)]}}."""

    def __init__(self):
        self.repos, self.models, self.lock = {}, {}, threading.Lock()
        self.hub, self.cdn = Site(self, self.answer_hub), Site(self, self.answer_cdn)
        self.url = f"http://127.0.0.1:{self.hub.port}"
        self.host = f"127.0.0.1:{self.hub.port}"
        self.blobs = {}  # hash -> bytes
        self.reset()

    def reset(self):
        """Remove all faults and records."""
        self.cdn_host = "127.0.0.1"
        self.tree = None  # bytes in place of the list of files
        self.requests = []  # (port, method, path, headers)
        self.n_sent = 0  # bytes of files
        self.ranges = True
        self.cuts = []  # numbers of bytes after which answers with a file end, one per answer
        self.failures = []  # (status, headers) of answers of the second server, before others
        self.hub_failures = []  # (status, headers) of answers of the first server, before others
        self.changes = {}  # hash -> bytes that are sent in its place
        self.token = None  # token that private repositories need
        self.pause = 0  # seconds before each 64 KiB of a file
        self.chunked = False

    def add_repo(self, name, files, revision="main"):
        self.repos.setdefault(name, {})[revision] = files
        self.blobs.update({hash_of(p, d): d for p, d in files.items()})

    def add_model(self, name, layers, tag="latest"):
        self.models.setdefault(name, {})[tag] = layers
        self.blobs.update({sha256(data): data for _, data in layers})

    def close(self):
        for site in (self.hub, self.cdn):
            site.shutdown()
            site.server_close()

    def record(self, h):
        with self.lock:
            self.requests.append((h.server.port, h.command, h.path, dict(h.headers)))

    def commit(self, repo, revision):
        """Return the commit of a revision, which depends on its files; None if unknown."""
        for name, files in self.repos.get(repo, {}).items():
            commit = hashlib.sha1("".join(f"{p}{hash_of(p, d)}" for p, d in sorted(files.items())).encode()).hexdigest()
            if revision in (name, commit):
                return commit, files
        return None, None

    # the first server

    def answer_hub(self, h):
        url = urllib.parse.urlsplit(h.path)
        with self.lock:
            failure = self.hub_failures.pop(0) if self.hub_failures else None
        if failure:
            return h.reply(failure[0], **failure[1])
        if url.path.startswith("/v2/"):
            return self.answer_registry(h, url.path)
        if self.token and h.headers.get("Authorization") != f"Bearer {self.token}":
            return h.reply(401, b"{}")
        api = re.fullmatch(r"/api/models/(.+?)/(revision|tree)/([^/]+)", url.path)
        if api:
            return self.answer_api(h, *map(urllib.parse.unquote, api.groups()), urllib.parse.parse_qs(url.query))
        file = re.fullmatch(r"/([^/]+/[^/]+|[^/]+)/resolve/([^/]+)/(.+)", url.path)
        return self.answer_file(h, *map(urllib.parse.unquote, file.groups())) if file else h.reply(404)

    def answer_api(self, h, repo, what, revision, query):
        commit, files = self.commit(repo, revision)
        if not commit:
            return h.reply(404, b'{"error":"Repository not found"}')
        if what == "revision":
            return h.reply(200, json.dumps({"sha": commit, "id": repo, "siblings": [{"rfilename": p} for p in files]}).encode())
        if self.tree is not None:
            return h.reply(200, self.tree)
        first, n = int(query.get("cursor", ["0"])[0]), 4
        rows = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": p.rpartition("/")[0]} for p in files if "/" in p]
        for path, data in files.items():
            row = {"type": "file", "oid": git_hash(data), "size": len(data), "path": path}
            if is_large(path, data):
                row["oid"] = git_hash(b"pointer of " + path.encode())
                row["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
            rows.append(row)
        more = {}
        if first + n < len(rows):
            more["Link"] = f'<{self.url}{h.path.split("?")[0]}?recursive=true&cursor={first + n}>; rel="next"'
        h.reply(200, json.dumps(rows[first:first + n]).encode(), **more)

    def answer_file(self, h, repo, revision, path):
        commit, files = self.commit(repo, revision)
        if not commit or path not in files:
            return h.reply(404, b"", X_Error_Code="EntryNotFound")
        data = files[path]
        common = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if not is_large(path, data):
            return self.send_data(h, data, {**common, "ETag": f'"{git_hash(data)}"'})
        h.reply(302, b"Found. Redirecting", **common, **{
            "X-Linked-Size": len(data), "X-Linked-ETag": f'"{sha256(data)}"', "ETag": f'"{sha256(data)}"',
            "Location": f"http://{self.cdn_host}:{self.cdn.port}/files/{sha256(data)}?signature=x%2Fy"})

    def answer_registry(self, h, path):
        manifest = re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", path)
        if manifest:
            layers = self.models.get(manifest[1], {}).get(manifest[2])
            return h.reply(200, self.manifest(layers)) if layers else h.reply(404, b'{"errors":[]}')
        blob = re.fullmatch(r"/v2/.+/blobs/sha256:([0-9a-f]{64})", path)
        if not blob or blob[1] not in self.blobs:
            return h.reply(404)
        h.reply(307, Location=f"http://{self.cdn_host}:{self.cdn.port}/files/{blob[1]}")

    def manifest(self, layers):
        config = b"{}"
        self.blobs[sha256(config)] = config
        def layer(kind, data):
            return {"mediaType": kind, "digest": f"sha256:{sha256(data)}", "size": len(data)}
        return json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                           "config": layer("application/vnd.docker.container.image.v1+json", config),
                           "layers": [layer("application/vnd.ollama.image." + kind, data) for kind, data in layers]}).encode()

    # the server of files

    def answer_cdn(self, h):
        with self.lock:
            failure = self.failures.pop(0) if self.failures else None
        if failure:
            return h.reply(failure[0], **failure[1])
        name = urllib.parse.urlsplit(h.path).path.rpartition("/")[2]
        if name not in self.blobs:
            return h.reply(404)
        self.send_data(h, self.changes.get(name, self.blobs[name]), {"ETag": '"of the second server"'})

    def send_data(self, h, data, headers):
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", h.headers.get("Range", "")) if self.ranges else None
        begin, end = 0, len(data)
        if wanted:
            begin, end = int(wanted[1]), min(int(wanted[2] or len(data) - 1) + 1, len(data))
            if begin >= len(data):
                return h.reply(416)
            headers = {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"}
        h.send_response(206 if wanted else 200)
        for header, value in headers.items():
            h.send_header(header, str(value))
        h.send_header("Content-Length", str(end - begin))
        h.end_headers()
        if h.command == "HEAD":
            return
        with self.lock:
            cut = self.cuts.pop(0) if self.cuts else None
        self.send_bytes(h, memoryview(data)[begin:end], cut)

    def send_bytes(self, h, data, cut):
        """Send the bytes, or `cut` of them. Then close the connection."""
        n_piece = 1 << 16 if self.pause else 1 << 20
        sent, n = 0, len(data) if cut is None else min(cut, len(data))
        while sent < n:
            piece = data[sent:min(sent + n_piece, n)]
            if self.pause:
                time.sleep(self.pause)
            h.wfile.write(piece)
            sent += len(piece)
            with self.lock:
                self.n_sent += len(piece)
        if sent < len(data):
            h.close_connection = True
