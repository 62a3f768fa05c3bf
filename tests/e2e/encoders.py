#!/usr/bin/env python3
"""Goal: the endpoints of encoders and rerankers give the vectors of sentence-transformers and the
scores of its CrossEncoder. They reject requests that a model cannot compute. Method: serve the
golden encoders (tests/golden/encoders.py) with f32 arithmetic, and compare with their
expected.json. The bodies have equal answers through `quoth batch`. The limit is 1e-4 of the largest
value."""
import base64
import json
import math
import os
import shutil
import struct
import subprocess
import sys

from server import QUOTH, ROOT, SLOW, TMP, check, near, run, serving_model
from venv_for import python_with

GOLDEN = os.path.join(ROOT, "tests", "golden", "encoders")
F32 = ["--activation-dtype", "f32", "--kv-cache-dtype", "float32"]


def serving(name, *more):
    return serving_model(os.path.join(GOLDEN, name), *F32, *more)


def golden(name):
    with open(os.path.join(GOLDEN, name, "expected.json")) as f:
        return json.load(f)


def vectors(s, texts, **more):
    status, _, answer = s.ask("POST", "/v1/embeddings", {"input": texts, **more})
    check(status == 200, str(answer))
    check([d["index"] for d in answer["data"]] == list(range(len(texts))))
    return [d["embedding"] for d in answer["data"]]


def embeddings():
    """vectors equal those of sentence-transformers"""
    for name in ("bert", "bert-dense", "roberta", "distilbert", "modernbert", "nomic-bert", "sentence-t5", "mt5-encoder",
                 "qwen3-embedding", "qwen3-untied", "gemma-embedding", "bert/model.gguf", "modernbert/model.gguf", "nomic-bert/model.gguf", "gemma-embedding/model.gguf"):
        want = golden(name.split("/")[0])
        with serving(name) as s:
            near(vectors(s, want["texts"]), want["vectors"], name)
            alone = [vectors(s, [t])[0] for t in want["texts"]]
            check(alone == vectors(s, want["texts"]), f"{name}: a text alone has other bits")
            for prompt in (() if name.endswith(".gguf") else ("query", "document")):
                if f"prompt_{prompt}" in want:
                    near(vectors(s, want["texts"][:2], prompt_name=prompt), want[f"prompt_{prompt}"], "a prompt")
            if name == "bert":
                coded = vectors(s, want["texts"][:1], encoding_format="base64")[0]
                got = struct.unpack(f"<{len(want['vectors'][0])}f", base64.b64decode(coded))
                check(list(got) == [struct.unpack("<f", struct.pack("<f", v))[0] for v in alone[0]])
                check(s.ask("POST", "/v1/embeddings", {"input": "a", "prompt_name": "none"})[0] == 400)
                rejections(s)
                scores_of_vectors(s, want)
                pooling(s, want)


def settings():
    """settings of sentence-transformers have the effect that they have there"""
    for name in ("bert", "bert-rerank"):
        with open(os.path.join(GOLDEN, name, "settings.json")) as f:
            for key, case in json.load(f).items():
                changed(name, key, case)


def changed(name, key, case):
    """Serve a golden folder with changed JSON files, and compare its numbers."""
    folder = copied(name, f"{name}-{key}", case["changes"])
    want, texts = case["numbers"], golden(name)
    with serving_model(folder, *F32) as s:
        if "rerank" in name:
            query, others = [p[0] for p in texts["pairs"]], [p[1] for p in texts["pairs"]]
            _, _, answer = s.ask("POST", "/v1/score", {"text_1": query, "text_2": others})
            near([d["score"] for d in answer["data"]], want, key)
            scores = [s.ask("POST", "/rerank", {"query": q, "documents": [d]})[2]["results"][0]["relevance_score"] for q, d in zip(query, others)]
            near(scores, want, f"{key}: /rerank")
            return
        near(vectors(s, texts["texts"]), want, key)
        if key == "prompt-left-out":  # a cut from the left would remove tokens that the pooling leaves out
            cut = {"input": "one two three four five six seven eight nine", "truncate_prompt_tokens": 6}
            status, _, answer = s.ask("POST", "/v1/embeddings", {**cut, "truncation_side": "left"})
            check(status == 400 and answer["error"]["param"] == "truncation_side", answer)
            check(s.ask("POST", "/v1/embeddings", cut)[0] == 200, "a cut from the right")
        _, _, answer = s.ask("POST", "/pooling", {"input": texts["texts"]})
        near([d["data"] for d in answer["data"]], want, f"{key}: /pooling")
        _, _, answer = s.ask("POST", "/score", {"text_1": texts["texts"][0], "text_2": texts["texts"][1]})
        a, b = want[:2]
        near([answer["data"][0]["score"]], [sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)], f"{key}: /score")


