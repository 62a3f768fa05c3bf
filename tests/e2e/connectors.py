"""Run a client library against the server at argv[2]; argv[1] names the client. Run by
tests/connectors.

A row is a call of the client's users. A row that waits for an issue must fail. If the call of this
row succeeds, the test fails, as a reminder to remove the row's mark. The script prints "ok CALL",
"wait CALL (ISSUE)" or "FAIL CALL: why" per row."""
import asyncio
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True",  # the client would fetch a list of prices
                  OPENAI_API_KEY="any", OPENAI_AGENTS_DISABLE_TRACING="1", HAYSTACK_TELEMETRY_ENABLED="False")
NAME, ROOT = sys.argv[1], sys.argv[2]
URL, MODEL, KEY = ROOT + "/v1", "quoth-tiny", "any"
SUM, WEATHER, ONCE = "What is 47 + 38?", "What is the weather in Paris?", "Once upon a time"
ASK = [{"role": "user", "content": SUM}]
TALK = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "Tell me a story."}]
SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather of a city", "parameters": SHAPE}}
SUNNY = '{"weather": "sunny", "temperature": 21}'
MESSAGES, RERANK, OTHERS = "images", "G: rerank", "not planned"
# rejections by the server, not errors of a changed client
REFUSED = ("400", "404", "Bad Request", "BadRequest", "NotFound", "not found")
failed = 0


def row(name, waits=None):
    """Run the function: a call that works, or that fails if it waits for an issue."""
    def run(call):
        global failed
        try:
            got = call()
            if inspect.isawaitable(got):
                asyncio.run(awaited(got))
            why = f"it works now: it waits no longer for {waits}" if waits else None
        except Exception as e:
            failure = f"{type(e).__name__}: {e} {e.__cause__ or ''}"
            why = None if waits and any(word in failure for word in REFUSED) else failure
        failed += why is not None
        print(f"FAIL {name}: {why[:900]}" if why else f"wait {name} ({waits})" if waits else f"ok   {name}", flush=True)
    return run


async def awaited(x):
    return await x


def raises(kind, call):
    try:
        call()
    except Exception as e:
        assert kind in [k.__name__ for k in type(e).__mro__], f"{type(e).__name__} in place of {kind}: {e}"
        return e
    raise AssertionError(f"no {kind}")


def person():
    import pydantic

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=20)  # this limit ends every answer
        age: int

    return Person


def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return SUNNY


