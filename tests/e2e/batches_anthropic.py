"""A program of the official anthropic package for batches.py: every method of message batches, with
valid and invalid arguments. Argument: url. This module contains no tests."""
import asyncio
import sys
import time

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="any", max_retries=0)
api = client.messages.batches


def fails(kind, call, type_, word=""):
    try:
        call()
    except kind as e:
        assert e.body["type"] == "error" and e.body["error"]["type"] == type_ and word in e.body["error"]["message"], e.body
        return
    raise AssertionError(f"no {kind}")


def request(i, **more):
    params = {"model": "quoth-tiny", "messages": [{"role": "user", "content": f"What is {i} + 5?"}], "max_tokens": 20, "temperature": 0}
    return {"custom_id": f"r-{i}", "params": {**params, **more}}


def wait(b):
    until = time.monotonic() + 60
    while b.processing_status != "ended" and time.monotonic() < until:
        time.sleep(0.02)
        b = api.retrieve(b.id)
    assert b.processing_status == "ended" and b.ended_at, b
    return b


first = api.create(requests=[request(i) for i in range(12)] + [request(12, max_tokens="x"), request(13, model="none")])
assert first.type == "message_batch" and first.processing_status == "in_progress" and first.results_url is None, first
assert first.request_counts.processing == 14 and first.expires_at > first.created_at and first.archived_at is None, first
first = wait(first)
n = first.request_counts
assert (n.processing, n.succeeded, n.errored, n.canceled, n.expired) == (0, 12, 2, 0, 0), n
results = list(api.results(first.id))
assert [r.custom_id for r in results] == [f"r-{i}" for i in range(14)]
assert results[3].result.type == "succeeded" and results[3].result.message.content[0].text == "3 + 5 = 8", results[3]
assert results[3].result.message.usage.output_tokens > 0 and results[3].result.message.role == "assistant"
assert results[12].result.type == "errored" and results[12].result.error.error.type == "invalid_request_error", results[12]
assert results[13].result.error.error.type == "not_found_error", results[13]

slow = api.create(requests=[request(i, max_tokens=400) for i in range(3)] +
                  [{"custom_id": f"s{i}", "params": {**request(i)["params"], "max_tokens": 500, "ignore_eos": True}} for i in range(200)])
fails(anthropic.BadRequestError, lambda: api.delete(slow.id), "invalid_request_error", "message_batch_id")
cancelled = api.cancel(slow.id)
assert cancelled.processing_status in ("canceling", "ended") and cancelled.cancel_initiated_at, cancelled
slow = wait(slow)
n = slow.request_counts
assert n.canceled > 0 and n.succeeded + n.errored + n.canceled == 203 and n.processing == n.expired == 0, n
kinds = [r.result.type for r in api.results(slow.id)]
assert len(kinds) == 203 and kinds.count("canceled") == n.canceled, kinds

more = [api.create(requests=[request(i)]) for i in range(3)]
ids = [*(b.id for b in reversed(more)), slow.id, first.id]
assert [b.id for b in api.list(limit=2)] == ids
page = api.list(limit=2, before_id=first.id)
assert [b.id for b in page.data] == ids[2:4] and page.has_more, page
assert [b.id for b in api.list(after_id=ids[1]).data] == ids[2:]
gone = wait(more[0])
assert api.delete(gone.id).type == "message_batch_deleted"
bad, missing = anthropic.BadRequestError, anthropic.NotFoundError
for call in (api.retrieve, api.cancel, api.delete, api.results):
    fails(missing, lambda: call(gone.id), "not_found_error", "message_batch_id")
    fails(missing, lambda: call("batch_none"), "not_found_error")
fails(bad, lambda: api.cancel(first.id), "invalid_request_error", "message_batch_id")
fails(bad, lambda: api.create(requests=[]), "invalid_request_error", "requests")
fails(bad, lambda: api.create(requests=[request(1), request(1)]), "invalid_request_error", "requests.1.custom_id")
fails(bad, lambda: api.create(requests=[{"custom_id": "a b", "params": {}}]), "invalid_request_error", "requests.0.custom_id")
fails(bad, lambda: api.create(requests=[{"custom_id": "a", "params": 3}]), "invalid_request_error", "requests.0.params")
fails(bad, lambda: api.list(limit=1001), "invalid_request_error", "limit")
fails(bad, lambda: api.list(after_id="msgbatch_none"), "invalid_request_error", "after_id")
fails(bad, lambda: api.list(after_id=first.id, before_id=first.id), "invalid_request_error", "before_id")


async def asynchronous():
    a = anthropic.AsyncAnthropic(base_url=sys.argv[1], api_key="any", max_retries=0)
    got = [r async for r in await a.messages.batches.results(first.id)]
    assert got == results
asyncio.run(asynchronous())