def copied(name, to, changes):
    """Return a copy of a golden folder with new fields in its JSON files. A list replaces a file."""
    folder = os.path.join(TMP, to)
    shutil.copytree(os.path.join(GOLDEN, name), folder)
    for file, fields in changes.items():
        path, old = os.path.join(folder, file), {}
        if os.path.exists(path):
            with open(path) as f:
                old = json.load(f)
        if file == "1_Pooling/config.json":
            old = {k: v for k, v in old.items() if not k.startswith("pooling_mode")}
        os.chmod(folder, 0o755)
        if os.path.exists(path):
            os.unlink(path)
        with open(path, "w") as f:
            json.dump({**old, **fields} if isinstance(fields, dict) else fields, f)
    return folder


def lengths():
    """the tokenizer's length limits a text if no other file does; errors name the text"""
    no_length = {"sentence_bert_config.json": {"max_seq_length": None}}
    long = "the cat " * 9
    limited = {**no_length, "tokenizer_config.json": {"model_max_length": 16}}
    for name, changes, limit in (("bert", limited, 16), ("bert", {**no_length, "tokenizer_config.json": {"model_max_length": 10**30}}, None),
                                 ("bert-rerank", {"tokenizer_config.json": {"model_max_length": 16}}, 16),
                                 ("distilbert-class", {"tokenizer_config.json": {"model_max_length": 16}}, 16)):
        with serving_model(copied(name, f"length-{name}-{limit}", changes), *F32) as s:
            asks = {"bert": [("/v1/embeddings", {"input": long}, "input"), ("/score", {"text_1": "a", "text_2": ["b", long]}, "text_2[1]"),
                             ("/rerank", {"query": long, "documents": ["b"]}, "query[0]"), ("/rerank", {"query": "a", "documents": ["b", long]}, "documents[1]")],
                    "bert-rerank": [("/rerank", {"query": "a", "documents": ["b", long]}, "documents[1]"), ("/score", {"text_1": "a", "text_2": long}, "text_2[0]")],
                    "distilbert-class": [("/classify", {"input": long}, "input")]}[name]
            for path, body, place in asks:
                status, _, answer = s.ask("POST", path, body)
                check(status == (400 if limit else 200), f"{name} {path}: {status} {answer}")
                if limit:
                    error = answer["error"]
                    check(error["code"] == "context_length_exceeded" and error["message"].startswith(place), str(answer))
                    check(f"maximum context length is {limit}" in error["message"] and error["param"] == place.split("[")[0], str(answer))


def named():
    """a class without names, messages for an encoder, and heads that are not supported"""
    with serving_model(copied("distilbert-class", "unnamed", {"config.json": {"id2label": None, "label2id": None}}), *F32) as s:
        _, _, answer = s.ask("POST", "/classify", {"input": "the dog ran"})
        status, _, best = s.ask("POST", "/predict", {"inputs": "the dog ran"})
        check(status == 200 and answer["data"][0]["label"] == best[0]["label"] and best[0]["label"].startswith("LABEL_"), f"{answer} {best}")
        check(s.ask("GET", "/info")[2]["model_pipeline_tag"] == "text-classification")
        for path in ("/classify", "/v1/embeddings"):
            status, _, answer = s.ask("POST", path, {"messages": [{"role": "user", "content": "a"}]})
            check(status in (400, 501) and "messages" in answer["error"]["message"], str(answer))
        status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a"})
        check(status in (400, 501) and "/v1/embeddings" in answer["error"]["message"], str(answer))
    folder = copied("bert", "tokens", {"config.json": {"architectures": ["BertForTokenClassification"]}})
    failed = subprocess.run([QUOTH, "inspect", folder], capture_output=True, text=True)
    check(failed.returncode == 1 and "BertForTokenClassification" in failed.stderr, failed.stderr)
    folder = copied("bert", "nomic", {"config.json": {"architectures": ["NomicBertForSequenceClassification"], "model_type": "nomic_bert"}})
    failed = subprocess.run([QUOTH, "inspect", folder], capture_output=True, text=True)
    check(failed.returncode == 1 and "the head of NomicBertForSequenceClassification" in failed.stderr, failed.stderr)
    folder = copied("roberta", "lower", {"modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}],
                                         "sentence_bert_config.json": {"do_lower_case": True}})
    failed = subprocess.run([QUOTH, "convert", folder, "-o", os.path.join(TMP, "lower.gguf")], capture_output=True, text=True)
    check(failed.returncode == 1 and "do_lower_case" in failed.stderr, failed.stderr)
    folder = copied("bert", "message", {"sentence_bert_config.json": {"modality_config": {
        m: {"method": "forward", "method_output_name": "last_hidden_state"} for m in ("text", "message")}}})
    failed = subprocess.run([QUOTH, "inspect", folder], capture_output=True, text=True)
    check(failed.returncode == 1 and "modality_config.message" in failed.stderr, failed.stderr)
    folder = copied("qwen3-untied", "decoder", {})
    for file in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
        os.unlink(os.path.join(folder, file))
    with serving_model(folder, *F32) as s:
        want, texts = golden("qwen3-untied")["vectors"], golden("qwen3-untied")["texts"]
        _, _, answer = s.ask("POST", "/score", {"text_1": texts[0], "text_2": texts[1]})
        near([answer["data"][0]["score"]], [sum(x * y for x, y in zip(*want[:2]))], "a decoder without modules.json")