def openai():
    import openai as package

    c = package.OpenAI(base_url=URL, api_key=KEY, max_retries=0)

    def chat(**more):
        return c.chat.completions.create(**{"model": MODEL, "messages": ASK, "temperature": 0, "max_tokens": 40, **more})

    @row("chat with its bare address, without /v1")
    def _():
        bare = package.OpenAI(base_url=ROOT, api_key=KEY, max_retries=0)
        assert bare.models.list().data[0].id == MODEL
        assert bare.chat.completions.create(model=MODEL, messages=ASK, max_tokens=4).choices[0].message.content

    @row("stream helper, usage in each chunk")
    def _():
        options = {"include_usage": True, "continuous_usage_stats": True}
        chunks = list(chat(stream=True, stream_options=options))
        assert all(x.usage and x.usage.prompt_tokens > 0 for x in chunks)
        with c.chat.completions.stream(model=MODEL, messages=ASK, temperature=0, max_tokens=40) as s:
            for _ in s:
                pass
            assert s.get_final_completion().choices[0].message.content == chat().choices[0].message.content

    @row("tools: auto, strict, streamed, a round trip, parallel off")
    def _():
        strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}
        ask = [{"role": "user", "content": WEATHER}]
        m = chat(messages=ask, tools=[strict]).choices[0].message
        assert m.tool_calls[0].function.name == "get_weather" and len(m.tool_calls[0].id) == 9, m
        pieces = chat(messages=ask, tools=[strict], stream=True)
        calls = [t for x in pieces for t in x.choices[0].delta.tool_calls or []]
        assert calls[0].id and calls[0].id != m.tool_calls[0].id
        answered = ask + [m, {"role": "tool", "tool_call_id": m.tool_calls[0].id, "content": SUNNY}]
        assert chat(messages=answered, tools=[strict]).choices[0].message.content
        chat(messages=ask, tools=[strict], parallel_tool_calls=False)

    @row("the vendor's parameters beyond OpenAI's")
    def _():
        chat(extra_body={"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "stop_token_ids": [3],
                         "chat_template_kwargs": {"enable_thinking": False}})
        chat(logit_bias={"5": -100}, seed=3, stop=["="], presence_penalty=0.1, frequency_penalty=0.1, user="u")

    @row("32 at once, async")
    async def _():
        a = package.AsyncOpenAI(base_url=URL, api_key=KEY)
        asked = [a.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_tokens=20) for _ in range(32)]
        assert len({x.choices[0].message.content for x in await asyncio.gather(*asked)}) == 1

    @row("tool_choice required")
    def _():
        chat(tools=[TOOL], tool_choice="required")

    @row("tool_choice with a name")
    def _():
        chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "get_weather"}})

    @row("response_format json_object")
    def _():
        assert chat(response_format={"type": "json_object"}).choices[0].message.content.lstrip().startswith("{")

    @row("parse")
    def _():
        got = c.chat.completions.parse(model=MODEL, messages=ASK, response_format=person(), temperature=0)
        assert isinstance(got.choices[0].message.parsed.age, int)

    @row("structured_outputs")
    def _():
        extra = {"structured_outputs": {"regex": "[0-9]{1,3}"}}
        assert chat(extra_body=extra).choices[0].message.content.isdigit()

    @row("functions, the old form of tools")
    def _():
        name = TOOL["function"]["name"]
        message = chat(functions=[TOOL["function"]], function_call={"name": name}, max_tokens=300).choices[0].message
        assert message.function_call.name == name, message

    @row("a timeout of its own, errors by class")
    def _():
        raises("APITimeoutError", lambda: chat(timeout=1e-3, max_tokens=900, extra_body={"ignore_eos": True}))
        raises("BadRequestError", lambda: chat(temperature=1e9))
        raises("NotFoundError", lambda: chat(model="gpt-9"))

    @row("responses.create")
    def _():
        c.responses.create(model=MODEL, input="hi")

    @row("files and batches")
    def _():
        line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
                "body": {"model": MODEL, "messages": ASK, "temperature": 0, "max_tokens": 30}}
        file = c.files.create(file=("a.jsonl", json.dumps(line).encode()), purpose="batch")
        assert file.id in [x.id for x in c.files.list()]
        batch = c.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        for _ in range(600):
            batch = c.batches.retrieve(batch.id)
            if batch.status in ("completed", "failed", "expired", "cancelled"):
                break
            time.sleep(0.1)
        assert batch.status == "completed" and batch.id in [x.id for x in c.batches.list()], batch
        answer = json.loads(c.files.content(batch.output_file_id).text)
        assert answer["custom_id"] == "a" and answer["response"]["status_code"] == 200, answer
        c.files.delete(file.id)

    others = {"images": lambda: c.images.generate(prompt="a"), "moderations": lambda: c.moderations.create(input="a"),
              "audio": lambda: c.audio.transcriptions.create(model=MODEL, file=("a.wav", b"a"))}
    for name, call in others.items():
        row(name, waits=OTHERS)(call)

    @row("image_url", waits=MESSAGES)
    def _():
        chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])


def anthropic():
    import anthropic as package

    c = package.Anthropic(base_url=ROOT, api_key=KEY, max_retries=0)

    @row("models.list, its key in x-api-key")
    def _():
        assert [m.id for m in c.models.list()] == [MODEL]

    @row("messages.create")
    def _():
        got = c.messages.create(model=MODEL, max_tokens=30, messages=ASK)
        assert "85" in got.content[0].text and got.stop_reason == "end_turn", got

    @row("messages.stream")
    def _():
        with c.messages.stream(model=MODEL, max_tokens=30, messages=ASK) as s:
            assert "85" in s.get_final_message().content[0].text

    @row("count_tokens")
    def _():
        got = c.messages.create(model=MODEL, max_tokens=1, messages=ASK).usage
        n = got.input_tokens + got.cache_read_input_tokens
        assert c.messages.count_tokens(model=MODEL, messages=ASK).input_tokens == n, got


