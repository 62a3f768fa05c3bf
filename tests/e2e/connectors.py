"""What LangChain's and LiteLLM's connectors get from the server at argv[2]; argv[1] says which one is meant. Run by
tests/connectors."""
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch a list of prices
NAME, URL = sys.argv[1], sys.argv[2] + "/v1"
MODEL, KEY, ASK = "quoth-tiny", "any", "Tell me a story."
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def langchain():
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

    chat = ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY, temperature=0, max_tokens=24, max_retries=0)
    whole = chat.invoke([("system", "You are kind."), ("user", ASK)])
    assert whole.content and whole.usage_metadata["output_tokens"] > 0, whole
    pieces = list(chat.stream([("system", "You are kind."), ("user", ASK)]))
    assert "".join(p.content for p in pieces) == whole.content, pieces
    assert [m.content for m in chat.batch([[("system", "You are kind."), ("user", ASK)]] * 3)] == [whole.content] * 3
    logprobs = chat.bind(logprobs=True, top_logprobs=2).invoke(ASK).response_metadata["logprobs"]["content"]
    assert len(logprobs[0]["top_logprobs"]) == 2, logprobs
    called = ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY, temperature=0, max_tokens=48).bind_tools([TOOL]).invoke(
        "What is the weather in Paris?")
    assert called.content or called.tool_calls, called
    text = OpenAI(model=MODEL, base_url=URL, api_key=KEY, temperature=0, max_tokens=16, max_retries=0)
    assert text.invoke("Once upon a time") == "".join(text.stream("Once upon a time")) != ""
    vectors = OpenAIEmbeddings(model=MODEL, base_url=URL, api_key=KEY, check_embedding_ctx_length=False)
    both = vectors.embed_documents(["Once upon a time", "The cat"])
    assert len(both) == 2 and both[0] == vectors.embed_query("Once upon a time") and both[0] != both[1]
    try:
        ChatOpenAI(model="gpt-9", base_url=URL, api_key=KEY, max_retries=0).invoke(ASK)
    except Exception as e:
        assert "NotFound" in type(e).__name__, e
    else:
        raise AssertionError("a model that is not here answered")


def litellm():
    import litellm as lite

    where = {"api_base": URL, "api_key": KEY}
    messages = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": ASK}]
    ask = {"model": f"openai/{MODEL}", "messages": messages, "temperature": 0, "max_tokens": 24, **where}
    whole = lite.completion(**ask)
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens > 0, whole
    pieces = list(lite.completion(**ask, stream=True, stream_options={"include_usage": True}))
    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == text, pieces
    called = lite.completion(**{**ask, "messages": [{"role": "user", "content": "What is the weather in Paris?"}]}, tools=[TOOL])
    assert called.choices[0].message, called
    done = lite.text_completion(model=f"text-completion-openai/{MODEL}", prompt="Once upon a time", max_tokens=16, temperature=0,
                                **where)
    assert done.choices[0].text, done
    vectors = lite.embedding(model=f"openai/{MODEL}", input=["Once upon a time", "The cat"], **where)
    assert len(vectors.data) == 2 and len(vectors.data[0]["embedding"]) == len(vectors.data[1]["embedding"]) > 8
    try:
        lite.completion(**{**ask, "model": "openai/gpt-9"}, num_retries=0)
    except lite.exceptions.NotFoundError:
        pass
    else:
        raise AssertionError("a model that is not here answered")


{"langchain": langchain, "litellm": litellm}[NAME]()
print("all is well")