def converted():
    """GGUF has no keys for some settings"""
    for key, word in (("max", "pooling_mode"), ("prompt-left-out", "include_prompt")):
        with open(os.path.join(GOLDEN, "bert", "settings.json")) as f:
            folder = copied("bert", f"convert-{key}", json.load(f)[key]["changes"])
        failed = subprocess.run([QUOTH, "convert", folder, "-o", folder + ".gguf"], capture_output=True, text=True)
        check(failed.returncode == 1 and word in failed.stderr, failed.stderr)
    for name, key in (("bert", "cut"), ("bert-rerank", "two-inputs"), ("bert-rerank", "identity")):
        with open(os.path.join(GOLDEN, name, "settings.json")) as f:
            case = json.load(f)[key]
        folder = copied(name, f"convert-{name}-{key}", case["changes"])
        r = subprocess.run([QUOTH, "convert", folder, "-o", folder + ".gguf"], capture_output=True, text=True)
        check(r.returncode == 0, r.stderr)
        with serving_model(folder + ".gguf", *F32) as s:
            texts = golden(name)
            if name == "bert":
                near(vectors(s, texts["texts"]), case["numbers"], f"{key} in a GGUF")
                continue
            _, _, answer = s.ask("POST", "/score", {"text_1": [p[0] for p in texts["pairs"]], "text_2": [p[1] for p in texts["pairs"]]})
            near([d["score"] for d in answer["data"]], case["numbers"], f"{key} in a GGUF")


def without_modules():
    """an encoder without sentence-transformers' files has mean pooling"""
    folder = os.path.join(TMP, "plain")
    os.makedirs(folder)
    for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(GOLDEN, "bert", file), folder)
    want = golden("bert")
    with serving(folder) as s:
        near(vectors(s, want["texts"]), want["vectors"], "mean pooling")


def rejections(s):
    """An encoder generates nothing, and a text longer than one step is rejected."""
    for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/completions", {"prompt": "a", "max_tokens": 0, "echo": True, "logprobs": 1})):
        status, _, answer = s.ask("POST", path, body)
        check(status in (400, 501) and "encoder" in answer["error"]["message"], str(answer))
    status, _, answer = s.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
    check(status in (400, 501) and "/v1/embeddings" in answer["error"]["message"], str(answer))
    for words in (["hi"], []):
        r = subprocess.run([QUOTH, "run", os.path.join(GOLDEN, "bert"), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check(r.returncode == 1 and "an encoder generates no text" in r.stderr, r.stderr)
    long = "the cat " * 60
    status, _, answer = s.ask("POST", "/v1/embeddings", {"input": long})
    check(status == 400 and "maximum context length is 64" in answer["error"]["message"], str(answer))
    whole = vectors(s, [long], truncate_prompt_tokens=-1)[0]
    check(whole == vectors(s, ["the cat " * 31], truncate_prompt_tokens=-1)[0], "truncation keeps the first tokens, and the last [SEP]")
    for path in ("/classify",):
        status, _, answer = s.ask("POST", path, {"input": "a"})
        check(status in (400, 501) and "classifier" in answer["error"]["message"], str(answer))


def headless():
    """a decoder without a head generates nothing"""
    for name in ("qwen3-untied", "qwen3-rerank"):
        with serving(name) as s:
            for more in ({}, {"max_tokens": 0, "echo": True, "logprobs": 1}):
                status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "a", **more})
                check(status in (400, 501) and "no language model head" in answer["error"]["message"], str(answer))


