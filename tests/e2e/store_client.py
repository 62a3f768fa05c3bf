"""Test the administration of models by the official ollama package: the server at argv[1], the
registry argv[2], and a GGUF file argv[3]. Run by store.py."""
import sys

import ollama

client, at, gguf = ollama.Client(host=sys.argv[1]), sys.argv[2], sys.argv[3]
SUM = [{"role": "user", "content": "What is 47 + 38?"}]


def fails(status, word, call):
    """Check that a call raises ResponseError."""
    try:
        got = call()
        got = got if isinstance(got, (ollama.ProgressResponse, ollama.StatusResponse)) else list(got)
    except ollama.ResponseError as e:
        assert e.status_code == status and word in e.error, (e.status_code, e.error)
        return
    raise AssertionError(f"accepted: {got}")


def names():
    return sorted(m.model for m in client.list().models)


# pull
steps = list(client.pull(at + "tiny", stream=True))
assert steps[0].status == "pulling manifest" and steps[-1].status == "success", steps
assert any(x.digest and x.total == x.completed for x in steps), steps
assert client.pull(at + "tiny").status == "success" and names() == [at + "tiny:latest"]
fails(404, "not found", lambda: client.pull(at + "none"))
fails(404, "not found", lambda: client.pull(at + "none", stream=True))
assert client.chat(model=at + "tiny", messages=SUM, options={"num_predict": 4}).message.content

# create
assert client.create("mario", from_=at + "tiny", system="You are Mario.", parameters={"temperature": 0}, license="MIT").status == "success"
assert list(client.create("few", from_="mario", messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], stream=True))[-1].status == "success"
fails(404, "'none:latest' not found", lambda: client.create("x", from_="none"))
fails(400, "template", lambda: client.create("x", from_="mario", template="{{ .Prompt }}"))
digest = client.create_blob(gguf)
assert client.create("own", files={"own.gguf": digest}).status == "success"
fails(404, "not found", lambda: client.create("x", files={"x.gguf": "sha256:" + "0" * 64}))
assert client.chat(model="own", messages=SUM, options={"num_predict": 4}).message.content

# a client reads what it has created
shown = client.show("mario")
assert shown.license == "MIT" and "SYSTEM You are Mario.\n" in shown.modelfile and "PARAMETER temperature 0\n" in shown.modelfile, shown.modelfile
assert "MESSAGE user a\nMESSAGE assistant b\n" in client.show("few").modelfile

# copy
assert client.copy("mario", "luigi").status == "success"
assert client.show("luigi").modelinfo and names() == sorted([at + "tiny:latest", "few:latest", "luigi:latest", "mario:latest", "own:latest"])
fails(404, "'none:latest' not found", lambda: client.copy("none", "b"))

# delete
for name in ("few", "luigi", "mario", "own", at + "tiny"):
    assert client.delete(name).status == "success"
assert names() == []
fails(404, "not found", lambda: client.delete("mario"))
