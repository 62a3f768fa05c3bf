"""Test the official ollama package with the server at argv[1]. Run by ollama.py."""
import asyncio
import datetime
import sys

import ollama

client = ollama.Client(host=sys.argv[1])
MODEL = client.list().models[0].model
SUM = [{"role": "user", "content": "What is 47 + 38?"}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
COLD = {"temperature": 0, "num_predict": 40}


def joined(pieces):
    """Return the answer of a stream in the form of a complete answer: its text, thinking, calls and
    log probabilities, and its last piece."""
    text, thinking, calls, logs, last = "", "", [], [], None
    for last in pieces:
        at = last.message if isinstance(last, ollama.ChatResponse) else last
        text += (at.content if at is not last else at.response) or ""
        thinking += at.thinking or ""
        calls += (at.tool_calls if at is not last else None) or []
        logs += [x.token for x in last.logprobs or []]
    return text, thinking, calls, logs, last


def both(call, **more):
    """Return the complete answer, which must equal the streamed answer."""
    whole = call(**more)
    text, thinking, calls, logs, last = joined(call(stream=True, **more))
    at = whole.message if isinstance(whole, ollama.ChatResponse) else whole
    assert text == (at.content if at is not whole else at.response), (whole, text)
    assert thinking == (at.thinking or ""), (whole, thinking)
    if at is not whole:
        assert [c.function for c in calls] == [c.function for c in at.tool_calls or []], (whole, calls)
    else:
        assert whole.context == last.context, (whole, last)
    assert logs == [x.token for x in whole.logprobs or []], (whole, logs)
    for name in ("model", "done", "done_reason", "prompt_eval_count", "eval_count"):
        assert getattr(whole, name) == getattr(last, name), (name, whole, last)
    assert whole.done and last.done and whole.total_duration > 0 and whole.prompt_eval_duration > 0, whole
    datetime.datetime.fromisoformat(whole.created_at[:26])
    assert len(whole.created_at) == len("2026-01-01T00:00:00.000000000Z"), whole.created_at
    return whole


def chat(**more):
    return both(client.chat, **{"model": MODEL, "messages": SUM, "options": COLD, **more})


def generate(**more):
    return both(client.generate, **{"model": MODEL, "prompt": "What is 47 + 38?", "options": COLD, **more})


def fails(status, word, call):
    for stream in (False, True):
        try:
            got = call(stream)
            for _ in got if stream else ():
                pass
        except ollama.ResponseError as e:
            assert e.status_code == status and isinstance(e.error, str) and word in e.error, (e.status_code, e.error)
            continue
        raise AssertionError(f"no error: {word}")


# chats
assert chat().message.content == "47 + 38 = 85" and chat().done_reason == "stop"
assert chat(options={**COLD, "num_predict": 2}).done_reason == "length"
assert chat(options={**COLD, "stop": [" ="]}).message.content == "47 + 38"
assert chat(options=ollama.Options(temperature=0, num_predict=3, num_ctx=200, num_keep=4, top_k=5, min_p=0.1, repeat_penalty=1.1)).eval_count == 3
assert chat(messages=[*SUM, {"role": "assistant", "content": "47 + 38 ="}]).message.content == " 85"
assert chat(messages=[ollama.Message(role="system", content="You are kind."), ollama.Message(**SUM[0])]).message.content
thought = chat(think=True)
assert thought.message.thinking and thought.message.content is not None, thought
assert chat(messages=[*SUM, thought.message, *SUM], think="low").message.thinking
assert not chat(think=False).message.thinking
logs = chat(logprobs=True, top_logprobs=2, think=False).logprobs
assert len(logs[0].top_logprobs) == 2 and logs[0].token == "4", logs[0]
assert chat(format={"const": 7}, think=False).message.content.strip() == "7"
assert chat(format="json", think=False, options={"temperature": 1, "seed": 1, "num_predict": 10}).message.content.lstrip().startswith("{")
for seed in range(3):
    chat(messages=[{"role": "user", "content": "Tell me a story."}], options={"temperature": 1, "seed": seed, "num_predict": 30})


# tools: a function, and a round trip without ids
def get_weather(city: str) -> str:
    """Get the weather of a city

    Args:
        city: name of the city
    """
    return "sunny"


called = chat(messages=WEATHER, tools=[get_weather], think=False)
call = called.message.tool_calls[0].function
assert call.name == "get_weather" and isinstance(call.arguments["city"], str) and called.done_reason == "stop", called
for name in ({"tool_name": "get_weather"}, {}):
    answer = chat(messages=[*WEATHER, called.message, {"role": "tool", "content": "sunny", **name}], tools=[get_weather])
    assert answer.done, answer

# prompts
first = generate()
assert first.response == "47 + 38 = 85" and len(first.context) == first.prompt_eval_count + first.eval_count, first
assert first.prompt_eval_count == chat().prompt_eval_count
again = generate(prompt="And 2 + 2?", context=first.context, system="Be kind.")
assert again.context[:len(first.context)] == first.context, again
assert generate(raw=True, prompt="Once upon", options={**COLD, "num_predict": 3}).context is None
assert generate(think=True).thinking

# without a prompt
for stream in (False, True):
    for call, reason, more in ((client.chat, "load", {}), (client.generate, "load", {"keep_alive": "5m"}),
                               (client.chat, "unload", {"keep_alive": 0}), (client.generate, "unload", {"keep_alive": "0s"})):
        got = call(model=MODEL, stream=stream, **more)
        (got,) = got if stream else (got,)
        assert got.done and got.done_reason == reason, got

# embeddings
texts = client.embed(model=MODEL, input=["The cat", "Once upon a time"], dimensions=8)
assert [len(v) for v in texts.embeddings] == [8, 8] and texts.prompt_eval_count > 2 and texts.total_duration > 0
assert abs(sum(x * x for x in texts.embeddings[0]) - 1) < 1e-5
one = client.embed(model=MODEL, input="The cat").embeddings
assert len(one) == 1 and list(client.embeddings(model=MODEL, prompt="The cat").embedding) == list(one[0])
assert client.embed(model=MODEL, input=[]).embeddings == []

# models
listed, running, shown = client.list().models[0], client.ps().models[0], client.show(MODEL)
assert listed.model == running.model == "quoth-tiny:latest" and listed.modified_at.year > 2000 and running.expires_at.year > 2100
assert listed.size > 0 and listed.details.family == shown.details.family == shown.modelinfo["general.architecture"]
assert "completion" in shown.capabilities and shown.template and shown.modified_at == listed.modified_at
assert client.pull(MODEL).status == "success" and [x.status for x in client.pull(MODEL, stream=True)] == ["success"]

# errors
fails(404, "model 'nosuch' not found", lambda stream: client.chat(model="nosuch", messages=SUM, stream=stream))
fails(404, "model 'nosuch' not found", lambda stream: client.generate(model="nosuch", prompt="a", stream=stream))
fails(400, 'option "top_k" must be of type integer', lambda stream: client.chat(model=MODEL, messages=SUM, options={"top_k": "x"}, stream=stream))
fails(400, "options.temperature", lambda stream: client.generate(model=MODEL, prompt="a", options={"temperature": -1}, stream=stream))
fails(400, "the input length exceeds the context length", lambda stream: client.chat(
    model=MODEL, messages=[{"role": "user", "content": "word " * 3000}], stream=stream))
fails(400, "the input length exceeds the context length", lambda stream: client.generate(
    model=MODEL, prompt="word " * 50, options={"num_ctx": 20}, stream=stream))
fails(400, "messages[0].images: not supported", lambda stream: client.chat(
    model=MODEL, messages=[{"role": "user", "content": "a", "images": [b"abc"]}], stream=stream))
fails(400, "does not support insert", lambda stream: client.generate(model=MODEL, prompt="a", suffix="b", stream=stream))
fails(400, "raw mode does not support", lambda stream: client.generate(model=MODEL, prompt="a", system="b", raw=True, stream=stream))
fails(400, "format: ", lambda stream: client.chat(model=MODEL, messages=SUM, format={"type": "list"}, stream=stream))
fails(501, "pull: not supported by this server", lambda stream: client.pull("llama3", stream=stream))
fails(501, "push: not supported by this server", lambda stream: client.push(MODEL, stream=stream))
fails(501, "create: not supported by this server", lambda stream: client.create("a", from_=MODEL, stream=stream))
for status, call in ((404, lambda: client.show("nosuch")), (404, lambda: client.embed(model="nosuch", input="a")),
                     (404, lambda: client.embeddings(model="nosuch", prompt="a")), (404, lambda: client.delete("nosuch")),
                     (501, lambda: client.delete(MODEL)), (501, lambda: client.copy(MODEL, "b")), (404, lambda: client.copy("nosuch", "b")),
                     (400, lambda: client.embed(model=MODEL, input="a", dimensions=-1)),
                     (400, lambda: client.embed(model=MODEL, input="word " * 3000, truncate=False))):
    try:
        call()
    except ollama.ResponseError as e:
        assert e.status_code == status and e.error, e
    else:
        raise AssertionError(status)
assert client.embed(model=MODEL, input="word " * 3000).prompt_eval_count > 100  # truncated by default


async def together():
    """Return the texts of eight concurrent streams."""
    other = ollama.AsyncClient(host=sys.argv[1])

    async def one():
        return "".join([x.message.content async for x in await other.chat(model=MODEL, messages=SUM, options=COLD, stream=True)])
    return await asyncio.gather(*[one() for _ in range(8)])
assert asyncio.run(together()) == ["47 + 38 = 85"] * 8
print("ok")