def ids_of_a_text_with_bos():
    """quoth tokenize, /tokenize and an embedding have the same ids of a text that begins with BOS"""
    folder = os.path.join(TMP, "bos")
    shutil.copytree(os.path.join(GOLDEN, "qwen3-untied"), folder)
    path = os.path.join(folder, "tokenizer.json")
    with open(path) as f:
        tokenizer = json.load(f)
    tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                   "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                   "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}
    os.remove(path)
    with open(path, "w") as f:
        json.dump(tokenizer, f)
    text = "<s>cat"
    r = subprocess.run([QUOTH, "tokenize", folder, "--json"], input=text, capture_output=True, text=True)
    with serving(folder) as s:
        ids = s.ask("POST", "/tokenize", {"prompt": text})[2]["tokens"]
        check(ids[:2] == [0, 0] and json.loads(r.stdout) == ids, (ids, r.stdout, r.stderr))
        check(s.ask("POST", "/v1/embeddings", {"input": text})[2]["usage"]["prompt_tokens"] == len(ids), str(ids))


def scores_of_vectors(s, want):
    """Scores of a model of embeddings are cosines."""
    texts, v = want["texts"], want["vectors"]
    cosine = lambda a, b: sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)  # noqa: E731
    _, _, answer = s.ask("POST", "/score", {"text_1": texts[0], "text_2": texts[1:4]})
    near([d["score"] for d in answer["data"]], [cosine(v[0], v[i]) for i in (1, 2, 3)], "cosines")
    _, _, answer = s.ask("POST", "/v1/score", {"text_1": texts[:3], "text_2": texts[3:6]})
    near([d["score"] for d in answer["data"]], [cosine(v[i], v[i + 3]) for i in range(3)], "cosines of pairs")
    for first, second in (("queries", "documents"), ("data_1", "data_2"), ("queries", "items")):  # other names of the texts
        _, _, same = s.ask("POST", "/v1/score", {first: texts[:3], second: texts[3:6]})
        check(same["data"] == answer["data"], (first, second, same))
    check(s.ask("POST", "/score", {"text_1": texts[:2], "text_2": texts[:3]})[0] == 400)


def pooling(s, want):
    written = "[CLS] cat"  # the tokenizer's own tokens are still added: [CLS] [CLS] cat [SEP]
    check(s.ask("POST", "/tokenize", {"prompt": written})[2]["count"] == 4, "a text that begins with CLS")
    check(s.ask("POST", "/v1/embeddings", {"input": written})[2]["usage"]["prompt_tokens"] == 4, "a text that begins with CLS")
    status, _, answer = s.ask("POST", "/pooling", {"input": want["texts"]})
    check(status == 200 and answer["data"][0]["object"] == "pooling")
    near([d["data"] for d in answer["data"]], want["vectors"], "/pooling")
    _, _, answer = s.ask("POST", "/pooling", {"input": want["texts"][0], "task": "token_embed"})
    rows = answer["data"][0]["data"]
    check(len(rows) == answer["usage"]["prompt_tokens"] and len(rows[0]) == 32)
    mean = [sum(r[i] for r in rows) / len(rows) for i in range(32)]
    near([x / math.hypot(*mean) for x in mean], want["vectors"][0], "vectors of tokens")


def rerankers():
    """scores equal those of CrossEncoder"""
    for name in ("bert-rerank", "xlm-roberta-rerank", "modernbert-rerank", "modernbert-rerank/model.gguf", "qwen3-rerank", "qwen2-rerank"):
        want = golden(name.split("/")[0])
        with serving(name) as s:
            body = {"text_1": [p[0] for p in want["pairs"]], "text_2": [p[1] for p in want["pairs"]]}
            _, _, answer = s.ask("POST", "/v1/score", body)
            near([d["score"] for d in answer["data"]], want["scores"], name)
            _, _, answer = s.ask("POST", "/score", {**body, "use_activation": False})
            near([d["score"] for d in answer["data"]], want["logits"], f"{name}: logits")
            documents = [want["pairs"][0][1], {"text": want["pairs"][1][1]}]
            for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
                status, _, answer = s.ask("POST", path, {"query": want["pairs"][0][0], "documents": documents})
                check(status == 200, str(answer))
                scores = {r["index"]: r["relevance_score"] for r in answer["results"]}
                near([scores[0], scores[1]], want["scores"][:2], path)
                order = [r["relevance_score"] for r in answer["results"]]
                check(order == sorted(order, reverse=True) and answer["results"][0]["document"]["text"] in want["pairs"][0] + want["pairs"][1])
                check(answer["usage"]["total_tokens"] > 0 and answer["id"].startswith("rerank-"))
            _, _, answer = s.ask("POST", "/rerank", {"query": "x", "documents": documents, "top_n": 1, "return_documents": False})
            check(len(answer["results"]) == 1 and "document" not in answer["results"][0])
            for wrong in ({"documents": ["a"]}, {"query": "a"}, {"query": "a", "documents": []}, {"query": ["a"], "documents": ["a"]},
                          {"query": "a", "documents": [1]}, {"query": "a", "documents": ["b"], "truncate_prompt_tokens": 1}):
                check(s.ask("POST", "/rerank", wrong)[0] == 400, str(wrong))
            long = "the cat " * 60
            check(s.ask("POST", "/score", {"text_1": "x", "text_2": long})[0] == 400)
            check(s.ask("POST", "/score", {"text_1": "x", "text_2": long, "truncate_prompt_tokens": -1})[0] == 200)


