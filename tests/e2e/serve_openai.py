"""What the official openai package gets from the server at argv[1], and with keys at argv[2]. Run by serve.py."""
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0, timeout=120)
keyed = sys.argv[2] + "/v1"
TALK = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "Tell me a story."}]


def fails(kind, call, param=None, code=None):
    try:
        call()
    except kind as e:
        assert type(e) is kind, type(e)
        assert param is None or e.param == param, e.param
        assert code is None or e.code == code, e.code
        return
    raise AssertionError(f"no {kind.__name__}")


models = client.models.list()
model = models.data[0].id
assert client.models.retrieve(model).id == model

done = client.completions.create(model=model, prompt="Once upon a time", max_tokens=16, temperature=0, logprobs=2)
assert done.choices[0].finish_reason == "length" and done.usage.completion_tokens == 16
assert len(done.choices[0].logprobs.tokens) == 16 and len(done.choices[0].logprobs.top_logprobs[0]) == 2
assert "".join(done.choices[0].logprobs.tokens) == done.choices[0].text
stream = client.completions.create(model=model, prompt="Once upon a time", max_tokens=16, temperature=0, logprobs=2, stream=True)
pieces = list(stream)
assert "".join(p.choices[0].text for p in pieces) == done.choices[0].text
assert sum((p.choices[0].logprobs.token_logprobs for p in pieces), []) == done.choices[0].logprobs.token_logprobs
assert sum((p.choices[0].logprobs.text_offset for p in pieces), []) == done.choices[0].logprobs.text_offset
assert pieces[-1].choices[0].finish_reason == "length"

chat = client.chat.completions.create(model=model, messages=TALK, max_tokens=40, temperature=0, logprobs=True, top_logprobs=3)
message = chat.choices[0].message
assert message.role == "assistant" and message.content
assert len(chat.choices[0].logprobs.content) >= 1 and len(chat.choices[0].logprobs.content[0].top_logprobs) == 3
stream = client.chat.completions.create(model=model, messages=TALK, max_tokens=40, temperature=0, logprobs=True, top_logprobs=3,
                                        stream=True, stream_options={"include_usage": True})
chunks = list(stream)
assert chunks[0].choices[0].delta.role == "assistant"
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == message.content
assert chunks[-1].usage.total_tokens == chat.usage.total_tokens and not chunks[-1].choices
assert all(c.usage is None for c in chunks[:-1])
logprobs = sum((c.choices[0].logprobs.content for c in chunks if c.choices and c.choices[0].logprobs), [])
assert [p.token for p in logprobs] == [p.token for p in chat.choices[0].logprobs.content]
assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == chat.choices[0].finish_reason

stopped = client.completions.create(model=model, prompt="Once upon a time", max_tokens=64, temperature=0, stop=["."])
assert stopped.choices[0].finish_reason == "stop" and "." not in stopped.choices[0].text
several = client.chat.completions.create(model=model, messages=TALK, max_tokens=12, n=3, seed=7, temperature=1)
assert [c.index for c in several.choices] == [0, 1, 2] and len({c.message.content for c in several.choices}) > 1
again = client.chat.completions.create(model=model, messages=TALK, max_tokens=12, n=3, seed=7, temperature=1, stream=True)
texts = ["", "", ""]
for chunk in again:
    texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
assert texts == [c.message.content for c in several.choices], (texts, several)

with client.chat.completions.create(model=model, messages=TALK, max_tokens=400, stream=True) as stream:
    for chunk in stream:
        break  # and close: the server must take it well

bad = openai.BadRequestError
fails(bad, lambda: client.completions.create(model=model, prompt="a", temperature=-1), "temperature")
fails(bad, lambda: client.completions.create(model=model, prompt="word " * 5000), "prompt", "context_length_exceeded")
fails(bad, lambda: client.chat.completions.create(model=model, messages=TALK, max_tokens="x"), "max_tokens")
fails(openai.NotFoundError, lambda: client.completions.create(model="gpt-9", prompt="a"), "model", "model_not_found")
fails(openai.NotFoundError, lambda: client.models.retrieve("gpt-9"))
fails(openai.NotFoundError, lambda: client.images.generate(model=model, prompt="a"))
stranger = openai.OpenAI(base_url=keyed, api_key="sk-wrong", max_retries=0)
fails(openai.AuthenticationError, stranger.models.list, code="invalid_api_key")
assert openai.OpenAI(base_url=keyed, api_key="sk-test").models.list().data
print("all is well")