def litellm():
    import litellm as lite
    lite.suppress_debug_info = True
    where = {"api_base": URL, "api_key": KEY}
    ask = {"model": f"openai/{MODEL}", "messages": TALK, "temperature": 0, "max_tokens": 24, **where}

    @row("completion, stream")
    def _():
        for model in (f"openai/{MODEL}", f"hosted_vllm/{MODEL}"):
            whole = lite.completion(**{**ask, "model": model})
            text = whole.choices[0].message.content
            assert text and whole.usage.completion_tokens > 0, whole
            pieces = list(lite.completion(**{**ask, "model": model}, stream=True, stream_options={"include_usage": True}))
            assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == text, pieces

    @row("tools")
    def _():
        asked = {**ask, "model": f"hosted_vllm/{MODEL}", "messages": [{"role": "user", "content": WEATHER}], "max_tokens": 64}
        assert lite.completion(**asked, tools=[TOOL]).choices[0].message.tool_calls

    @row("text_completion, embedding")
    def _():
        done = lite.text_completion(model=f"text-completion-openai/{MODEL}", prompt=ONCE, max_tokens=16, temperature=0, **where)
        assert done.choices[0].text, done
        for model in (f"openai/{MODEL}", f"hosted_vllm/{MODEL}"):
            vectors = lite.embedding(model=model, input=[ONCE, "The cat"], **where)
            assert len(vectors.data) == 2 and len(vectors.data[0]["embedding"]) == len(vectors.data[1]["embedding"]) > 8

    @row("errors: a model that is not here, a prompt that is too long")
    def _():
        raises("NotFoundError", lambda: lite.completion(**{**ask, "model": "openai/gpt-9"}, num_retries=0))
        long = {**ask, "messages": [{"role": "user", "content": "word " * 20000}], "num_retries": 0}
        for model in (f"openai/{MODEL}", f"hosted_vllm/{MODEL}"):
            raises("ContextWindowExceededError", lambda: lite.completion(**{**long, "model": model}))

    @row("Anthropic's messages over it")
    async def _():
        got = await lite.anthropic.messages.acreate(model=f"hosted_vllm/{MODEL}", messages=ASK, max_tokens=20, **where)
        assert got["content"], got

    @row("response_format")
    def _():
        got = lite.completion(**{**ask, "model": f"hosted_vllm/{MODEL}"}, response_format=person())
        assert got.choices[0].message.content.lstrip().startswith("{")

    @row("responses")
    def _():
        lite.responses(model=f"openai/{MODEL}", input="hi", **where)

    @row("rerank", waits=RERANK)
    def _():
        lite.rerank(model=f"hosted_vllm/{MODEL}", query="a", documents=["b", "c"], api_base=ROOT, api_key=KEY)

    @row("ollama_chat and ollama")
    def _():
        for model in (f"ollama_chat/{MODEL}", f"ollama/{MODEL}"):
            ollama = {"model": model, "api_base": ROOT, "messages": ASK, "temperature": 0, "max_tokens": 20}
            whole = lite.completion(**ollama).choices[0].message.content
            pieces = lite.completion(**ollama, stream=True)
            assert whole and whole == "".join(x.choices[0].delta.content or "" for x in pieces), whole
        got = lite.embedding(model=f"ollama/{MODEL}", api_base=ROOT, input=[ONCE, "The cat"])
        assert len(got.data) == 2, got