def regression():
    """problem_type has an effect on classes, not on scores, as in CrossEncoder and vLLM"""
    want = golden("qwen3-rerank")
    with serving_model(copied("qwen3-rerank", "regression", {"config.json": {"problem_type": "regression"}}), *F32) as s:
        first, second = [p[0] for p in want["pairs"]], [p[1] for p in want["pairs"]]
        _, _, answer = s.ask("POST", "/score", {"text_1": first, "text_2": second})
        near([d["score"] for d in answer["data"]], want["scores"], "/score")
        _, _, answer = s.ask("POST", "/rerank", {"query": first[0], "documents": second[:1]})
        near([answer["results"][0]["relevance_score"]], want["scores"][:1], "/rerank")
        number = {task: s.ask("POST", "/pooling", {"input": "a", "task": task})[2]["data"][0]["data"][0] for task in ("classify", "score")}
        near([number["score"]], [1 / (1 + math.exp(-number["classify"]))], "/pooling")
        _, _, answer = s.ask("POST", "/classify", {"input": "a"})
        check(answer["data"][0]["probs"] == [number["classify"]], answer)


def yes_and_no():
    """a Qwen3-Reranker's scores equal those of the program on its model card"""
    want = golden("qwen3-yes-no")
    overrides = {"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": True}
    with serving("qwen3-yes-no", "--hf-overrides", json.dumps(overrides)) as s:
        first, second = [p[0] for p in want["pairs"]], [p[1] for p in want["pairs"]]
        for expected, texts, more in (
                ("scores", first, {}), ("scores_1", [f"<Instruct>: {want['instruction']}\n<Query>: {q}" for q in first], {}),
                ("scores_2", first, {"truncate_prompt_tokens": want["n_max"]})):
            _, _, answer = s.ask("POST", "/v1/score", {"text_1": texts, "text_2": second, **more})
            near([d["score"] for d in answer["data"]], want[expected], expected)
        status, _, answer = s.ask("POST", "/v1/rerank", {"query": first[0], "documents": second[:2]})
        check(status == 200 and sorted(r["relevance_score"] for r in answer["results"]) == [r["relevance_score"] for r in answer["results"]][::-1])
        near([{r["index"]: r["relevance_score"] for r in answer["results"]}[i] for i in (0, 1)], want["scores"][:2], "/v1/rerank")
        _, _, answer = s.ask("POST", "/tokenize", {"prompt": "yes"})
        check(answer["count"] == 1)
        written = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that '
                   'the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Find cats\n<Query>: ' + first[0] + "\n")
        tail = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        body = {"text_1": written, "text_2": f"<Document>: {second[0]}{tail}"}
        _, _, answer = s.ask("POST", "/score", body)
        near([answer["data"][0]["score"]], want["scores_1"][:1], "a whole prompt")
        for wrong in ({"truncate_prompt_tokens": 20, "text_1": "a", "text_2": "b"}, {**body, "truncate_prompt_tokens": 20}):
            check(s.ask("POST", "/score", wrong)[0] == 400)
        check(s.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200)
    for wrong, word in (({"classifier_from_token": ["no"], "method": "from_2_way_softmax"}, "2 tokens"), ({"classifier_from_token": ["no", "maybe"]}, "maybe"),
                        ({"classifier_from_token": ["no", "yes"]}, "method"), ({"is_original_qwen3_reranker": True}, "list of 1 to"),
                        ({"text_config": {}}, "text_config"), ({"vocab_size": 3}, "vocab_size")):
        failed = subprocess.run([QUOTH, "run", os.path.join(GOLDEN, "qwen3-yes-no"), "a", "--hf-overrides", json.dumps(wrong)], capture_output=True, text=True)
        check(failed.returncode == 1 and word in failed.stderr, f"{wrong}: {failed.stderr}")
    failed = subprocess.run([QUOTH, "run", os.path.join(GOLDEN, "bert", "model.gguf"), "a", "--hf-overrides", '{"a": 1}'], capture_output=True, text=True)
    check(failed.returncode == 1 and "config.json" in failed.stderr, failed.stderr)


def classes():
    """probabilities of labels equal the reference's"""
    for name in ("distilbert-class", "llama-class", "gemma-class"):
        labels_of(name)


