"""Test the official anthropic package with the server at argv[1], and with the server with keys at
argv[2]. Run by messages.py."""
import asyncio
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="any", max_retries=0)
model = client.models.list().data[0].id
SUM = [{"role": "user", "content": "What is 47 + 38?"}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOL = {"name": "get_weather", "description": "Get the weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
CACHED = {"cache_control": {"type": "ephemeral"}}


def create(**more):
    extra = {k: more.pop(k) for k in ("temperature", "seed", "top_k", "min_p") if k in more}
    return client.messages.create(**{"model": model, "max_tokens": 40, "messages": SUM,
                                     "extra_body": {"temperature": 0, **extra}, **more})


def stream(**more):
    """Return the final message of a stream, and the types of its events."""
    with client.messages.stream(**{"model": model, "max_tokens": 40, "messages": SUM,
                                   "extra_body": {"temperature": 0}, **more}) as s:
        kinds = [e.type for e in s]
        return s.get_final_message(), kinds


def blocks(message):
    """Return the content without the parts that differ between requests."""
    return [(b.type, getattr(b, "text", None), getattr(b, "thinking", None), getattr(b, "signature", None),
             getattr(b, "name", None), getattr(b, "input", None)) for b in message.content]


def both(**more):
    """Return the complete answer, which must equal the streamed answer."""
    whole = create(**more)
    streamed, kinds = stream(**more)
    assert blocks(whole) == blocks(streamed), (whole, streamed)
    assert (whole.stop_reason, whole.stop_sequence) == (streamed.stop_reason, streamed.stop_sequence)
    total = [u.input_tokens + u.cache_read_input_tokens for u in (whole.usage, streamed.usage)]
    assert total[0] == total[1] and whole.usage.output_tokens == streamed.usage.output_tokens, (whole, streamed)
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds
    counted = {k: v for k, v in more.items() if k in ("system", "tools", "tool_choice", "thinking", "output_config", "messages")}
    n = client.messages.count_tokens(**{"model": model, "messages": SUM, **counted}).input_tokens
    assert n == total[0], (n, whole.usage)
    return whole


def fails(kind, call, word):
    try:
        call()
    except kind as e:
        assert type(e) is kind, type(e)
        assert e.body["type"] == "error" and word in e.body["error"]["message"], e.body
        assert e.request_id and e.request_id == e.body["request_id"], (e.request_id, e.body)
        return e
    raise AssertionError(f"no {kind.__name__}")


def refused(word, **more):
    e = fails(anthropic.BadRequestError, lambda: create(**more), word)
    assert e.body["error"]["type"] == "invalid_request_error", e.body


# text
whole = both()
assert whole.content[0].text == "47 + 38 = 85" and whole.stop_reason == "end_turn", whole
assert whole.id.startswith("msg_") and whole.role == "assistant" and whole.model == model and whole.type == "message"
assert whole._request_id, "no header request-id"
assert both(system="You are kind.").content and both(system=[{"type": "text", "text": "a", **CACHED}, {"type": "text", "text": "b"}]).content
assert both(max_tokens=2).stop_reason == "max_tokens"
stopped = both(stop_sequences=["zzz", " ="])
assert (stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text) == ("stop_sequence", " =", "47 + 38"), stopped
assert both(messages=SUM + [{"role": "assistant", "content": "47 + 38 ="}]).content[0].text == " 85"
assert create(metadata={"user_id": "u"}, service_tier="auto", seed=3, top_k=1, min_p=0.1).content
for seed in range(3):
    both(messages=[{"role": "user", "content": "Tell me a story."}], extra_body={"temperature": 1, "seed": seed})

# cached tokens
long = [{"role": "user", "content": [{"type": "text", "text": "one two three " * 80, **CACHED}]}]
first, again = create(messages=long, max_tokens=1).usage, create(messages=long, max_tokens=1).usage
assert again.cache_read_input_tokens > 0 and again.cache_creation_input_tokens == 0, again
assert again.input_tokens + again.cache_read_input_tokens == first.input_tokens + first.cache_read_input_tokens

# tools: free, forced, with their results
for choice in ({"type": "auto"}, {"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "get_weather"}):
    called = both(messages=WEATHER, tools=[{**TOOL, **CACHED}], tool_choice=choice)
    call = called.content[-1]
    assert called.stop_reason == "tool_use" and call.type == "tool_use" and call.name == "get_weather", called
    assert isinstance(call.input["city"], str) and call.id.startswith("toolu_"), call
    for content in ('{"weather": "sunny", "temperature": 21}', [{"type": "text", "text": "sunny", **CACHED}]):
        result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
        answer = both(messages=[*WEATHER, {"role": "assistant", "content": called.content},
                                {"role": "user", "content": [result, {"type": "text", "text": "Well?"}]}], tools=[TOOL])
        assert answer.stop_reason in ("end_turn", "tool_use", "max_tokens"), answer
none = both(messages=WEATHER, tools=[TOOL], tool_choice={"type": "none"})
assert all(b.type == "text" for b in none.content), none
strict = both(messages=WEATHER, tools=[{**TOOL, "strict": True}])
assert strict.content, strict

# thinking, whose blocks the client may send back
thought = both(thinking={"type": "enabled", "budget_tokens": 6}, max_tokens=60)
assert thought.content[0].type == "thinking" and thought.content[0].thinking and thought.content[0].signature, thought
assert both(thinking={"type": "enabled", "budget_tokens": 6, "display": "omitted"}, max_tokens=60).content[0].thinking == ""
assert both(thinking={"type": "disabled"}).content[0].type == "text"
assert both(thinking={"type": "adaptive"}, max_tokens=60).content[0].type == "thinking"
both(messages=[*SUM, {"role": "assistant", "content": thought.content}, {"role": "user", "content": "Again."}])

# structured output
shaped = both(thinking={"type": "disabled"}, output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"const": 7}}})
assert shaped.content[-1].text.strip() == "7" and shaped.stop_reason == "end_turn", shaped

# a request of Claude Code: several system texts, tools with cache_control, betas, an edit of
# thinking
agent = dict(
    system=[{"type": "text", "text": "You are a tool of the command line."}, {"type": "text", "text": "Be brief.", **CACHED}],
    messages=[{"role": "user", "content": [{"type": "text", "text": "<system-reminder>none</system-reminder>"},
                                           {"type": "text", "text": "What is the weather in Paris?", **CACHED}]}],
    tools=[TOOL, {**TOOL, "name": "other", "eager_input_streaming": True, **CACHED}], max_tokens=60,
    metadata={"user_id": "user_1_account__session_2"}, betas=["interleaved-thinking-2025-05-14", "context-management-2025-06-27"],
    context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, extra_body={"temperature": 0})
got = client.beta.messages.create(model=model, **agent)
with client.beta.messages.stream(model=model, **agent) as s:
    assert blocks(s.get_final_message()) == blocks(got)
assert got.content[-1].type == "tool_use" and got.stop_reason == "tool_use", got
counted = {k: agent[k] for k in ("system", "messages", "tools", "betas", "context_management")}
assert client.beta.messages.count_tokens(model=model, **counted).input_tokens == \
    got.usage.input_tokens + got.usage.cache_read_input_tokens


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    asked.append(city)
    return "Sunny."


for streamed in (False, True):
    asked = []
    runner = client.beta.messages.tool_runner(model=model, max_tokens=60, messages=WEATHER, tools=[get_weather], stream=streamed,
                                              extra_body={"temperature": 0})
    turns = [turn.get_final_message() if streamed else turn for turn in runner]
    assert asked == ["Paris"] and [t.stop_reason for t in turns] == ["tool_use", "end_turn"], (asked, turns)

fails(anthropic.BadRequestError, lambda: client.beta.files.list(), "Anthropic's files")


async def together():
    """Return the texts of eight concurrent streams."""
    other = anthropic.AsyncAnthropic(base_url=sys.argv[1], api_key="any", max_retries=0)

    async def one():
        async with other.messages.stream(model=model, max_tokens=40, messages=SUM, extra_body={"temperature": 0}) as s:
            return "".join([t async for t in s.text_stream])
    return await asyncio.gather(*[one() for _ in range(8)])
assert asyncio.run(together()) == [whole.content[0].text] * 8

# models
listed = client.models.list()
assert [m.id for m in listed] == [model] and listed.has_more is False and listed.data[0].created_at.year > 2000
assert client.models.retrieve(model).display_name == model
fails(anthropic.NotFoundError, lambda: client.models.retrieve("nosuch"), "model")
fails(anthropic.BadRequestError, lambda: client.models.list(after_id="nosuch"), "after_id")
fails(anthropic.BadRequestError, lambda: client.models.list(limit=0), "limit")

# errors
refused("messages", messages=[])
refused("messages[0].content[0].type", messages=[{"role": "user", "content": [
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]}])
refused("messages[0].content[0].type", messages=[{"role": "user", "content": [
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}]}])
refused("tools[0].type", tools=[{"type": "web_search_20250305", "name": "web_search"}])
refused("tool_choice", tool_choice={"type": "any"})
refused("thinking.budget_tokens", thinking={"type": "enabled", "budget_tokens": -1})
refused("stop_sequences[0]", stop_sequences=[""])
refused("output_config.format.schema", output_config={"format": {"type": "json_schema", "schema": {"type": "list"}}})
refused("temperature", temperature=-1)
refused("container", container="c")
refused("prompt is too long: ", messages=[{"role": "user", "content": "word " * 3000}])
assert client.messages.count_tokens(model=model, messages=[{"role": "user", "content": "word " * 3000}]).input_tokens > 3000
fails(anthropic.BadRequestError, lambda: client.messages.count_tokens(model=model, messages=[]), "messages")
fails(anthropic.NotFoundError, lambda: create(model="nosuch"), "model")
fails(anthropic.NotFoundError, lambda: client.get("/v1/nosuch", cast_to=object), "not found")
fails(anthropic.BadRequestError, lambda: stream(messages=[]), "messages")

# keys
url = sys.argv[2]
for key in ({"api_key": "sk-one"}, {"auth_token": "sk-one", "api_key": None}):
    keyed = anthropic.Anthropic(base_url=url, max_retries=0, **key)
    assert keyed.messages.create(model=model, max_tokens=4, messages=SUM).content
unknown = anthropic.Anthropic(base_url=url, max_retries=0, api_key="sk-nosuch")
for call in (lambda: unknown.messages.create(model=model, max_tokens=4, messages=SUM), unknown.models.list,
             lambda: unknown.messages.count_tokens(model=model, messages=SUM)):
    assert fails(anthropic.AuthenticationError, call, "API key").body["error"]["type"] == "authentication_error"
slow = anthropic.Anthropic(base_url=url, max_retries=0, api_key="sk-slow")
slow.messages.create(model=model, max_tokens=4, messages=SUM)
e = fails(anthropic.RateLimitError, lambda: slow.messages.create(model=model, max_tokens=4, messages=SUM), "requests a minute")
assert e.body["error"]["type"] == "rate_limit_error" and int(e.response.headers["retry-after"]) > 0
print("ok")