def langchain():
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

    def model(**more):
        return ChatOpenAI(**{"model": MODEL, "base_url": URL, "api_key": KEY, "temperature": 0, "max_tokens": 64, "max_retries": 0, **more})

    chat, ask = model(max_tokens=24), [("system", "You are kind."), ("user", "Tell me a story.")]

    @row("invoke, stream, batch, logprobs")
    def _():
        whole = chat.invoke(ask)
        assert whole.content and whole.usage_metadata["output_tokens"] > 0, whole
        pieces = list(chat.stream(ask))
        assert "".join(p.content for p in pieces) == whole.content, pieces
        assert [m.content for m in chat.batch([ask] * 3)] == [whole.content] * 3
        logprobs = chat.bind(logprobs=True, top_logprobs=2).invoke(SUM).response_metadata["logprobs"]["content"]
        assert len(logprobs[0]["top_logprobs"]) == 2, logprobs

    @row("bind_tools, an agent with a tool")
    def _():
        from langchain.agents import create_agent
        assert model().bind_tools([TOOL]).invoke(WEATHER).tool_calls
        said = create_agent(model(), [get_weather]).invoke({"messages": [{"role": "user", "content": WEATHER}]})["messages"]
        assert any(m.type == "tool" for m in said) and said[-1].content, said

    @row("completions")
    def _():
        text = OpenAI(model=MODEL, base_url=URL, api_key=KEY, temperature=0, max_tokens=16, max_retries=0)
        assert text.invoke(ONCE) == "".join(text.stream(ONCE)) != ""

    @row("embeddings without OpenAI's token ids")
    def _():
        vectors = OpenAIEmbeddings(model=MODEL, base_url=URL, api_key=KEY, check_embedding_ctx_length=False)
        both = vectors.embed_documents([ONCE, "The cat"])
        assert len(both) == 2 and both[0] == vectors.embed_query(ONCE) and both[0] != both[1]

    @row("a model that is not here")
    def _():
        raises("NotFoundError", lambda: model(model="gpt-9").invoke(SUM))

    ann = "My name is Ann. I am 42. Answer as JSON."
    for method in ("json_schema", "function_calling"):
        @row(f"with_structured_output {method}")
        def _():
            assert model().with_structured_output(person(), method=method).invoke(ann)

    @row("with_structured_output json_mode")
    def _():
        try:  # the model chooses the members, and may not end
            assert model().with_structured_output(person(), method="json_mode", include_raw=True).invoke(ann)["raw"].content
        except Exception as e:
            assert type(e).__name__ == "LengthFinishReasonError", e

    @row("tool_choice any")
    def _():
        model().bind_tools([TOOL], tool_choice="any").invoke(WEATHER)

    @row("use_responses_api")
    def _():
        model(use_responses_api=True).invoke("hi")


def llamaindex():
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.llms import ChatMessage
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.llms.openai_like import OpenAILike

    llm = OpenAILike(model=MODEL, api_base=URL, api_key=KEY, is_chat_model=True, is_function_calling_model=True,
                     context_window=1024, temperature=0, max_retries=0, max_tokens=64)

    @row("chat, complete, stream_complete")
    def _():
        assert llm.chat([ChatMessage(role="user", content=SUM)]).message.content
        assert llm.complete(SUM).text == "".join(x.delta or "" for x in llm.stream_complete(SUM)) != ""

    @row("an agent with a tool")
    async def _():
        assert str(await FunctionAgent(tools=[get_weather], llm=llm).run(WEATHER))

    @row("embeddings")
    def _():
        assert len(OpenAILikeEmbedding(model_name=MODEL, api_base=URL, api_key=KEY).get_text_embedding("a")) > 8

    @row("as_structured_llm")
    def _():
        llm.as_structured_llm(person()).complete("My name is Ann, 42.")


def instructor():
    import instructor as package
    import openai as client

    for mode in ("TOOLS", "JSON_SCHEMA"):
        @row(f"mode {mode}")
        def _():
            c = package.from_openai(client.OpenAI(base_url=URL, api_key=KEY, max_retries=0), mode=getattr(package.Mode, mode))
            c.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "My name is Ann. I am 42 years old."}],
                                      response_model=person(), max_retries=0, temperature=0)

    @row("mode JSON")
    def _():
        c = package.from_openai(client.OpenAI(base_url=URL, api_key=KEY, max_retries=0), mode=package.Mode.JSON)
        try:  # the model chooses the members, which the client may not expect, and their number
            c.chat.completions.create(model=MODEL, messages=ASK, response_model=person(), max_retries=0, temperature=0, max_tokens=64)
        except Exception as e:
            assert "validation error" in str(e) or "max_tokens length limit" in str(e), e


