"""A program of the official openai package for batches.py: every method of files and batches, with
valid and invalid arguments. Argument: url. This module contains no tests."""
import asyncio
import json
import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0)
CHAT = "/v1/chat/completions"


def fails(kind, call, param):
    try:
        call()
    except kind as e:
        assert e.param == param, (e.param, param, str(e))
        return
    raise AssertionError(f"no {kind}")


def line(i):
    body = {"model": "quoth-tiny", "messages": [{"role": "user", "content": f"What is {i} + 5?"}], "max_tokens": 20, "temperature": 0}
    return json.dumps({"custom_id": f"r{i}", "method": "POST", "url": CHAT, "body": body})


text = "\n".join(line(i) for i in range(12)).encode()
file = client.files.create(file=("two words é.jsonl", text), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
assert file.bytes == len(text) and file.expires_at == file.created_at + 3600 and file.filename == "two words é.jsonl", file
assert client.files.retrieve(file.id) == file
assert client.files.content(file.id).read() == text
others = [client.files.create(file=(f"{i}", b"x"), purpose="batch") for i in range(5)]
listed = list(client.files.list(purpose="batch", limit=2, order="asc"))
assert [f.id for f in listed][-6:] == [file.id, *(f.id for f in others)], listed
assert [f.id for f in client.files.list(limit=3).data] == [f.id for f in others[:1:-1]]
assert list(client.files.list(purpose="vision")) == []
assert client.files.delete(others[0].id).deleted
bad, missing = openai.BadRequestError, openai.NotFoundError
for call in (client.files.retrieve, client.files.content, client.files.delete):
    fails(missing, lambda: call(others[0].id), "file_id")
    fails(missing, lambda: call("batch_x"), "file_id")
fails(bad, lambda: client.files.create(file=b"x", purpose="assistants"), "purpose")
fails(bad, lambda: client.files.list(limit=0), "limit")
fails(bad, lambda: client.files.list(after="file-none"), "after")
fails(bad, lambda: client.files.list(order="up"), "order")

batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"a": "b"},
                              output_expires_after={"anchor": "created_at", "seconds": 7200})
assert batch.status == "validating" and batch.metadata == {"a": "b"} and batch.object == "batch", batch
until = time.monotonic() + 60
while batch.status != "completed" and time.monotonic() < until:
    assert batch.status in ("validating", "in_progress", "finalizing"), batch
    time.sleep(0.02)
    batch = client.batches.retrieve(batch.id)
assert batch.request_counts.completed == batch.request_counts.total == 12, batch
output = client.files.retrieve(batch.output_file_id)
assert output.purpose == "batch_output" and output.expires_at == output.created_at + 7200, output
content = client.files.content(batch.output_file_id).read()
assert len(content) == output.bytes
rows = [json.loads(row) for row in content.splitlines()]
assert [r["custom_id"] for r in rows] == [f"r{i}" for i in range(12)]
assert rows[3]["response"]["body"]["choices"][0]["message"]["content"] == "3 + 5 = 8", rows[3]
many = client.files.create(file=("many", "\n".join(line(i) for i in range(500)).encode()), purpose="batch")  # takes a second
more = [client.batches.create(input_file_id=many.id, endpoint=CHAT, completion_window="1h") for _ in range(3)]
assert [b.id for b in client.batches.list(limit=2)][:4] == [*(b.id for b in reversed(more)), batch.id]
for b in reversed(more):
    assert client.batches.cancel(b.id).status in ("cancelling", "cancelled")
fails(bad, lambda: client.batches.cancel(batch.id), "batch_id")
fails(bad, lambda: client.batches.create(input_file_id="file-none", endpoint=CHAT, completion_window="24h"), "input_file_id")
fails(bad, lambda: client.batches.create(input_file_id=file.id, endpoint="/v1/none", completion_window="24h"), "endpoint")
fails(bad, lambda: client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="soon"), "completion_window")
fails(bad, lambda: client.batches.list(limit=101), "limit")
fails(bad, lambda: client.batches.list(after="batch_none"), "after")
for call in (client.batches.retrieve, client.batches.cancel):
    fails(missing, lambda: call("batch_none"), "batch_id")
    fails(missing, lambda: call(file.id), "batch_id")


async def asynchronous():
    a = openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0)
    one = await a.files.create(file=("a", text), purpose="batch")
    assert (await a.files.content(one.id)).read() == text
    assert [b.id async for b in a.batches.list(limit=1)][-1] == [b.id for b in client.batches.list()][-1]
asyncio.run(asynchronous())
