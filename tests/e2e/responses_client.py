"""Test the Responses API of the official openai package with the server at argv[1], and with the
server with keys at argv[2]. Run by responses.py."""
import asyncio
import json
import random
import sys
import time

import openai
from pydantic import BaseModel

from openapi import http_client

http, schemas = http_client()
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0, http_client=http)
model = client.models.list().data[0].id
SUM = "What is 47 + 38?"
TOOL = {"type": "function", "name": "get_weather", "description": "Get the weather of a city", "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}}
CUSTOM = {"type": "custom", "name": "count", "format": {"type": "grammar", "syntax": "regex", "definition": "[ab]{3,9}"}}


def create(**more):
    return client.responses.create(**{"model": model, "max_output_tokens": 40, "input": SUM, "temperature": 0, **more})


def items(response):
    """Return the output without the parts that differ between requests."""
    return [{k: v for k, v in i.to_dict().items() if k not in ("id", "call_id")} for i in response.output]


def stream(**more):
    """Return the final response of a stream of the client's helper, and the types of its events."""
    with client.responses.stream(**{"model": model, "max_output_tokens": 40, "input": SUM, "temperature": 0, **more}) as s:
        kinds = [e.type for e in s]
        return s.get_final_response(), kinds


def both(**more):
    """Return the complete response, which must equal the streamed response."""
    whole = create(**more)
    streamed, kinds = stream(**more)
    strip = [[{k: v for k, v in i.items() if k != "parsed_arguments"} for i in items(r)] for r in (whole, streamed)]
    for i in strip[1]:
        for part in i.get("content") or []:
            part.pop("parsed", None)
    assert strip[0] == strip[1], strip
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    counted = {k: v for k, v in more.items() if k in ("instructions", "tools", "tool_choice", "input", "text")}
    n = client.responses.input_tokens.count(**{"model": model, "input": SUM, **counted}).input_tokens
    assert n == whole.usage.input_tokens, (n, whole.usage)
    return whole


def fails(kind, call, param=None, word=""):
    try:
        call()
    except kind as e:
        assert type(e) is kind and e.param == param and word in e.message, (type(e), e.param, e.message)
        return e
    raise AssertionError(f"no {kind.__name__}")


def texts():
    r = both()
    assert r.output_text == "47 + 38 = 85" and r.status == "completed" and r.object == "response" and r.id.startswith("resp_")
    assert r.output[0].id.startswith("msg_") and r.error is None and r.temperature == 0 and r.tools == []
    assert both(instructions="Be brief.").instructions == "Be brief."
    assert both(input=[{"role": "user", "content": [{"type": "input_text", "text": SUM}]}]).output_text == r.output_text
    cut = create(max_output_tokens=2)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    assert create(extra_body={"stop": [" "]}).output_text == "47"
    r = create(metadata={"a": "b"}, user="u", top_p=0.5, truncation="auto", service_tier="auto", prompt_cache_key="k",
               safety_identifier="s", parallel_tool_calls=False, max_tool_calls=3, stream_options=None)
    assert r.metadata == {"a": "b"} and r.user == "u" and r.top_p == 0.5 and r.truncation == "auto" and r.max_tool_calls == 3


def logprobs():
    r = both(include=["message.output_text.logprobs"], top_logprobs=2)
    tokens = r.output[0].content[0].logprobs
    assert "".join(t.token for t in tokens) == r.output_text and all(len(t.top_logprobs) == 2 for t in tokens), tokens
    assert r.top_logprobs == 2


def formats():
    class Sum(BaseModel):
        a: int
        b: int

    r = client.responses.parse(model=model, input=SUM, text_format=Sum, max_output_tokens=60, temperature=0)
    assert isinstance(r.output_parsed, Sum), r
    assert create(text={"format": {"type": "json_object"}}).output_text.lstrip().startswith("{")
    r = both(text={"format": {"type": "json_schema", "name": "n", "schema": {"const": 7}}, "verbosity": "low"})
    assert r.output_text == "7" and r.text.format.name == "n" and r.text.verbosity == "low"


def tools():
    r = both(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, input="The weather in Paris?", max_output_tokens=80)
    call = r.output[0]
    assert call.type == "function_call" and json.loads(call.arguments)["city"] in ("Paris", "Rome") and call.id.startswith("fc_")
    assert call.call_id.startswith("call_") and r.tools[0].strict and r.tool_choice == "required"
    talk = [{"role": "user", "content": "The weather in Paris?"}, *(i.to_dict() for i in r.output),
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    assert both(input=talk, tools=[TOOL], tool_choice="none").output_text
    r = both(tools=[CUSTOM], tool_choice={"type": "custom", "name": "count"}, max_output_tokens=80)
    call = r.output[0]
    assert call.type == "custom_tool_call" and set(call.input) <= {"a", "b"} and call.id.startswith("ctc_"), call
    talk = [{"role": "user", "content": SUM}, *(i.to_dict() for i in r.output),
            {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "5"}]
    assert both(input=talk, tools=[CUSTOM], tool_choice="none").output_text
    both(tools=[TOOL, CUSTOM], max_output_tokens=80,
         tool_choice={"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]})


def reasoning():
    think = {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 6}}
    r = create(reasoning={"effort": "low", "summary": "auto"}, include=["reasoning.encrypted_content"], max_output_tokens=80, **think)
    assert r.output[0].type == "reasoning" and r.output[0].content[0].text and r.output[0].id.startswith("rs_"), r
    assert r.usage.output_tokens_details.reasoning_tokens >= 6 and r.reasoning.effort == "low"
    sealed = {"type": "reasoning", "id": r.output[0].id, "summary": [], "encrypted_content": r.output[0].encrypted_content}
    user = {"role": "user", "content": SUM}
    counts = [client.responses.input_tokens.count(model=model, input=[user, item, *(i.to_dict() for i in r.output[1:]), user])
              for item in (sealed, r.output[0].to_dict())]
    assert counts[0].input_tokens == counts[1].input_tokens, counts
    streamed, kinds = stream(reasoning={"effort": "low"}, max_output_tokens=80, **think)
    assert "response.reasoning_text.delta" in kinds and streamed.output[0].content[0].text == r.output[0].content[0].text


def stored():
    missing = openai.NotFoundError
    one = create(instructions="Be brief.", metadata={"a": "b"})
    assert one.store and client.responses.retrieve(one.id) == one
    two = create(input="And 1 + 2?", previous_response_id=one.id)
    three = create(input=[{"role": "user", "content": "Thanks"}, {"type": "item_reference", "id": two.output[0].id}], previous_response_id=two.id)
    assert (two.previous_response_id, two.instructions) == (one.id, None)
    for r in (two, three):
        assert client.responses.retrieve(r.id) == r
    whole = [{"role": "user", "content": SUM}, one.output[0].to_dict(), {"role": "user", "content": "And 1 + 2?"}]
    n = client.responses.input_tokens.count(model=model, input=whole).input_tokens
    assert n == two.usage.input_tokens == client.responses.input_tokens.count(
        model=model, input="And 1 + 2?", previous_response_id=one.id).input_tokens
    assert create(input=whole).output_text == two.output_text
    listed = list(client.responses.input_items.list(three.id, order="asc", limit=2))
    assert [i.role for i in listed] == ["user", "assistant", "user", "assistant", "user", "assistant"], listed
    assert listed[1].id == one.output[0].id and listed[3].id == listed[5].id == two.output[0].id
    assert [i.id for i in client.responses.input_items.list(two.id)] == [i.id for i in listed[2::-1]]
    assert listed[0].content[0].text == SUM and len({i.id for i in listed}) == 5
    streamed, _ = stream(input="And 1 + 2?", previous_response_id=one.id)
    assert streamed.output_text == two.output_text and client.responses.retrieve(streamed.id).output_text == two.output_text
    assert client.responses.delete(one.id) is None
    for call in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        fails(missing, lambda: call(one.id), "response_id", "not found")
    fails(missing, lambda: create(previous_response_id=one.id), "previous_response_id", "not found")
    fails(missing, lambda: create(input=[{"type": "item_reference", "id": one.output[0].id}]), "input", "input[0].id")
    assert client.responses.retrieve(two.id) == two, "a later response keeps its own input"
    gone = create(store=False)
    assert not gone.store
    fails(missing, lambda: client.responses.retrieve(gone.id), "response_id")
    fails(missing, lambda: create(previous_response_id=gone.id), "previous_response_id")
    bad = openai.BadRequestError
    fails(bad, lambda: client.responses.input_items.list(two.id, limit=101), "limit")
    fails(bad, lambda: client.responses.input_items.list(two.id, after="msg_none"), "after")
    fails(bad, lambda: client.responses.input_items.list(two.id, order="up"), "order")
    tool = create(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, input="The weather in Paris?", max_output_tokens=80)
    after = create(previous_response_id=tool.id, tools=[TOOL], tool_choice="none",
                   input=[{"type": "function_call_output", "call_id": tool.output[0].call_id, "output": "sunny"}])
    listed = list(client.responses.input_items.list(after.id, order="asc"))
    assert [i.type for i in listed] == ["message", "function_call", "function_call_output"], listed
    assert listed[1].call_id == listed[2].call_id == tool.output[0].call_id


def finished(response):
    while response.status in ("queued", "in_progress"):
        time.sleep(0.02)
        response = client.responses.retrieve(response.id)
    return response


def background():
    bad, missing = openai.BadRequestError, openai.NotFoundError
    long = {"input": "Tell me a story.", "background": True, "max_output_tokens": 3000, "extra_body": {"ignore_eos": True}}
    r = create(background=True)
    assert r.background and r.status in ("queued", "in_progress") and r.output == [], r
    done = finished(r)
    assert done.status == "completed" and done.output_text == "47 + 38 = 85" and done.background
    assert [i.role for i in client.responses.input_items.list(r.id)] == ["user"]
    assert create(input="And 1 + 2?", previous_response_id=r.id).previous_response_id == r.id
    fails(bad, lambda: client.responses.retrieve(r.id, stream=True), "stream")
    assert client.responses.cancel(r.id).status == "completed", "a complete response stays complete"
    r = create(**long)
    assert client.responses.input_items.list(r.id).data[0].content[0].text == long["input"]
    cut = client.responses.cancel(r.id)
    assert cut.status == "cancelled" and cut == client.responses.retrieve(r.id) == client.responses.cancel(r.id), cut
    r = create(**long)
    client.responses.delete(r.id)
    fails(missing, lambda: client.responses.retrieve(r.id), "response_id")
    fails(missing, lambda: client.responses.cancel(r.id), "response_id")
    fails(bad, lambda: client.responses.cancel(create().id), "response_id", "background")
    fails(bad, lambda: create(background=True, store=False), "background", "store")
    failed = finished(create(background=True, extra_body={"allowed_token_ids": [5], "structured_outputs": {"regex": "zzz"}}))
    assert failed.status == "failed" and failed.error.code == "invalid_prompt" and failed.error.message, failed


def resumed():
    """a stream in the background continues after an interruption at any event"""
    random.seed(7)
    whole = create(background=True, stream=True, input="Tell me a story.", max_output_tokens=200)
    events = [e.to_dict() for e in whole]
    kinds = [e["type"].removeprefix("response.") for e in events]
    assert kinds[:3] == ["created", "queued", "in_progress"] and kinds[-1] in ("completed", "incomplete"), kinds
    id = events[0]["response"]["id"]
    assert client.responses.retrieve(id).to_dict() == events[-1]["response"]
    for n in sorted(random.sample(range(len(events)), min(20, len(events)))):
        rest = [e.to_dict() for e in client.responses.retrieve(id, stream=True, starting_after=n)]
        assert rest == events[n + 1:], n
    assert [e.to_dict() for e in client.responses.retrieve(id, stream=True)] == events
    for _ in range(6):  # interrupt the stream while the response is generated
        cut = create(background=True, stream=True, input="Tell me a story.", max_output_tokens=800, extra_body={"ignore_eos": True})
        first = []
        stop = random.randrange(1, 12)
        for e in cut:
            first.append(e.to_dict())
            if len(first) == stop:
                break
        cut.close()
        id = first[0]["response"]["id"]
        rest = [e.to_dict() for e in client.responses.retrieve(id, stream=True, starting_after=len(first) - 1)]
        assert [e["sequence_number"] for e in first + rest] == list(range(len(first + rest)))
        text = "".join(e.get("delta", "") for e in first + rest)
        final = client.responses.retrieve(id)
        parts = [p.text if i.type in ("message", "reasoning") else "" for i in final.output for p in (i.content or [])]
        assert text == "".join(parts) and final.to_dict() == rest[-1]["response"], (text, final)
    fails(openai.BadRequestError, lambda: client.responses.retrieve(id, stream=True, starting_after=-1), "starting_after")
    with client.responses.stream(response_id=id, starting_after=3) as s:
        assert [e.sequence_number for e in s][0] == 4


def conversations():
    api, missing, bad = client.conversations, openai.NotFoundError, openai.BadRequestError
    c = api.create(metadata={"a": "b"}, items=[{"role": "user", "content": SUM}])
    assert c.id.startswith("conv_") and c.object == "conversation" and c.metadata == {"a": "b"} and api.retrieve(c.id) == c
    assert api.update(c.id, metadata={"c": "d"}).metadata == {"c": "d"} == api.retrieve(c.id).metadata
    assert api.update(c.id, metadata=None).metadata == {} == api.retrieve(c.id).metadata
    fails(bad, lambda: api.update(c.id, metadata={"a": 1}), "metadata")
    added = api.items.create(c.id, items=[{"role": "assistant", "content": "47 + 38 = 85"}, {"role": "user", "content": "Thanks"}])
    assert [i.role for i in added.data] == ["assistant", "user"] and not added.has_more
    assert api.items.delete(added.data[1].id, conversation_id=c.id).id == c.id
    assert api.items.retrieve(added.data[0].id, conversation_id=c.id) == added.data[0]
    fails(missing, lambda: api.items.retrieve(added.data[1].id, conversation_id=c.id), "item_id")
    whole = [{"role": "user", "content": SUM}, {"role": "assistant", "content": "47 + 38 = 85"}, {"role": "user", "content": "And 1 + 2?"}]
    want = create(input=whole)
    r = create(input="And 1 + 2?", conversation=c.id)
    assert r.output_text == want.output_text and r.usage.input_tokens == want.usage.input_tokens and r.conversation.id == c.id
    listed = list(api.items.list(c.id, order="asc", limit=2))
    assert [i.role for i in listed] == ["user", "assistant", "user", "assistant"] and listed[3].id == r.output[0].id, listed
    s, _ = stream(input="And 3 + 4?", conversation={"id": c.id})
    b = finished(create(input="And 5 + 6?", conversation=c.id, background=True))
    listed = list(api.items.list(c.id, order="asc"))
    assert [i.id for i in listed[5:]] == [s.output[0].id, listed[6].id, b.output[0].id] and len({i.id for i in listed}) == 8
    n = client.responses.input_tokens.count(model=model, input="And 5 + 6?", conversation=c.id).input_tokens
    assert n > b.usage.input_tokens and len(list(api.items.list(c.id))) == 8
    fails(bad, lambda: create(conversation=c.id, previous_response_id=r.id), "conversation")
    fails(bad, lambda: api.items.create(c.id, items=[]), "items")
    fails(bad, lambda: api.create(items=[{"type": "web_search_call"}]), "items", "items[0].type")
    fails(bad, lambda: api.create(metadata={"a": 1}), "metadata")
    other = openai.OpenAI(base_url=sys.argv[2] + "/v1", api_key="sk-two", max_retries=0, http_client=http).conversations
    mine = openai.OpenAI(base_url=sys.argv[2] + "/v1", api_key="sk-one", max_retries=0, http_client=http).conversations.create()
    for i in (mine.id, r.id, "conv_", "conv_x/y"):
        for call in (other.retrieve, other.delete, other.items.list):
            fails(missing, lambda: call(i), "conversation_id")
    fails(missing, lambda: create(conversation="conv_1"), "conversation")
    fails(missing, lambda: create(conversation=r.id), "conversation")
    for call in (client.responses.retrieve, client.responses.delete, client.responses.cancel, client.responses.input_items.list):
        fails(missing, lambda: call(c.id), "response_id")
    fails(missing, lambda: create(previous_response_id=c.id), "previous_response_id")
    assert api.delete(c.id).deleted
    fails(missing, lambda: api.retrieve(c.id), "conversation_id")
    assert client.responses.retrieve(r.id).output == r.output


def owners():
    """a key cannot read another key's records, by known, guessed or permuted ids"""
    a, b = (openai.OpenAI(base_url=sys.argv[2] + "/v1", api_key=k, max_retries=0, http_client=http) for k in ("sk-one", "sk-two"))
    r = a.responses.create(model=model, input=SUM, temperature=0)
    assert a.responses.retrieve(r.id) == r
    random.seed(5)
    hexes = r.id[5:]
    guesses = ["resp_" + "".join(random.sample(hexes, len(hexes))) for _ in range(20)]
    guesses += ["resp_" + hexes[:i] + ("0" if hexes[i] != "0" else "1") + hexes[i + 1:] for i in range(32)]
    guesses += [r.id.upper(), r.id[:-1], r.id + "0", hexes, "resp_", "%2e%2e", "a/b", r.output[0].id]
    for who, ids in ((a, guesses), (b, [r.id, *guesses])):
        for i in ids:
            for call in (who.responses.retrieve, who.responses.input_items.list, who.responses.delete):
                try:
                    call(i)
                except openai.NotFoundError:
                    continue
                raise AssertionError(i)
    fails(openai.NotFoundError, lambda: b.responses.create(model=model, input="a", previous_response_id=r.id), "previous_response_id")
    reference = [{"type": "item_reference", "id": r.output[0].id}]
    fails(openai.NotFoundError, lambda: b.responses.create(model=model, input=reference), "input")
    assert a.responses.create(model=model, input=reference).output is not None
    assert a.responses.retrieve(r.id) == r


def errors():
    bad = openai.BadRequestError
    fails(bad, lambda: create(input=3), "input")
    fails(bad, lambda: create(tools=[{"type": "web_search"}]), "tools", "web_search")
    fails(bad, lambda: create(tools=[{"type": "code_interpreter", "container": {"type": "auto"}}]), "tools", "code_interpreter")
    fails(bad, lambda: create(input=[{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]), "input", "input_image")
    fails(bad, lambda: create(text={"format": {"type": "x"}}), "text")
    fails(bad, lambda: create(reasoning={"effort": "x"}), "reasoning")
    fails(bad, lambda: create(max_output_tokens=0), "max_output_tokens")
    fails(bad, lambda: create(extra_body={"max_tokens": 3}), "max_tokens")
    fails(bad, lambda: create(tools=[TOOL], tool_choice={"type": "function", "name": "no"}), "tool_choice")
    fails(bad, lambda: client.responses.input_tokens.count(model=model, input=[]), "input")
    fails(openai.NotFoundError, lambda: create(model="gpt-9"), "model")
    keyed = openai.OpenAI(base_url=sys.argv[2] + "/v1", api_key="wrong", max_retries=0, http_client=http)
    fails(openai.AuthenticationError, lambda: keyed.responses.create(model=model, input="a"))


def asynchronous():
    async def go():
        a = openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0)
        got = await asyncio.gather(*(a.responses.create(model=model, input=SUM, temperature=0) for _ in range(4)))
        assert {r.output_text for r in got} == {"47 + 38 = 85"} and len({r.id for r in got}) == 4
        s = await a.responses.create(model=model, input=SUM, temperature=0, stream=True)
        events = [e async for e in s]
        assert [e.sequence_number for e in events] == list(range(len(events)))
    asyncio.run(go())


for test in (texts, logprobs, formats, tools, reasoning, stored, background, resumed, conversations, owners, errors, asynchronous):
    test()
if schemas:
    assert schemas.n["ResponseStreamEvent"] > 100 and schemas.n["Response"] > 10, schemas.n
    print(f"{sum(schemas.n.values())} answers and events validated")
else:
    print("answers not validated: no description of the API")