def pydantic_ai():
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key=KEY))
    cold = {"temperature": 0, "max_tokens": 64}

    @row("run_sync, stream")
    def _():
        text = Agent(model, model_settings=cold).run_sync(SUM).output
        assert text

        async def pieces():
            async with Agent(model, model_settings=cold).run_stream(SUM) as r:
                return await r.get_output()
        assert asyncio.run(pieces()) == text

    @row("an agent with a tool")
    def _():
        agent = Agent(model, model_settings=cold)
        called = []

        @agent.tool_plain
        def get_weather(city: str) -> str:
            """Get the weather of a city"""
            called.append(city)
            return SUNNY
        assert agent.run_sync(WEATHER).output and called

    @row("output_type")
    def _():
        Agent(model, output_type=person(), model_settings=cold).run_sync("My name is Ann. I am 42 years old.")

    @row("NativeOutput")
    def _():
        Agent(model, output_type=NativeOutput(person()), model_settings=cold).run_sync("My name is Ann. I am 42 years old.")


def openai_agents():
    import openai as client
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool

    def agent(**more):
        c = client.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
        return Agent(name="a", model=OpenAIChatCompletionsModel(MODEL, c), model_settings=ModelSettings(temperature=0, max_tokens=64), **more)

    @row("Runner")
    async def _():
        assert (await Runner.run(agent(), SUM)).final_output

    @row("function_tool")
    async def _():
        done = await Runner.run(agent(tools=[function_tool(get_weather)]), WEATHER)
        assert done.final_output and any("sunny" in str(i) for i in done.to_input_list()), done

    @row("output_type")
    async def _():
        await Runner.run(agent(output_type=person()), "Ann is 42")


def smolagents():
    from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool

    model = OpenAIServerModel(model_id=MODEL, api_base=URL, api_key=KEY, temperature=0, max_tokens=64)

    @tool
    def weather(city: str) -> str:
        """Get the weather of a city

        Args:
            city: the city
        """
        return "sunny"

    @row("model()")
    def _():
        assert model([{"role": "user", "content": [{"type": "text", "text": SUM}]}]).content

    def agent(kind, **more):
        made = kind(tools=[weather], model=model, max_steps=1, verbosity_level=0, **more)
        made.run(WEATHER)
        errors = [str(s.error) for s in made.memory.steps if getattr(s, "error", None)]
        assert not any("400" in e for e in errors), errors

    @row("ToolCallingAgent")
    def _():
        agent(ToolCallingAgent)

    @row("CodeAgent, structured")
    def _():
        agent(CodeAgent, use_structured_outputs_internally=True)


def semantic_kernel():
    import openai as client
    from semantic_kernel import Kernel
    from semantic_kernel.connectors.ai import FunctionChoiceBehavior
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
    from semantic_kernel.contents import ChatHistory
    from semantic_kernel.functions import kernel_function

    called = []

    class Plugin:
        @kernel_function(description="Get the weather of a city")
        def get_weather(self, city: str) -> str:
            called.append(city)
            return SUNNY

    async def ask(text, **more):
        service = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0))
        kernel, history = Kernel(), ChatHistory()
        kernel.add_service(service)
        kernel.add_plugin(Plugin(), "w")
        history.add_user_message(text)
        settings = OpenAIChatPromptExecutionSettings(temperature=0, max_tokens=64, **more)
        return str(await service.get_chat_message_content(history, settings, kernel=kernel))

    @row("chat")
    async def _():
        assert await ask(SUM)

    @row("a plugin, chosen by the model")
    async def _():
        await ask(WEATHER, function_choice_behavior=FunctionChoiceBehavior.Auto())
        assert called