def labels_of(name):
    want = golden(name)
    with serving(name) as s:
        _, _, answer = s.ask("POST", "/classify", {"input": want["texts"]})
        near([d["probs"] for d in answer["data"]], want["probs"], "/classify")
        labels = [want["labels"][p.index(max(p))] for p in want["probs"]]
        check([d["label"] for d in answer["data"]] == labels and answer["data"][0]["num_classes"] == 3)
        _, _, answer = s.ask("POST", "/classify", {"input": want["texts"], "use_activation": False})
        near([d["probs"] for d in answer["data"]], want["logits"], "/classify without activation")
        check(s.ask("POST", "/score", {"text_1": "a", "text_2": "b"})[0] in (400, 501), "three labels are no score")


def tei_failed(answer, word):
    """Check a rejection in TEI's form."""
    status, _, body = answer
    check(status in (400, 501) and list(body) == ["error", "error_type"] and body["error_type"] in ("Validation", "Backend"), str(answer))
    check(word in body["error"], str(body))


def tei():
    """TEI's /embed, /predict, /rerank and / give the numbers of the other endpoints"""
    want = golden("bert")
    length = lambda v: math.hypot(*v)  # noqa: E731
    with serving("bert") as s:
        ask = lambda path="/embed", **body: s.ask("POST", path, body)  # noqa: E731
        for path in ("/embed", "/"):
            status, headers, answer = ask(path, inputs=want["texts"])
            check(status == 200 and headers["Content-Type"] == "application/json", str(answer))
            near(answer, want["vectors"], path)
        texts = want["texts"][:2]
        whole = ask(inputs=texts)[2]
        check(ask(inputs=texts[0])[2] == whole[:1] == ask(inputs=texts[:1])[2])
        ids = s.ask("POST", "/tokenize", {"prompt": texts[0]})[2]["tokens"]
        check(ask(inputs=[ids])[2] == whole[:1])
        raw = ask(inputs=texts, normalize=False)[2]
        check(abs(length(whole[0]) - 1) < 1e-5 < abs(length(raw[0]) - 1), f"{length(whole[0])} {length(raw[0])}")
        short = ask(inputs=texts, dimensions=8)[2]
        check([len(v) for v in short] == [8, 8] and abs(length(short[0]) - 1) < 1e-5)
        near(ask(inputs=texts, prompt_name="query")[2], want["prompt_query"], "prompt_name")
        long, end = "the cat " * 60, "a dog " * 40
        tei_failed(ask(inputs=long), "maximum context length is 64")
        check(ask(inputs=long, truncate=True)[2] == ask(inputs="the cat " * 31)[2], "truncate")
        check(ask(inputs=long + end, truncate=True, truncation_direction="Left")[2] == ask(inputs="a dog " * 31)[2], "left")
        check(ask(inputs=end + long, truncate=True, truncation_direction="right")[2] == ask(inputs="a dog " * 31)[2], "right")
        for wrong, word in (({}, "inputs"), ({"inputs": []}, "inputs"), ({"inputs": [1.5]}, "inputs"), ({"inputs": {"a": 1}}, "inputs"),
                            ({"inputs": "a", "truncate": "yes"}, "truncate"), ({"inputs": "a", "truncation_direction": "up"}, "truncation_direction"),
                            ({"inputs": "a", "dimensions": 1000}, "dimensions"), ({"inputs": "a", "prompt_name": "none"}, "prompt_name"),
                            ({"inputs": ["a"] * 2049}, "2048")):
            tei_failed(ask(**wrong), word)
        tei_failed(ask("/predict", inputs="a"), "classifier")
    want = golden("distilbert-class")
    with serving("distilbert-class") as s:
        ask = lambda path="/predict", **body: s.ask("POST", path, body)[2]  # noqa: E731
        for raw, numbers in ((False, want["probs"]), (True, want["logits"])):
            for path in ("/predict", "/"):
                got = ask(path, inputs=[[t] for t in want["texts"]], raw_scores=raw)
                for row, expected in zip(got, numbers, strict=True):
                    best = sorted(zip(expected, want["labels"]), reverse=True)
                    check([r["label"] for r in row] == [label for _, label in best], f"{row} {best}")
                    near([r["score"] for r in row], [score for score, _ in best], path)
        check(ask(inputs=want["texts"][0]) == ask(inputs=[want["texts"][0]]) == ask(inputs=[[want["texts"][0]]])[0])
        for wrong in ([], [[]], [["a", "b", "c"]], [1], [["a", 1]], None):
            tei_failed(s.ask("POST", "/predict", {"inputs": wrong}), "inputs")
        tei_failed(s.ask("POST", "/predict", {"inputs": ["a", "b"], "truncate": True, "truncation_direction": "Left"}), "truncation_direction")
    want = golden("bert-rerank")
    with serving("bert-rerank") as s:
        query, pairs = want["pairs"][0][0], want["pairs"][:2]
        got = s.ask("POST", "/predict", {"inputs": pairs})[2]
        near([row[0]["score"] for row in got], want["scores"][:2], "/predict of pairs")
        for raw, numbers in ((False, want["scores"]), (True, want["logits"])):
            for path in ("/rerank", "/"):
                got = s.ask("POST", path, {"query": query, "texts": [p[1] for p in pairs], "raw_scores": raw})[2]
                check(got == sorted(got, key=lambda r: -r["score"]) and list(got[0]) == ["index", "score"], str(got))
                near([{r["index"]: r["score"] for r in got}[i] for i in (0, 1)], numbers[:2], path)
        got = s.ask("POST", "/rerank", {"query": query, "texts": [p[1] for p in pairs], "return_text": True})[2]
        check(all(r["text"] == pairs[r["index"]][1] for r in got), str(got))
        long = "the cat " * 60
        check(s.ask("POST", "/rerank", {"query": "x", "texts": [long]})[0] == 400)
        check(s.ask("POST", "/rerank", {"query": "x", "texts": [long], "truncate": True})[0] == 200)
        for wrong in ({"texts": ["a"]}, {"query": "a", "texts": []}, {"query": "a", "texts": [1]}, {"query": ["a"], "texts": ["a"]}):
            check(s.ask("POST", "/rerank", wrong)[0] == 400, str(wrong))


