"""The requests of answers.py: GROUPS, name -> [(method, path, body)]. A body that is not an object
is sent unchanged. Requests with sampling have a seed. No request depends on time. This module
contains no tests."""

ONCE = "Once upon a time"
TALK = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "Tell me a story."}]
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALLED = [*ASK, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
SEEDED = {"temperature": 0.9, "seed": 7}

# Common parameters of completions and chats, without the prompt.
COMMON = [
    {}, SEEDED, {**SEEDED, "top_p": 0.8, "top_k": 40}, {**SEEDED, "min_p": 0.1}, {**SEEDED, "typical_p": 0.7},
    {**SEEDED, "top_n_sigma": 1.5}, {**SEEDED, "xtc_probability": 0.5, "xtc_threshold": 0.1},
    {**SEEDED, "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2}, {**SEEDED, "mirostat": 1},
    {**SEEDED, "dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2, "dry_sequence_breakers": ["."]},
    {**SEEDED, "repetition_penalty": 1.3, "repeat_last_n": 20}, {**SEEDED, "presence_penalty": 0.5, "frequency_penalty": 0.5},
    {"logit_bias": {"5": 2, "40": -100, "300": 3.5}}, {"allowed_token_ids": [40, 50, 60, 70]}, {"bad_words": ["time", "was"]},
    {"min_tokens": 12, "max_tokens": 14}, {"ignore_eos": True, "max_tokens": 40}, {"stop": ["a", "the "]},
    {"stop": " ", "include_stop_str_in_output": True}, {"stop_token_ids": [40, 41, 42, 43, 44]},
    {**SEEDED, "n": 3}, {**SEEDED, "seed": 8, "temperature": 1.6, "n": 2}, {"use_beam_search": True, "n": 2, "max_tokens": 6},
    {"use_beam_search": True, "n": 3, "length_penalty": 0.5, "early_stopping": True, "max_tokens": 6},
    {"prompt_logprobs": 2, "max_tokens": 3}, {"return_token_ids": True, "max_tokens": 4}, {"truncate_prompt_tokens": 3},
    {"truncate_prompt_tokens": 3, "truncation_side": "right"}, {"max_tokens": 1}, {"skip_special_tokens": False},
    {"user": "u", "request_id": "mine", "priority": 3, "cache_salt": "s"}, {"metadata": {"a": "b"}, "service_tier": "auto"},
]
COMPLETIONS = [
    *COMMON, {"prompt": [ONCE, "The little dog"]}, {"prompt": [5, 40, 41, 42]}, {"prompt": [[5, 40], [41, 42, 43]], "n": 2, **SEEDED},
    {"echo": True}, {"echo": True, "logprobs": 2, "max_tokens": 3}, {"logprobs": 0}, {"logprobs": 5, "max_tokens": 4},
    {**SEEDED, "best_of": 3, "n": 2}, {"add_special_tokens": False}, {"max_tokens": 0, "echo": True}, {"suffix": ""},
    {"prompt": "\u00e9\u4e2d\U0001f917 \"quoted\"\n"},
]
CHATS = [
    *COMMON, {"logprobs": True}, {"logprobs": True, "top_logprobs": 3, "max_tokens": 4}, {"max_completion_tokens": 5},
    {"messages": ASK, "tools": [TOOL], "max_tokens": 60}, {"messages": ASK, "tools": [TOOL], "tool_choice": "none"},
    {"messages": CALLED, "tools": [TOOL]}, {"messages": ASK, "tools": [TOOL], "parallel_tool_calls": False, "n": 2, "max_tokens": 60},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "you"}]}]},
    {"messages": [*TALK, {"role": "assistant", "content": "Once"}], "continue_final_message": True, "add_generation_prompt": False},
    {"add_generation_prompt": False}, {"reasoning_effort": "low"}, {"chat_template_kwargs": {"enable_thinking": False}},
    {"documents": [{"title": "t", "text": "x"}]}, {"response_format": {"type": "text"}}, {"modalities": ["text"]},
    {"messages": [{"role": "user", "content": "What is 2 + 3?"}], "max_tokens": 30},
]
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
EMBEDDINGS = [{}, {"input": ["a", "b c"]}, {"input": [5, 6, 7]}, {"input": [[5, 6], [7]]}, {"encoding_format": "base64"},
              {"truncate_prompt_tokens": 2}, {"dimensions": 16}, {"user": "u"}]
