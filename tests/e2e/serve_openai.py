"""Test the official openai package with the server at argv[1], and with the server with keys at
argv[2]. Every answer is validated against OpenAI's API description if that is present. Run by
serve.py."""
import array
import json
import math
import re
import sys
import threading

import openai

from openapi import http_client

http, schemas = http_client()
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0, http_client=http)
TALK = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "Tell me a story."}]
ONCE = "Once upon a time"
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
model = client.models.list().data[0].id


def complete(**more):
    return client.completions.create(**{"model": model, "prompt": ONCE, "max_tokens": 16, "temperature": 0, **more})


def chat(**more):
    return client.chat.completions.create(**{"model": model, "messages": TALK, "max_tokens": 24, "temperature": 0, **more})


def embed(**more):
    return client.embeddings.create(**{"model": model, "input": ONCE, **more})


def extra(call, **fields):
    """Call a method with fields that it does not have."""
    return call(extra_body=fields)


def fails(kind, call, param=None, code=None, status=None):
    try:
        call()
    except kind as e:
        assert type(e) is kind, type(e)
        assert param is None or e.param == param, (param, e.param, e.message)
        assert code is None or e.code == code, (code, e.code)
        assert status is None or e.status_code == status, e.status_code
        return e
    raise AssertionError(f"no {kind.__name__}")


def refused(call, param):
    e = fails(openai.BadRequestError, call, param)
    assert e.type == "invalid_request_error" and param in e.message, e.message


def text(answer):
    return answer.choices[0].text


def said(answer):
    return answer.choices[0].message.content


def models():
    assert client.models.retrieve(model).id == model
    assert client.models.list().object == "list"


def completions():
    done = complete(logprobs=2)
    assert done.choices[0].finish_reason == "length" and done.usage.completion_tokens == 16
    assert done.id.startswith("cmpl-") and done.object == "text_completion" and done.system_fingerprint
    logprobs = done.choices[0].logprobs
    assert len(logprobs.tokens) == 16 and len(logprobs.top_logprobs[0]) == 2
    assert "".join(logprobs.tokens) == text(done)
    pieces = list(complete(logprobs=2, stream=True))
    assert "".join(text(p) for p in pieces) == text(done)
    assert sum((p.choices[0].logprobs.token_logprobs for p in pieces), []) == logprobs.token_logprobs
    assert sum((p.choices[0].logprobs.text_offset for p in pieces), []) == logprobs.text_offset
    assert pieces[-1].choices[0].finish_reason == "length"
    stopped = complete(max_tokens=64, stop=["."])
    assert stopped.choices[0].finish_reason == "stop" and "." not in text(stopped)
    ids = complete(prompt=[5, 6, 7], max_tokens=4)
    assert ids.usage.prompt_tokens == 3 and ids.usage.completion_tokens == 4
    two = complete(prompt=[ONCE, "The"], n=2, max_tokens=4)
    assert [c.index for c in two.choices] == [0, 1, 2, 3] and two.choices[0].text == two.choices[1].text
    lists = complete(prompt=[[5, 6, 7], [8, 9]], max_tokens=4, stream=True, stream_options={"include_usage": True})
    lists = list(lists)
    assert {c.choices[0].index for c in lists[:-1]} == {0, 1} and lists[-1].usage.total_tokens == 13
    best = complete(best_of=3, n=1, temperature=1, seed=3)
    assert best.usage.completion_tokens == 16 and len(best.choices) == 1
    complete(suffix="")
    refused(lambda: complete(suffix="the end"), "suffix")


