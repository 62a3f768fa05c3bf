"""Send recorded requests of a real client to OpenAI (../shared/data/api/recorded) unchanged to the
server at argv[1]. A request to a supported endpoint gets an answer that matches OpenAI's
description. Each other request gets a 404 in OpenAI's format. Run by serve.py."""
import glob
import json
import os
import sys
import urllib.parse

import yaml

from openapi import DATA, http_client

http, schemas = http_client()
HERE = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/responses")


def requests():
    for path in sorted(glob.glob(os.path.join(DATA, "api", "recorded", "**", "*.yaml"), recursive=True)):
        with open(path) as f:
            for i, one in enumerate(yaml.safe_load(f)["interactions"]):
                yield f"{os.path.basename(path)}[{i}]", one["request"]


def send(name, request):
    path = urllib.parse.urlsplit(request["uri"]).path
    own = ("host", "content-length", "accept-encoding")
    headers = {k: v[0] for k, v in request["headers"].items() if k.lower() not in own}
    response = http.request(request["method"], sys.argv[1] + path, content=request["body"], headers=headers)
    want = 200 if path in HERE else 404
    assert response.status_code == want, (name, response.status_code, response.text[:400])
    if want == 404:
        assert response.json()["error"]["code"] == "not_found", response.text
    elif json.loads(request["body"]).get("stream"):
        if path == "/v1/responses":
            last = json.loads(response.text.split("\n\n")[-2].split("data: ", 1)[1])
            assert last["type"] in ("response.completed", "response.incomplete") and last["response"]["usage"]["output_tokens"] > 0, (name, last)
            return want
        last = response.text.split("\n\n")[-3]
        assert json.loads(last[6:])["usage"]["completion_tokens"] > 0, (name, last)
    return want


got = [send(*r) for r in requests()]
assert got.count(200) >= 10, got
print(f"all is well; {got.count(200)} answered, {got.count(404)} to endpoints that are not here, "
      f"{sum(schemas.n.values())} objects as described")