TOKENIZE = [
    {"prompt": ONCE}, {"prompt": ONCE, "return_token_strs": True}, {"prompt": ONCE, "add_special_tokens": False}, {"messages": TALK},
    {"messages": TALK, "add_generation_prompt": False}, {"messages": ASK, "tools": [TOOL]}, {"content": "\u00e9\u4e2d\U0001f917"},
    {"content": "\u5abd", "with_pieces": True}, {"content": [5, "capital", 6]}, {"content": "<|im_end|>"},
    {"content": "<|im_end|>", "parse_special": False}, {"content": "a", "add_special": True}, {"content": ""}, {"prompt": ""},
    {"content": 5}, {"content": [True]}, {"content": [-1]}, {"content": "a", "with_pieces": 3}, {"content": "a", "prompt": "b"}, {},
]
# Every field of an endpoint with values of a wrong kind or out of range, to record the rejections.
FIELDS = """model messages prompt max_tokens max_completion_tokens temperature top_p n best_of stream stream_options stop seed
    presence_penalty frequency_penalty logit_bias logprobs top_logprobs response_format tools tool_choice parallel_tool_calls
    reasoning_effort user echo suffix modalities input encoding_format dimensions audio functions function_call web_search_options
    top_k min_p repetition_penalty length_penalty early_stopping use_beam_search stop_token_ids include_stop_str_in_output ignore_eos
    min_tokens skip_special_tokens prompt_logprobs allowed_token_ids bad_words truncate_prompt_tokens truncation_side
    add_generation_prompt continue_final_message add_special_tokens documents chat_template_kwargs priority request_id
    return_token_ids cache_salt include_reasoning chat_template structured_outputs guided_json guided_regex guided_choice
    guided_grammar cache_prompt typical_p top_n_sigma xtc_probability xtc_threshold mirostat mirostat_tau mirostat_eta dry_multiplier
    dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers repeat_last_n reasoning_format samplers grammar json_schema
    n_probs lora debug_config metadata store no_such_field""".split()