def echo():
    plain, echoed = complete(logprobs=1), complete(logprobs=1, echo=True)
    assert text(echoed) == ONCE + text(plain)
    a, b = echoed.choices[0].logprobs, plain.choices[0].logprobs
    n = plain.usage.prompt_tokens
    assert "".join(a.tokens) == text(echoed) and a.token_logprobs[0] is None and a.top_logprobs[0] is None
    assert len(a.tokens) == n + 16 and a.token_logprobs[n:] == b.token_logprobs and a.top_logprobs[n:] == b.top_logprobs
    assert all(p < 0 for p in a.token_logprobs[1:n]) and a.text_offset[n:] == [len(ONCE) + i for i in b.text_offset]
    pieces = list(complete(logprobs=1, echo=True, stream=True))
    assert "".join(text(p) for p in pieces) == text(echoed)
    for field in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert sum((getattr(p.choices[0].logprobs, field) for p in pieces), []) == getattr(a, field), field
    scored = complete(logprobs=1, echo=True, max_tokens=0)  # requests of evaluation harnesses
    assert text(scored) == ONCE and scored.choices[0].logprobs.token_logprobs == a.token_logprobs[:n]
    assert text(complete(echo=True)) == text(echoed)


def sampling():
    """each parameter changes the intended answers, and no other answers"""
    whole = text(complete(max_tokens=40))
    first = client.completions.create(model=model, prompt=ONCE, max_tokens=40, temperature=1, seed=1)
    assert text(first) == text(complete(max_tokens=40, temperature=1, seed=1)) != whole
    assert text(first) != text(complete(max_tokens=40, temperature=1, seed=2))
    assert text(complete(max_tokens=40, temperature=1, top_p=1e-6, seed=1)) == whole
    for name, value in (("top_k", 1), ("min_p", 1.0), ("typical_p", 1e-6), ("top_n_sigma", 1e-6)):
        got = complete(max_tokens=40, temperature=1, seed=1, extra_body={name: value})
        assert name == "typical_p" or text(got) == whole, name
    for name, value in (("presence_penalty", 2.0), ("frequency_penalty", 2.0)):
        assert text(complete(max_tokens=60, **{name: value})) != text(complete(max_tokens=60)), name
    assert text(extra(complete, max_tokens=60, repetition_penalty=1.8)) != text(complete(max_tokens=60))
    ids = extra(complete, return_token_ids=True, max_tokens=40).choices[0].token_ids
    assert ids and extra(complete, return_token_ids=True, max_tokens=40, min_tokens=1).choices[0].token_ids == ids
    banned = complete(max_tokens=40, logit_bias={str(ids[0]): -100}, extra_body={"return_token_ids": True})
    assert ids[0] not in banned.choices[0].token_ids
    only = extra(complete, allowed_token_ids=ids[:3], return_token_ids=True, ignore_eos=True)
    assert set(only.choices[0].token_ids) <= set(ids[:3]) and len(only.choices[0].token_ids) == 16
    stop = extra(complete, stop_token_ids=[ids[4]], return_token_ids=True)
    assert stop.choices[0].finish_reason == "stop" and stop.choices[0].stop_reason == ids[4]
    assert stop.choices[0].token_ids == ids[:ids.index(ids[4]) + 1]
    word = whole.split()[2]
    assert word not in text(extra(complete, bad_words=[word])).split()[:3]
    kept = complete(max_tokens=64, stop=["."], extra_body={"include_stop_str_in_output": True})
    assert text(kept).endswith(".") and kept.choices[0].stop_reason == "."
    beams = extra(complete, use_beam_search=True, n=2, length_penalty=1.0)
    assert len(beams.choices) == 2 and beams.choices[0].text != beams.choices[1].text


