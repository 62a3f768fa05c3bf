"""For the tests of quoth serve: every answer to a client is validated against OpenAI's API
description (../shared/data/api/openapi_subset.json, not part of the repository). This module needs
openai's httpx, and jsonschema. It contains no tests."""
import base64
import json
import os
import struct

import jsonschema

try:
    import httpx2 as httpx  # newer versions of the openai package use httpx2
except ImportError:
    import httpx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("QUOTH_ROOT") or os.path.dirname(os.path.dirname(HERE))
DATA = os.environ.get("QUOTH_DATA") or os.path.join(ROOT, "..", "shared", "data")
FILE = os.path.join(DATA, "api", "openapi_subset.json")
WHOLE = {"/v1/chat/completions": "CreateChatCompletionResponse", "/v1/completions": "CreateCompletionResponse",
         "/v1/embeddings": "CreateEmbeddingResponse", "/v1/models": "ListModelsResponse",
         "/v1/responses": "Response", "/v1/responses/input_tokens": "TokenCountsResource"}
PIECE = {"/v1/chat/completions": "CreateChatCompletionStreamResponse", "/v1/completions": "CreateCompletionResponse"}


def plain(x):
    """Convert OpenAPI's "nullable" to JSON Schema."""
    if isinstance(x, list):
        return [plain(v) for v in x]
    if not isinstance(x, dict):
        return x
    d = {k: plain(v) for k, v in x.items() if k != "nullable" or v is not True}
    return {"anyOf": [d, {"type": "null"}]} if x.get("nullable") is True else d


class Schemas:
    def __init__(self):
        with open(FILE) as f:
            self.components = plain(json.load(f)["components"])
        self.made = {}
        self.n = {}  # number of answers by schema

    def event(self, kind):
        """Return the name of the schema of an event of a response."""
        for row in self.components["schemas"]["ResponseStreamEvent"]["anyOf"]:
            name = row["$ref"].rsplit("/", 1)[1]
            if kind in self.components["schemas"][name]["properties"]["type"]["enum"]:
                return name
        raise AssertionError(f"no event {kind}")

    def hold(self, name, x):
        if name not in self.made:
            schema = {"$ref": f"#/components/schemas/{name}", "components": self.components}
            self.made[name] = jsonschema.Draft202012Validator(schema)
        self.n[name] = self.n.get(name, 0) + 1
        for e in self.made[name].iter_errors(x):
            raise AssertionError(f"{name}: {list(e.absolute_path)}: {e.message[:300]}: {json.dumps(x)[:600]}")


def as_described(path, asked, x):
    """Adapt an answer in which OpenAI's own servers differ from their description. A piece of a
    completion has no finish_reason yet, the first token of an echoed prompt has no logprob, and
    vectors may be base64."""
    for c in x.get("choices", []) if path == "/v1/completions" else []:
        if asked.get("stream") and c["finish_reason"] is None:
            c["finish_reason"] = "stop"
        logprobs = c["logprobs"]
        if asked.get("echo") and logprobs and logprobs["token_logprobs"][:1] == [None]:
            logprobs["token_logprobs"][0], logprobs["top_logprobs"][0] = 0.0, {}
    for d in x.get("data", []) if path == "/v1/embeddings" else []:
        if asked.get("encoding_format") == "base64":
            data = base64.b64decode(d["embedding"], validate=True)
            d["embedding"] = list(struct.unpack(f"<{len(data) // 4}f", data))
    return x


class Tapped(httpx.SyncByteStream):
    """A body that is validated after its end. The body is not validated if the client disconnects
    early."""

    def __init__(self, inner, look):
        self.inner, self.look = inner, look

    def __iter__(self):
        data = b""
        for piece in self.inner:
            data += piece
            yield piece
        self.look(data)

    def close(self):
        self.inner.close()


class Transport(httpx.HTTPTransport):
    """A transport that validates answers against the schemas; None: no validation."""

    def __init__(self, schemas):
        super().__init__()
        self.schemas = schemas

    def handle_request(self, request):
        response = super().handle_request(request)
        if self.schemas and request.url.path.startswith("/v1/"):
            response.stream = Tapped(response.stream, lambda data: self.look(request, response, data))
        return response

    def look(self, request, response, data):
        path, kind = request.url.path, response.headers.get("content-type", "")
        asked = json.loads(request.content) if request.content else {}
        if response.status_code >= 400:
            self.schemas.hold("ErrorResponse", json.loads(data))
        elif kind.startswith("text/event-stream"):
            if path.startswith("/v1/responses"):
                return self.look_at_events(data)
            rows = [r for r in data.decode().split("\n\n") if r and not r.startswith(":")]
            assert rows[-1] == "data: [DONE]" and all(r.startswith("data: ") for r in rows), rows[-2:]
            for r in rows[:-1]:
                self.schemas.hold(PIECE[path], as_described(path, asked, json.loads(r[6:])))
        elif path.startswith("/v1/conversations"):
            x = json.loads(data)
            for item in x.get("data", []):
                self.schemas.hold("Item", item)
        elif path.endswith("/input_items"):
            for item in json.loads(data)["data"]:
                self.schemas.hold("Item", item)
        elif path.startswith("/v1/responses/") and path not in WHOLE:
            if request.method != "DELETE":
                self.schemas.hold("Response", json.loads(data))
        else:
            self.schemas.hold(WHOLE.get(path, "Model"), as_described(path, asked, json.loads(data)))

    def look_at_events(self, data):
        """Validate the events of a response, each with the schema of its type."""
        for r in [r for r in data.decode().split("\n\n") if r and not r.startswith(":")]:
            name, _, event = r.partition("\ndata: ")
            x = json.loads(event)
            assert name == "event: " + x["type"], r[:200]
            self.schemas.hold("ResponseStreamEvent", x)
            self.schemas.hold(self.schemas.event(x["type"]), x)


def http_client():
    """Return (client for openai.OpenAI, Schemas or None if the description is missing)."""
    schemas = Schemas() if os.path.exists(FILE) else None
    return httpx.Client(transport=Transport(schemas), timeout=120), schemas