WRONG = ["x", "", -5, 1.5, 1e30, True, False, None, [], [3], {}, {"a": 1}]
ERRORS = [
    ("POST", "/v1/completions", b"{"), ("POST", "/v1/completions", b"[]"), ("POST", "/v1/completions", b""),
    ("POST", "/v1/completions", b'{"prompt": "\xff"}'), ("POST", "/v1/completions", b"[" * 100000),
    ("POST", "/v1/completions", b'{"prompt": "a", "prompt": "b", "temperature": 0}'), ("POST", "/v1/completions", b'{"prompt": "a", "temperature": 1e400}'),
    ("POST", "/v1/completions", {"prompt": "word " * 5000}), ("POST", "/v1/completions", {"prompt": ["a"] * 2049, "max_tokens": 1}),
    ("POST", "/v1/completions", {"prompt": [1, 99999999]}), ("POST", "/v1/completions", {"prompt": "a", "stream_options": {}}),
    ("POST", "/v1/completions", {"prompt": "a", "model": "gpt-9"}), ("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2000}),
    ("POST", "/v1/completions", {"prompt": "a", "best_of": 2, "n": 3}), ("POST", "/v1/completions", {"prompt": "a", "logprobs": 500}),
    ("POST", "/v1/completions", {"prompt": "a", "best_of": 2, "stream": True, **SEEDED}),
    ("POST", "/v1/completions", {"prompt": "a", "use_beam_search": True, "n": 2, "stream": True}),
    ("POST", "/v1/completions", {"prompt": "a", "min_tokens": 20, "max_tokens": 10}),
    ("POST", "/v1/completions", {"prompt": "a", "logit_bias": {"9999999": 1}}),
    ("POST", "/v1/completions", {"prompt": "a", "allowed_token_ids": [9999999]}),
    ("POST", "/v1/chat/completions", {}), ("POST", "/v1/chat/completions", {"messages": []}),
    ("POST", "/v1/chat/completions", {"messages": [{}]}), ("POST", "/v1/chat/completions", {"messages": [{"role": "x", "content": "a"}]}),
    ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
    ("POST", "/v1/chat/completions", {"messages": TALK, "top_logprobs": 3}),
    ("POST", "/v1/chat/completions", {"messages": TALK, "tools": [{"type": "x"}]}),
    ("POST", "/v1/chat/completions", {"messages": TALK, "tool_choice": "required"}),
    ("POST", "/v1/chat/completions", {"messages": TALK, "response_format": {"type": "json_object"}}),
    ("POST", "/v1/embeddings", {}), ("POST", "/v1/embeddings", {"input": ""}), ("POST", "/v1/embeddings", {"input": "a", "stream": True}),
    ("POST", "/v1/nothing", {}), ("POST", "/v1/models", {}), ("DELETE", "/v1/completions", None), ("GET", "/v1/completions", None),
    ("GET", "/v1/models/gpt-9", None), ("POST", "/detokenize", {"tokens": [-1]}), ("POST", "/detokenize", {"tokens": "x"}),
    ("POST", "/detokenize", {}), ("POST", "/apply-template", {}), ("POST", "/invocations", {}), ("POST", "/reset_prefix_cache", None),
]


def completions(n=10, **more):
    return [("POST", "/v1/completions", {"prompt": ONCE, "max_tokens": n, "temperature": 0, **c, **more}) for c in COMPLETIONS]


def chats(n=10, **more):
    return [("POST", "/v1/chat/completions", {"messages": TALK, "max_tokens": n, "temperature": 0, **c, **more}) for c in CHATS]


def greedy(request):
    """Make a request of ERRORS greedy, so that it has only one answer if it is accepted."""
    method, path, body = request
    return (method, path, {"temperature": 0, **body}) if isinstance(body, dict) and "completions" in path else request


def wrong_fields():
    base = {"/v1/completions": {"prompt": "a", "max_tokens": 1, **SEEDED}, "/v1/chat/completions": {"messages": ASK, "max_tokens": 1, **SEEDED},
            "/v1/embeddings": {"input": "a"}}
    return [("POST", path, {**body, field: value}) for path, body in base.items() for field in FIELDS for value in WRONG
            if (field, value) != ("seed", None)]


GROUPS = {
    "completions": completions(),
    "chats": chats(),
    "streams of completions": completions(40, stream=True)[:12] + completions(40, **USAGE),
    "streams of chats": chats(40, stream=True)[:12] + chats(40, **USAGE)
    + chats(40, stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})[:3],
    "embeddings": [("POST", "/v1/embeddings", {"input": ONCE, **e}) for e in EMBEDDINGS],
    "tokenize": [("POST", "/tokenize", t) for t in TOKENIZE],
    "other routes": [
        ("GET", "/health", None), ("GET", "/ping", None), ("GET", "/version", None), ("GET", "/v1/models", None), ("GET", "/models", None),
        ("GET", "/v1/models/quoth-tiny", None), ("GET", "/tokenizer_info", None), ("POST", "/detokenize", {"tokens": [5, 40, 41]}),
        ("POST", "/apply-template", {"messages": TALK}), ("POST", "/apply-template", {"messages": CALLED, "tools": [TOOL]}),
        ("POST", "/invocations", {"prompt": ONCE, "max_tokens": 3, "temperature": 0})],
    "errors": [greedy(r) for r in ERRORS],
    "fields with values of a wrong kind": wrong_fields(),
}
BRIEF = ("fields with values of a wrong kind",)  # groups with fewer recorded fields