def tei_client():
    """InferenceClient of huggingface_hub works with a server of embeddings"""
    python, why = python_with("venv-tei", {"huggingface_hub": "huggingface_hub==2.4.0", "numpy": "numpy"})
    if not python:
        return why
    want = golden("bert")
    script = """
import json, sys
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
want = json.load(sys.stdin)
found = {}
for path in ("", "/embed"):
    client = InferenceClient(model=sys.argv[1] + path)
    got = client.feature_extraction(want["texts"][0], normalize=True)
    assert got.shape == (1, len(want["vectors"][0])), got.shape
    found[path] = got[0].tolist()
    assert client.feature_extraction(want["texts"][0], prompt_name="query", truncate=True, truncation_direction="right").shape == got.shape
try:
    client.feature_extraction("a", prompt_name="none")
    raise AssertionError("accepted")
except HfHubHTTPError as e:
    assert e.response.status_code == 400, e
print(json.dumps(found))
"""
    with serving("bert") as s:
        ran = subprocess.run([python, "-c", script, f"http://127.0.0.1:{s.port}"], input=json.dumps(want), capture_output=True, text=True, timeout=120,
                             env={**os.environ, "HF_HUB_OFFLINE": "0", "no_proxy": "127.0.0.1"})
    check(ran.returncode == 0, ran.stderr[-800:])
    for path, vector in json.loads(ran.stdout).items():
        near(vector, want["vectors"][0], f"feature_extraction of {path}")


def batch():
    """a batch file gives the server's scores"""
    want = golden("bert-rerank")
    query, documents = want["pairs"][0][0], [p[1] for p in want["pairs"][:2]]
    lines = [{"custom_id": "r", "method": "POST", "url": "/v1/rerank", "body": {"query": query, "documents": documents}},
             {"custom_id": "s", "method": "POST", "url": "/score", "body": {"text_1": want["pairs"][2][0], "text_2": want["pairs"][2][1]}}]
    path, out = os.path.join(TMP, "in.jsonl"), os.path.join(TMP, "out.jsonl")
    with open(path, "w") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    subprocess.run([QUOTH, "batch", os.path.join(GOLDEN, "bert-rerank"), "-i", path, "-o", out, *F32], check=True, capture_output=True, timeout=120)
    with open(out) as f:
        got = {line["custom_id"]: line["response"]["body"] for line in map(json.loads, f)}
    near([got["s"]["data"][0]["score"]], [want["scores"][2]], "a batch's score")
    scores = {r["index"]: r["relevance_score"] for r in got["r"]["results"]}
    near([scores[0], scores[1]], want["scores"][:2], "a batch's ranking")