def llm():
    home = tempfile.mkdtemp()
    program = os.path.join(os.path.dirname(sys.executable), "llm")
    with open(os.path.join(home, "extra-openai-models.yaml"), "w") as f:
        f.write(f'- model_id: q\n  model_name: {MODEL}\n  api_base: "{URL}"\n  supports_tools: true\n  supports_schema: true\n'
                f'- model_id: qc\n  model_name: {MODEL}\n  api_base: "{URL}"\n  completion: true\n')

    def ask(*words):
        r = subprocess.run([program, *words, "--key", KEY], capture_output=True, text=True, timeout=100,
                           env={**os.environ, "LLM_USER_PATH": home})
        assert r.returncode == 0, r.stderr[-400:]
        return r.stdout.strip()

    @row("prompt, --no-stream, -c")
    def _():
        text = ask("-m", "q", "-o", "temperature", "0", "-o", "max_tokens", "24", SUM)
        assert text == ask("-m", "q", "--no-stream", "-o", "temperature", "0", "-o", "max_tokens", "24", SUM) != ""
        assert ask("-m", "q", "-o", "max_tokens", "24", "-c", "And 1 more?")

    @row("a completion model")
    def _():
        assert ask("-m", "qc", "-o", "max_tokens", "16", ONCE)

    @row("--functions")
    def _():
        code = "def get_weather(city: str) -> str:\n    'Get the weather of a city'\n    return 'sunny'\n"
        ask("-m", "q", "-o", "temperature", "0", "-o", "max_tokens", "64", "--functions", code, WEATHER)

    @row("--schema")
    def _():
        assert ask("-m", "q", "-o", "temperature", "0", "-o", "max_tokens", "64", "--schema", "name, age int", "Ann is 42").startswith("{")


def huggingface():
    from huggingface_hub import InferenceClient

    c = InferenceClient(base_url=URL, api_key=KEY)

    @row("chat_completion, stream, tools")
    def _():
        text = c.chat_completion(ASK, model=MODEL, temperature=0, max_tokens=24).choices[0].message.content
        pieces = c.chat.completions.create(messages=ASK, model=MODEL, temperature=0, max_tokens=24, stream=True)
        assert "".join(x.choices[0].delta.content or "" for x in pieces if x.choices) == text != ""
        asked = c.chat_completion([{"role": "user", "content": WEATHER}], model=MODEL, tools=[TOOL], tool_choice="auto", temperature=0)
        assert asked.choices[0].message.tool_calls

    @row("response_format")
    def _():
        shape = {"type": "json_schema", "json_schema": {"name": "p", "schema": SHAPE}}
        assert c.chat_completion(ASK, model=MODEL, response_format=shape, max_tokens=64).choices[0].message.content.lstrip().startswith("{")
        shape = {"type": "json_object", "value": {"const": {"a": 7}}}
        assert json.loads(c.chat_completion(ASK, model=MODEL, response_format=shape, max_tokens=64).choices[0].message.content) == {"a": 7}

    tgi = InferenceClient(model=ROOT)

    @row("text_generation")
    def _():
        assert tgi.text_generation(ONCE, max_new_tokens=5)

    @row("text_generation, streamed")
    def _():
        got = list(tgi.text_generation(ONCE, max_new_tokens=5, stream=True, details=True))
        assert len(got) <= 6 and got[-1].generated_text == "".join(e.token.text for e in got)


def ollama():
    import ollama as package

    c = package.Client(host=ROOT)
    calls = {"chat": lambda: c.chat(model=MODEL, messages=ASK), "generate": lambda: c.generate(model=MODEL, prompt="x"),
             "list": c.list, "show": lambda: c.show(MODEL), "embed": lambda: c.embed(model=MODEL, input="a"), "ps": c.ps}
    for name, call in calls.items():
        row(name)(call)


