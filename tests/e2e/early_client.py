"""Test streams of the official packages that wait for a model, with the server at argv[1]. argv[2]:
"answers" or "errors", the end of the wait. Run by early.py."""
import sys
import threading

import anthropic
import huggingface_hub
import ollama
import openai

URL, HOW = sys.argv[1], sys.argv[2]
ASK = [{"role": "user", "content": "What is 47 + 38?"}]
own = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
claude = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0)


def chat():
    return "".join(c.choices[0].delta.content or "" for c in own.chat.completions.create(model="tiny", messages=ASK, temperature=0, stream=True))


def responses():
    with own.responses.stream(model="tiny", input=ASK, temperature=0) as s:
        for _ in s:
            pass
        return s.get_final_response().output_text


def messages():
    with claude.messages.stream(model="tiny", max_tokens=40, messages=ASK, extra_body={"temperature": 0}) as s:
        return s.get_final_text()


def ollama_chat():
    return "".join(c.message.content for c in ollama.Client(URL).chat(model="tiny", messages=ASK, stream=True, options={"temperature": 0}))


def ollama_generate():
    return "".join(c.response for c in ollama.Client(URL).generate(model="tiny", prompt="What is 47 + 38?", stream=True, options={"temperature": 0}))


def tgi():
    # the base URL of the client selects TGI's path, which has no field for the model
    client = huggingface_hub.InferenceClient(URL + "/v1", api_key="any")
    return "".join(c.choices[0].delta.content or "" for c in client.chat_completion(model="tiny", messages=ASK, stream=True, temperature=0))


ERRORS = {chat: openai.APIError, responses: openai.APIError, messages: anthropic.APIStatusError, ollama_chat: ollama.ResponseError,
          ollama_generate: ollama.ResponseError, tgi: Exception}
failed = []


def attempt(call):
    try:
        got = call()
        ok = HOW == "answers" and "85" in got
    except Exception as e:
        got = f"{type(e).__name__}: {e}"
        ok = HOW == "errors" and isinstance(e, ERRORS[call]) and "unloaded" in str(e)
    print(f"{call.__name__}: {got}")
    if not ok:
        failed.append(call.__name__)


print("ready", flush=True)
sys.stdin.readline()  # the requests begin after the other model is busy
threads = [threading.Thread(target=attempt, args=(call,)) for call in ERRORS]
for t in threads:
    t.start()
for t in threads:
    t.join()
sys.exit(f"failed: {failed}" if failed else 0)