PYTHON = """
import json, os, sys
from quoth import LLM, PoolingParams
def options(name):
    return {"model": sys.argv[1] + "/" + name, "activation_dtype": "f32", "kv_cache_dtype": "float32"}
def refused(call):
    try:
        call()
    except ValueError as e:
        return str(e)
    raise AssertionError("accepted")
want = json.load(sys.stdin)
logits = PoolingParams(use_activation=False)
with LLM(**options("bert-rerank")) as llm:
    pairs = want["bert-rerank"]["pairs"]
    first, second = [p[0] for p in pairs], [p[1] for p in pairs]
    found = {"scores": [o.outputs.score for o in llm.score(first, second, use_tqdm=False)],
             "many": [o.outputs.score for o in llm.score(first * 20, second * 20, use_tqdm=False)],
             "one": [o.outputs.score for o in llm.score(first[0], second[:2], use_tqdm=False)],
             "logits": [o.outputs.score for o in llm.score(first, second, use_tqdm=False, pooling_params=logits)]}
    assert "data_1" in refused(lambda: llm.score(first[:2], second[:3]))
with LLM(**options("distilbert-class")) as llm:
    outputs = llm.classify(want["distilbert-class"]["texts"], use_tqdm=False)
    found["probs"] = [o.outputs.probs for o in outputs]
    assert outputs[0].outputs.num_classes == 3 and outputs[0].prompt_token_ids[0] == 2
    found["encoded"] = [o.outputs.data for o in llm.encode(want["distilbert-class"]["texts"], use_tqdm=False, pooling_task="classify")]
with LLM(**options("bert")) as llm:
    texts = want["bert"]["texts"]
    found["vectors"] = [o.outputs.data for o in llm.encode(texts, use_tqdm=False)]
    rows = llm.encode(texts[0], use_tqdm=False, pooling_task="token_embed")[0]
    assert len(rows.outputs.data) == len(rows.prompt_token_ids)
    assert "classifier" in refused(lambda: llm.classify(texts, use_tqdm=False))
    assert "task" in refused(lambda: llm.encode(texts, use_tqdm=False, pooling_task="none"))
    for wrong in (lambda: llm.chat([{"role": "user", "content": "a"}]), lambda: llm.generate("a", use_tqdm=False)):
        assert "encoder, which generates no text" in refused(wrong), refused(wrong)
for key in sys.argv[2:]:
    with LLM(key, activation_dtype="f32", kv_cache_dtype="float32") as llm:
        name = os.path.basename(key)
        found[name] = [o.outputs.embedding for o in llm.embed(texts, use_tqdm=False)]
        found[name + " encode"] = [o.outputs.data for o in llm.encode(texts, use_tqdm=False)]
        assert llm.embed(texts[0], use_tqdm=False)[0].prompt_token_ids == llm.encode(texts[0], use_tqdm=False)[0].prompt_token_ids
with LLM(**options("qwen3-yes-no"), hf_overrides={"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": True}) as llm:
    pairs = want["qwen3-yes-no"]["pairs"]
    found["yes"] = [o.outputs.score for o in llm.score([p[0] for p in pairs], [p[1] for p in pairs], use_tqdm=False)]
print(json.dumps(found))
"""


def python():
    """LLM.score, classify and encode give the server's numbers"""
    want = {name: golden(name) for name in ("bert-rerank", "distilbert-class", "bert", "qwen3-yes-no")}
    env = {**os.environ, "QUOTH_LIBRARY": os.path.join(os.path.dirname(QUOTH), "libquoth.so"), "PYTHONPATH": os.path.join(ROOT, "python"),
           "PYTHONDONTWRITEBYTECODE": "1"}
    with open(os.path.join(GOLDEN, "bert", "settings.json")) as f:
        cases = json.load(f)
    keys = ("prompt", "prompt-left-out", "cut", "six")
    folders = [copied("bert", f"python-{key}", cases[key]["changes"]) for key in keys]
    ran = subprocess.run([sys.executable, "-c", PYTHON, GOLDEN, *folders], input=json.dumps(want), env=env, capture_output=True, text=True, timeout=120)
    check(ran.returncode == 0, ran.stderr)
    found, scores = json.loads(ran.stdout), want["bert-rerank"]["scores"]
    near(found["scores"], scores, "LLM.score")
    check(found["many"] == found["scores"] * 20 and found["one"] == found["scores"][:2], "scores depend on their neighbours")
    near(found["logits"], want["bert-rerank"]["logits"], "LLM.score without activation")
    near(found["probs"], want["distilbert-class"]["probs"], "LLM.classify")
    check(found["encoded"] == found["probs"])
    near(found["vectors"], want["bert"]["vectors"], "LLM.encode")
    for key in keys:
        near(found[f"python-{key}"], cases[key]["numbers"], f"LLM.embed: {key}")
        near(found[f"python-{key} encode"], cases[key]["numbers"], f"LLM.encode: {key}")
    near(found["yes"], want["qwen3-yes-no"]["scores"], "hf_overrides")


run([embeddings, settings, lengths, named, converted, without_modules, headless, ids_of_a_text_with_bos, rerankers, regression, yes_and_no, classes, tei, tei_client, batch, *([] if SLOW else [python])])