def dspy():
    import dspy as package

    lm = package.LM(f"openai/{MODEL}", api_base=URL, api_key=KEY, temperature=0, max_tokens=48, cache=False)

    @row("LM")
    def _():
        assert lm(SUM)[0]


def haystack():
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    @row("OpenAIChatGenerator")
    def _():
        made = OpenAIChatGenerator(model=MODEL, api_base_url=URL, api_key=Secret.from_token(KEY), generation_kwargs={"max_tokens": 24})
        assert made.run([ChatMessage.from_user(SUM)])["replies"][0].text


def autogen():
    from autogen_agentchat.agents import AssistantAgent
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    @row("AssistantAgent with a tool")
    async def _():
        info = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False, "family": "unknown"}
        client = OpenAIChatCompletionClient(model=MODEL, base_url=URL, api_key=KEY, model_info=info, temperature=0, max_tokens=64)

        async def get_weather(city: str) -> str:
            """Get the weather of a city"""
            return SUNNY
        done = await AssistantAgent("a", model_client=client, tools=[get_weather], reflect_on_tool_use=True).run(task=WEATHER)
        assert any("sunny" in str(m) for m in done.messages) and done.messages[-1].content, done


def lm_eval():
    """Small tasks, defined in this file so that no task is downloaded."""
    home = tempfile.mkdtemp()
    data = os.path.join(home, "data.jsonl")
    with open(data, "w") as f:
        for a, b in ((1, 2), (3, 4), (5, 6)):
            f.write(json.dumps({"q": f"What is {a} + {b}?", "choices": [str(a + b), str(a + b + 1)], "gold": 0}) + "\n")
    common = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\ndoc_to_text: '{{{{q}}}}'\n"
    for name, rest in (("choice", "output_type: multiple_choice\ndoc_to_choice: '{{choices}}'\ndoc_to_target: gold\nmetric_list: [{metric: acc}]\n"),
                       ("write", "output_type: generate_until\ndoc_to_target: '{{choices[0]}}'\ngeneration_kwargs: {until: ['.'], max_gen_toks: 16}\n"
                                 "metric_list: [{metric: exact_match}]\n")):
        with open(os.path.join(home, name + ".yaml"), "w") as f:
            f.write(f"task: {name}\n{common}{rest}")

    def run(task, kind, path, more=""):
        args = f"base_url={URL}/{path},model={MODEL},num_concurrent=1,max_retries=1{more}"
        r = subprocess.run([sys.executable, "-m", "lm_eval", "--model", kind, "--model_args", args, "--tasks", task, "--include_path", home,
                            "--output_path", home, *(["--apply_chat_template"] if "chat" in kind else [])], capture_output=True, text=True,
                           timeout=200, env={**os.environ, "HF_HOME": home})
        assert r.returncode == 0 and f"|{task}" in r.stdout.replace("| ", "|"), (r.stdout + r.stderr)[-800:]

    @row("local-chat-completions, generate_until")
    def _():
        run("write", "local-chat-completions", "chat/completions")

    @row("local-completions, multiple choice, the server's tokenizer")
    def _():
        run("choice", "local-completions", "completions", ",tokenizer_backend=remote")


def guidellm():
    home = tempfile.mkdtemp()
    data = os.path.join(home, "prompts.jsonl")
    with open(data, "w") as f:
        for text in (ONCE, "Tell me a story."):
            f.write(json.dumps({"prompt": text}) + "\n")

    @row("run, synchronous, prompts of a file")
    def _():
        program = os.path.join(os.path.dirname(sys.executable), "guidellm")
        r = subprocess.run([program, "run", "--backend", f"kind=openai_http,target={ROOT},model={MODEL}", "--profile", "kind=synchronous",
                            "--data", f"kind=json_file,path={data}", "--output", f"kind=json,path={home}/out.json"],
                           capture_output=True, text=True, timeout=200, cwd=home)
        assert r.returncode == 0 and os.path.getsize(home + "/out.json") > 100, (r.stdout + r.stderr)[-800:]


if __name__ == "__main__":
    globals()[NAME.replace("-", "_")]()
    sys.exit(bool(failed))