def chats():
    whole = chat(logprobs=True, top_logprobs=3)
    message = whole.choices[0].message
    assert message.role == "assistant" and message.content and message.refusal is None
    assert whole.id.startswith("chatcmpl-") and whole.system_fingerprint
    logprobs = whole.choices[0].logprobs.content
    assert len(logprobs) >= 1 and len(logprobs[0].top_logprobs) == 3
    chunks = list(chat(logprobs=True, top_logprobs=3, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == message.content
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens and not chunks[-1].choices
    assert all(c.usage is None for c in chunks[:-1])
    again = sum((c.choices[0].logprobs.content for c in chunks if c.choices and c.choices[0].logprobs), [])
    assert [p.token for p in again] == [p.token for p in logprobs]
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert said(chat(max_tokens=openai.NOT_GIVEN, max_completion_tokens=24)) == message.content
    parts = [{"role": "user", "content": [{"type": "text", "text": "Tell me a story."}]}]
    assert said(chat(messages=parts)) == said(chat(messages=TALK[1:]))
    assert said(chat(messages=[{**TALK[0], "role": "developer"}, TALK[1]])) == message.content
    refused(lambda: chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]), "messages")
    several = chat(n=3, seed=7, temperature=1, max_tokens=12)
    assert [c.index for c in several.choices] == [0, 1, 2] and len({c.message.content for c in several.choices}) > 1
    texts = ["", "", ""]
    for chunk in chat(n=3, seed=7, temperature=1, max_tokens=12, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [c.message.content for c in several.choices], (texts, several)
    with chat(max_tokens=400, stream=True) as stream:
        for chunk in stream:
            break  # closes the connection, which the server must detect
    chat(user="me", service_tier="auto", metadata={"a": "b"}, store=False, reasoning_effort="low", modalities=["text"],
         response_format={"type": "text"}, parallel_tool_calls=False, tools=[TOOL], tool_choice="none",
         safety_identifier="x", prompt_cache_key="y", verbosity="low", prediction={"type": "content", "content": "Once"})


def conversations():
    """vLLM's fields of a chat"""
    begun = TALK + [{"role": "assistant", "content": "Once upon"}]
    more = extra(lambda **k: chat(messages=begun, **k), add_generation_prompt=False, continue_final_message=True)
    whole = extra(lambda **k: chat(messages=begun, **k), add_generation_prompt=False, continue_final_message=True, echo=True)
    assert said(whole) == "Once upon" + said(more)
    ids = extra(chat, return_token_ids=True)
    assert len(ids.prompt_token_ids) == ids.usage.prompt_tokens
    assert len(ids.choices[0].token_ids) == ids.usage.completion_tokens
    chunks = list(chat(stream=True, extra_body={"return_token_ids": True}))
    assert chunks[0].prompt_token_ids == ids.prompt_token_ids
    assert sum((c.choices[0].token_ids for c in chunks), []) == ids.choices[0].token_ids
    named = extra(chat, request_id="mine-1.a")
    assert named.id == "chatcmpl-mine-1.a"
    refused(lambda: extra(chat, request_id="a b"), "request_id")
    logs = extra(chat, prompt_logprobs=1).prompt_logprobs
    assert logs[0] is None and len(logs) == ids.usage.prompt_tokens
    refused(lambda: chat(stream=True, extra_body={"prompt_logprobs": 1}), "prompt_logprobs")
    cut = extra(chat, truncate_prompt_tokens=5)
    assert cut.usage.prompt_tokens == 5
    right = extra(complete, truncate_prompt_tokens=2, truncation_side="right", return_token_ids=True)
    assert right.choices[0].prompt_token_ids == extra(complete, return_token_ids=True).choices[0].prompt_token_ids[:2]
    cached = chat().usage.prompt_tokens_details.cached_tokens
    assert extra(chat, cache_salt="mine").usage.prompt_tokens_details.cached_tokens == 0
    assert extra(chat, cache_prompt=False).usage.prompt_tokens_details.cached_tokens == 0 <= cached
    extra(chat, priority=1, skip_special_tokens=False, spaces_between_special_tokens=True, documents=[], session_id="s",
          chat_template_kwargs={"enable_thinking": False}, include_reasoning=False, reasoning_format="none", id_slot=-1)


def tools():
    body = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [TOOL], "max_tokens": 64}
    whole = chat(**body).choices[0]
    pieces = list(chat(**body, stream=True))
    calls = [c for p in pieces for c in p.choices[0].delta.tool_calls or []]
    assert bool(whole.message.tool_calls) == bool(calls) and pieces[-1].choices[0].finish_reason == whole.finish_reason
    if calls:
        assert calls[0].function.name == whole.message.tool_calls[0].function.name
        json.loads(whole.message.tool_calls[0].function.arguments)
        ids = [c.id for c in calls if c.id] + [c.id for c in whole.message.tool_calls]
        for n in range(3):  # ids of other requests, choices and forms
            ids += [c.id for choice in chat(**body, n=2).choices for c in choice.message.tool_calls]
            ids += [c.id for p in chat(**body, n=2, stream=True) for c in p.choices[0].delta.tool_calls or [] if c.id]
        assert len(set(ids)) == len(ids) > 10 and all(re.fullmatch("[A-Za-z0-9]{9}", i) for i in ids), ids
    answered = [*body["messages"], {"role": "assistant", "content": None, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "sunny"}]
    assert chat(messages=answered, tools=[TOOL]).choices[0].message
    strict = {**TOOL, "function": {**TOOL["function"], "strict": True}}
    assert chat(**{**body, "tools": [strict]}).choices[0].message.tool_calls == whole.message.tool_calls or calls
    refused(lambda: chat(tools=[{"type": "web_search"}]), "tools")
    custom = {"type": "custom", "custom": {"name": "x", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[0-9]{2}"}}}}
    named = {"type": "custom", "custom": {"name": "x"}}
    call, = chat(tools=[custom], tool_choice=named).choices[0].message.tool_calls
    assert call.type == "custom" and call.custom.name == "x" and re.fullmatch("[0-9]{2}", call.custom.input), call
    parts = [c for p in chat(tools=[custom], tool_choice=named, stream=True) for c in p.choices[0].delta.tool_calls or []]
    assert "".join(c.custom["input"] for c in parts) == call.custom.input and parts[0].type == "custom", parts
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        forced = chat(tools=[TOOL], tool_choice=choice, parallel_tool_calls=False).choices[0]
        assert [c.function.name for c in forced.message.tool_calls] == ["get_weather"] and forced.finish_reason == "tool_calls", forced
    refused(lambda: chat(tool_choice="required"), "tool_choice")


def embeddings():
    one = embed().data[0].embedding  # the package requests base64 by default
    assert abs(math.fsum(x * x for x in one) - 1) < 1e-5
    written = embed(encoding_format="float").data[0].embedding
    assert list(array.array("f", written)) == one
    many = embed(input=[ONCE, "The cat sat.", ONCE])
    assert [d.index for d in many.data] == [0, 1, 2] and many.data[0].embedding == many.data[2].embedding == one
    assert many.data[1].embedding != one and many.usage.total_tokens == many.usage.prompt_tokens > 8
    short = embed(dimensions=8).data[0].embedding
    scale = math.sqrt(math.fsum(x * x for x in one[:8]))
    assert len(short) == 8 and all(abs(a - b / scale) < 1e-6 for a, b in zip(short, one))
    lists = embed(input=[[5, 6, 7], [8, 9]])
    assert len(lists.data) == 2 and lists.usage.prompt_tokens == 5
    assert embed(input=[5, 6, 7]).data[0].embedding == lists.data[0].embedding
    got = [None] * 8  # the same answer while other requests run
    threads = [threading.Thread(target=lambda i=i: got.__setitem__(i, embed().data[0].embedding if i % 2 else complete()))
               for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got[1::2] == [one] * 4
    refused(lambda: embed(dimensions=100000), "dimensions")
    refused(lambda: embed(encoding_format="hex"), "encoding_format")
    refused(lambda: embed(input=[]), "input")
    refused(lambda: embed(input=[[5, -6]]), "input")
    refused(lambda: embed(input=["a"] * 2049), "input")
    refused(lambda: extra(embed, stream=True), "stream")
    fails(openai.BadRequestError, lambda: embed(input="word " * 5000), "input", "context_length_exceeded")


def fields():
    """unsupported fields are rejected, and empty ones are accepted"""
    later = {"structured_outputs": {"structural_tag": "{}"}, "response_format": {"type": "structural_tag", "format": {}},
             "logprob_token_ids": [1], "kv_transfer_params": {"a": 1}, "ec_transfer_params": {"a": 1}, "watermarking": {"a": 1},
             "repetition_detection": {"max_pattern_size": 4}, "stream_interval": 0, "samplers": ["a"], "dynatemp_range": -1,
             "n_probs": 99, "min_keep": -1, "t_max_predict_ms": "a", "n_indent": 1.5, "return_progress": 3, "timings_per_token": 3,
             "lora": [{"id": 0, "scale": 1}], "sse_ping_interval": 0, "verbose": True, "debug_config": {"a": 1}}
    of_chat = {"chat_template": "{% if", "audio": {"voice": "alloy", "format": "wav"},
               "web_search_options": {"a": 1}, "moderation": {"a": 1}, "modalities": ["audio"],
               "reasoning_effort": "very", "reasoning_format": "other"}
    for call, names in ((chat, {**later, **of_chat}), (complete, later), (embed, {"embed_dtype": "int8", "endianness": "middle"})):
        for name, value in names.items():
            refused(lambda: extra(call, **{name: value}), name)
    for call in (chat, complete):
        extra(call, max_tokens=1, grammar="", lora=[], n_probs=0, structured_outputs=None, return_progress=False,
              a_field_of_tomorrow={"x": 1})
    wrong = {"max_tokens": "x", "temperature": "x", "top_p": [], "n": 1.5, "stop": 5, "seed": "x", "logit_bias": [5], "echo": 3,
             "presence_penalty": {}, "frequency_penalty": "x", "user": 5, "stream": "yes", "stream_options": 5, "top_k": "x",
             "stop_token_ids": "x", "bad_words": 5, "ignore_eos": "x", "min_tokens": -1, "prompt_logprobs": 1000,
             "truncate_prompt_tokens": 0, "truncation_side": "up", "cache_prompt": 1, "return_token_ids": "x", "priority": "x",
             "add_special_tokens": "x", "cache_salt": 5, "request_id": 5, "thinking_token_budget": "x"}
    for call, more in ((chat, {"logprobs": 5, "top_logprobs": 99, "tools": 5, "functions": 5, "function_call": 5, "documents": 5, "parallel_tool_calls": "x",
                               "max_completion_tokens": -1, "include_reasoning": "x", "chat_template_kwargs": 5}),
                       (complete, {"logprobs": 99, "best_of": 500, "suffix": 5})):
        for name, value in {**wrong, **more}.items():
            refused(lambda: extra(call, **{name: value}), name)


def as_vllm():
    """the assertions of vLLM's own tests of its server"""
    assert chat(logprobs=False).choices[0].logprobs is None and complete().choices[0].logprobs is None
    assert chat(logprobs=True, top_logprobs=0).choices[0].logprobs.content[0].top_logprobs == []
    assert chat().prompt_logprobs is None and complete().choices[0].prompt_logprobs is None
    refused(lambda: extra(chat, prompt_logprobs=-1), "prompt_logprobs")
    one, two = (extra(chat, prompt_logprobs=n).prompt_logprobs[3] for n in (1, 2))
    assert 1 <= len(one) <= 2 and 2 <= len(two) <= 3
    both = complete(prompt=[ONCE, "The"], extra_body={"prompt_logprobs": 0}).choices
    assert all(c.prompt_logprobs and c.prompt_logprobs[0] is None for c in both)
    for call in (chat, complete):
        for options in ({"include_usage": None}, {"include_usage": True}, {"continuous_usage_stats": True}):
            refused(lambda: call(stream=False, stream_options=options), "stream_options")
        for options in ({"include_usage": False}, {"include_usage": False, "continuous_usage_stats": True}, {}):
            assert all(c.usage is None for c in call(stream=True, stream_options=options))
        always = list(call(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
        assert all(c.usage.prompt_tokens > 0 for c in always) and not always[-1].choices
        assert all(c.usage.total_tokens == c.usage.prompt_tokens + c.usage.completion_tokens for c in always)
    zero = complete(logprobs=0).choices[0].logprobs
    assert zero.token_logprobs and all(len(t) == 1 for t in zero.top_logprobs)
    for n in (0, 1):
        echoed = complete(echo=True, logprobs=n, max_tokens=5).choices[0].logprobs
        assert echoed.top_logprobs[0] is None and all(max(n, 1) <= len(t) <= n + 1 for t in echoed.top_logprobs[1:])
    custom = [{"role": "user", "content": "what is 1+1?", "extra_field": 0}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "what is 1+1?"}]}]
    assert said(chat(messages=custom)) == said(chat(messages=parts))
    unknown = [{**custom[0], "role": "my-own-role"}]  # not printed by the template
    refused(lambda: chat(messages=unknown), "messages")
    assert said(extra(chat, echo=True, add_generation_prompt=False)) is not None
    beams = complete(prompt=[ONCE] * 2, n=2, max_tokens=5, extra_body={"use_beam_search": True}).choices
    assert [b.text for b in beams[:2]] == [b.text for b in beams[2:]] and beams[0].text != beams[1].text
    for side, ids in (("right", [0, 1, 2, 3]), ("left", [4, 5, 6, 7])):
        cut = {"return_token_ids": True, "truncate_prompt_tokens": 4, "truncation_side": side}
        assert complete(prompt=list(range(8)), max_tokens=1, extra_body=cut).choices[0].prompt_token_ids == ids
    e = fails(openai.BadRequestError, lambda: complete(prompt=[999999]), "prompt")
    assert "out of vocabulary" in e.message, e.message
    for seed in (-2**63 - 1, 2**63):
        refused(lambda: chat(seed=seed), "seed")
    refused(lambda: chat(logit_bias={"999999": 1}), "logit_bias")
    refused(lambda: extra(chat, stop_token_ids=[999999]), "stop_token_ids")
    refused(lambda: extra(chat, add_generation_prompt=True, continue_final_message=True), "continue_final_message")
    refused(lambda: extra(chat, min_tokens=30), "min_tokens")


def errors():
    bad = openai.BadRequestError
    fails(bad, lambda: complete(temperature=-1), "temperature")
    fails(bad, lambda: complete(prompt="word " * 5000), "prompt", "context_length_exceeded")
    fails(bad, lambda: chat(messages=[{"role": "user", "content": "word " * 5000}]), "messages", "context_length_exceeded")
    fails(bad, lambda: chat(max_tokens="x"), "max_tokens")
    fails(bad, lambda: chat(messages=[]), "messages")
    fails(openai.NotFoundError, lambda: complete(model="gpt-9"), "model", "model_not_found")
    fails(openai.NotFoundError, lambda: embed(model="gpt-9"), "model", "model_not_found")
    fails(openai.NotFoundError, lambda: client.models.retrieve("gpt-9"))
    fails(openai.NotFoundError, lambda: client.images.generate(model=model, prompt="a"))
    keyed = sys.argv[2] + "/v1"
    stranger = openai.OpenAI(base_url=keyed, api_key="sk-wrong", max_retries=0, http_client=http)
    fails(openai.AuthenticationError, stranger.models.list, code="invalid_api_key")
    assert openai.OpenAI(base_url=keyed, api_key="sk-test", http_client=http).models.list().data
    hasty = openai.OpenAI(base_url=keyed, api_key="sk-slow", max_retries=0, http_client=http)
    assert hasty.models.list().data
    e = fails(openai.RateLimitError, hasty.models.list, status=429)
    assert int(e.response.headers["retry-after"]) > 0
    host = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0, http_client=http,
                         default_headers={"Origin": "https://evil.example"})
    fails(openai.PermissionDeniedError, host.models.list, status=403)
    big = openai.OpenAI(base_url=keyed, api_key="sk-test", max_retries=0, http_client=http)
    fails(openai.APIStatusError, lambda: big.completions.create(model=model, prompt="x" * (2 << 20)), status=413)


def description():
    """a wrong answer fails the comparison with the description"""
    if schemas:
        answer = chat().model_dump(exclude_unset=True)
        del answer["choices"][0]["message"]["refusal"]
        try:
            schemas.hold("CreateChatCompletionResponse", answer)
        except AssertionError as e:
            assert "refusal" in str(e), e
        else:
            raise AssertionError("a message without its refusal passes")


for test in (description, models, completions, echo, sampling, chats, conversations, tools, embeddings, fields, as_vllm, errors):
    try:
        test()
    except AssertionError:
        print(f"in {test.__name__}:")
        raise
print("all is well; " + (f"{sum(schemas.n.values())} answers are as described" if schemas else "the API's description is not here"))
