#!/usr/bin/env python3
"""Make the golden encoders: tiny random models with the results of transformers and
sentence-transformers.

    tests/golden/encoders.py [NAME...]     makes all, or the named folders, in tests/golden/encoders

Each folder has:

- config.json, model.safetensors, tokenizer.json and the files of sentence-transformers;
- model.gguf (some), with the keys and names of llama.cpp's converter;
- published.json (nomic-bert): the model's config.json in the spelling of the published files; -
tokens.i32 [40], hidden.f32 [40, d]: random ids, and the final hidden states of transformers. If the
model has several segments, the second segment begins at token 25;
- padded.i32 [40], padded.f32 [40, d] (RoBERTa): as tokens.i32 and hidden.f32, with padding tokens
  within the text, which have a position of their own;
- expected.json: texts with the vectors of sentence-transformers, or pairs of texts with the scores
  of its CrossEncoder;
- settings.json (bert, bert-rerank): the same numbers after changes of the folder's JSON files.

Weights come from numpy's frozen RandomState. References are computed in float64 if the library
supports it. The script needs torch, transformers 5, sentence-transformers, gguf and numpy, which
make.py explains. """
import copy
import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent / "encoders"
N_TOKEN, SEGMENT1 = 40, 25
TEXTS = ["A cat sat on the mat.", "the dog ran", "Paris is the capital of France", "x", "Caf\u00e9 na\u00efve, 42!",
         "What is the capital of France?", "On the mat a cat sat, and the dog ran on and on, to the capital."]
PAIRS = [["What is the capital of France?", "Paris is the capital of France"], ["What is the capital of France?", "A cat sat on the mat."],
         ["the dog ran", "x"], ["x", "On the mat a cat sat, and the dog ran on and on."]]
WORDS = "the cat sat on mat dog ran paris is capital of france what a and to".split()
SMALL = dict(num_hidden_layers=2, hidden_size=32, intermediate_size=48, num_attention_heads=4)


def word_pieces():
    """Return BERT's special tokens, words, characters and inner characters."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + list("0123456789")
    return (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS + [c for c in letters if c not in WORDS] + ["##" + c for c in letters]
            + list(".,!?") + ["##at", "##an", "##is"])


def bert_tokenizer(out, cls=None):
    """Write a WordPiece tokenizer. cls: class of transformers."""
    vocab = {w: i for i, w in enumerate(word_pieces())}
    (cls or transformers.BertTokenizerFast)(vocab=vocab, model_max_length=64).save_pretrained(out)
    return len(vocab)


def byte_level_vocab():
    """Return the ids of the tokens, and the merges."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] + alphabet + ["th", "the", "\u0120a", "\u0120the"]
    return {t: i for i, t in enumerate(tokens)}, [("t", "h"), ("th", "e"), ("\u0120", "a"), ("\u0120", "the")]


def modern_tokenizer(out, cls=None):
    """Write a byte-level BPE tokenizer with BERT's template."""
    return byte_level_tokenizer(out, template="<s> $A </s> $B </s>")


def byte_level_tokenizer(out, cls=None, template=None):
    """Write a byte-level BPE tokenizer with RoBERTa's template, or with a template for pairs."""
    vocab, merges = byte_level_vocab()
    t = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    if template is None:
        t.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    else:
        t.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", pair=template, special_tokens=[("<s>", 0), ("</s>", 2)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", sep_token="</s>", cls_token="<s>",
                                                unk_token="<unk>", pad_token="<pad>", mask_token="<mask>", model_max_length=60)
    fast.save_pretrained(out)
    return len(vocab)


def unigram_tokenizer(out, cls=None):
    """Write a Unigram tokenizer with XLM-RoBERTa's template."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -3.0)]
    pieces += [("\u2581" + w, -4.0 - i / 10) for i, w in enumerate(WORDS)]
    pieces += [(c, -6.0 - i / 100) for i, c in enumerate("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?")]
    pieces += [("at", -4.5), ("an", -4.6), ("<mask>", 0.0)]
    t = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=3, byte_fallback=False))
    t.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    t.decoder = tokenizers.decoders.Metaspace()
    t.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", sep_token="</s>", cls_token="<s>",
                                                unk_token="<unk>", pad_token="<pad>", mask_token="<mask>", model_max_length=60)
    fast.save_pretrained(out)
    return len(pieces)


def t5_pieces():
    """Return the pieces and their scores."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -3.0)]
    pieces += [("\u2581" + w, -4.0 - i / 10) for i, w in enumerate(WORDS)]
    return pieces + [(c, -6.0 - i / 100) for i, c in enumerate("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?:")]


def t5_tokenizer(out, cls=None):
    """Write a Unigram tokenizer with T5's template."""
    pieces = t5_pieces()
    t = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2, byte_fallback=False))
    t.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    t.decoder = tokenizers.decoders.Metaspace()
    t.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
                                         model_max_length=60).save_pretrained(out)
    return len(pieces)


def reranker_tokenizer(out, cls=None):
    """Write a byte-level BPE tokenizer with Qwen3's special tokens, and "yes" and "no"."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {t: i for i, t in enumerate(alphabet + ["es", "yes", "no", "th", "the", "\u0120the"])}
    t = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=[("e", "s"), ("y", "es"), ("n", "o"), ("t", "h"), ("th", "e"), ("\u0120", "the")]))
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens(["<think>", "</think>"])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=1024)
    fast.save_pretrained(out)
    return len(fast)


# cls: class of transformers.
# config: configuration of the model.
# pooling: pooling of sentence-transformers.
# dense: Dense layers after the pooling (size, activation, bias).
# normalize: true if the last module is Normalize.
# score: true for a classifier; num_labels in config is its number of labels.
# norm_add: number that the class adds to weights of norms.
# dtype: number format of the file's tensors (default bfloat16).
BERT = dict(SMALL, max_position_embeddings=64, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0)
ROBERTA = dict(SMALL, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2)
DISTIL = dict(dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64, pad_token_id=0)
MODERN = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, max_position_embeddings=64, local_attention=12,
              norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2, global_attn_every_n_layers=3)
DECODER = dict(SMALL, num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rms_norm_eps=1e-6, bos_token_id=0, eos_token_id=2,
               pad_token_id=1)
GEMMA = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=7, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             max_position_embeddings=64, query_pre_attn_scalar=8, sliding_window=13, use_bidirectional_attention=True, pad_token_id=1,
             bos_token_id=0, eos_token_id=2, rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=100000.0),
                                                                  sliding_attention=dict(rope_type="default", rope_theta=1000.0)))
T5 = dict(d_model=24, d_kv=8, d_ff=32, num_layers=3, num_heads=2, relative_attention_num_buckets=8, relative_attention_max_distance=128, n_positions=64,
          pad_token_id=0, eos_token_id=1)
MODELS = {
    "bert": dict(cls=transformers.BertModel, seed=1, dtype="float32", tokenizer=bert_tokenizer, arch="bert", pooling="mean", normalize=True,
                 prompts={"query": "what is ", "passage": ""}, config=BERT),
    "bert-dense": dict(cls=transformers.BertModel, seed=2, tokenizer=bert_tokenizer, pooling="cls",
                       dense=[(20, "activation.Tanh", True)],
                       config=dict(BERT, hidden_act="gelu_new", num_attention_heads=2)),
    "bert-rerank": dict(cls=transformers.BertForSequenceClassification, seed=3, tokenizer=bert_tokenizer, score=True,
                        config=dict(BERT, num_labels=1)),
    "roberta": dict(cls=transformers.RobertaModel, seed=4, tokenizer=byte_level_tokenizer, pooling="mean", normalize=True, config=ROBERTA),
    "xlm-roberta-rerank": dict(cls=transformers.XLMRobertaForSequenceClassification, seed=5, tokenizer=unigram_tokenizer, score=True,
                               config=dict(ROBERTA, num_labels=1)),
    "distilbert": dict(cls=transformers.DistilBertModel, seed=6, tokenizer=bert_tokenizer, pooling="mean", config=DISTIL),
    "distilbert-class": dict(cls=transformers.DistilBertForSequenceClassification, seed=7, tokenizer=bert_tokenizer, score=True,
                             config=dict(DISTIL, id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2})),
    "modernbert": dict(cls=transformers.ModernBertModel, seed=8, tokenizer=modern_tokenizer, arch="modern-bert", pooling="cls", normalize=True, config=MODERN),
    "modernbert-rerank": dict(cls=transformers.ModernBertForSequenceClassification, seed=9, tokenizer=modern_tokenizer, arch="modern-bert",
                              score=True, config=dict(MODERN, num_labels=1, classifier_pooling="mean")),
    "nomic-bert": dict(cls=transformers.NomicBertModel, seed=10, tokenizer=bert_tokenizer, arch="nomic-bert", pooling="mean", normalize=True,
                       config=dict(SMALL, max_position_embeddings=64, type_vocab_size=2, pad_token_id=0)),
    "qwen3-embedding": dict(cls=transformers.Qwen3Model, seed=11, tokenizer=byte_level_tokenizer, pooling="last", normalize=True, decoder=True,
                            config=dict(DECODER, tie_word_embeddings=True)),
    "qwen3-untied": dict(cls=transformers.Qwen3Model, seed=12, tokenizer=byte_level_tokenizer, pooling="last", normalize=True, decoder=True,
                         config=dict(DECODER, tie_word_embeddings=False)),
    "qwen3-rerank": dict(cls=transformers.Qwen3ForSequenceClassification, seed=13, tokenizer=byte_level_tokenizer, score=True,
                         config=dict(DECODER, num_labels=1, tie_word_embeddings=True)),
    "qwen3-yes-no": dict(cls=transformers.Qwen3ForCausalLM, seed=16, tokenizer=reranker_tokenizer, score=True, yes_no=True,
                         config=dict(DECODER, max_position_embeddings=1024, tie_word_embeddings=True)),
    "llama-class": dict(cls=transformers.LlamaForSequenceClassification, seed=14, tokenizer=byte_level_tokenizer, score=True,
                        config=dict(DECODER, id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2})),
    "qwen2-rerank": dict(cls=transformers.Qwen2ForSequenceClassification, seed=15, tokenizer=byte_level_tokenizer, score=True,
                         config=dict(DECODER, num_labels=1)),
    "gemma-embedding": dict(cls=transformers.Gemma3TextModel, seed=17, tokenizer=byte_level_tokenizer, arch="gemma-embedding", pooling="mean",
                            normalize=True, norm_add=1, dense=[(48, "linear.Identity", False), (32, "linear.Identity", False)],
                            prompts={"query": "task: search result | query: ", "document": "title: none | text: "}, config=GEMMA),
    # version 1.0 and Dense, like Sentence-T5 and GTR
    "sentence-t5": dict(cls=transformers.T5EncoderModel, seed=19, tokenizer=t5_tokenizer, arch="t5encoder", pooling="mean", normalize=True,
                        dense=[(20, "linear.Identity", False)], config=dict(T5, feed_forward_proj="relu")),
    # GeGLU, like version 1.1 of T5
    "mt5-encoder": dict(cls=transformers.MT5EncoderModel, seed=20, tokenizer=t5_tokenizer, arch="t5encoder", pooling="mean", config=dict(T5, feed_forward_proj="gated-gelu")),
    "gemma-class": dict(cls=transformers.Gemma3TextForSequenceClassification, seed=18, tokenizer=byte_level_tokenizer, score=True, norm_add=1,
                        config=dict(GEMMA, id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2})),
}


def dtype_of(spec):
    return getattr(torch, spec.get("dtype", "bfloat16"))


def fill(model, spec):
    """Set all weights to values of the file's type: N(0, 1/k) for matrices, about 1 for norms."""
    rng = np.random.RandomState(spec["seed"])
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            x = rng.standard_normal(tuple(p.shape))
            if p.ndim == 2:
                x = x * (0.7 if "embed" in name or "classifier" in name or name.startswith("score") else 1.5 / np.sqrt(p.shape[1]))
            elif name.endswith("bias"):
                x = x * 0.2
            else:
                x = 1 + 0.3 * x - spec.get("norm_add", 0)
            p.copy_(torch.from_numpy(x.astype(np.float32)).to(dtype_of(spec)))


def write_json(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def hidden_of(model, spec, ids):
    base = getattr(model, model.base_model_prefix) if spec.get("score") else model
    more = {}
    if getattr(model.config, "type_vocab_size", 1) > 1:
        more["token_type_ids"] = torch.tensor([[int(i >= SEGMENT1) for i in range(N_TOKEN)]])
    with torch.no_grad():
        return base(input_ids=torch.from_numpy(ids.astype(np.int64))[None], **more).last_hidden_state[0].numpy()


def dense_layers(spec, d):
    """Return the weights and biases of the Dense modules. A missing bias is None."""
    rng = np.random.RandomState(spec["seed"] + 1000)
    layers = []
    for n, _, bias in spec.get("dense", ()):
        w = (rng.standard_normal((n, d)) / np.sqrt(d)).astype(np.float32)
        layers.append((w, (rng.standard_normal(n) * 0.1).astype(np.float32) if bias else None))
        d = n
    return layers


def write_modules(out, spec, d):
    """Write the files of sentence-transformers."""
    from safetensors.numpy import save_file
    modules = [("transformer", "", "sentence_transformers.models.Transformer")]
    modules.append(("pooling", "1_Pooling", "sentence_transformers.models.Pooling"))
    write_json(out / "1_Pooling" / "config.json", {
        "word_embedding_dimension": d, "pooling_mode_cls_token": spec["pooling"] == "cls",
        "pooling_mode_mean_tokens": spec["pooling"] == "mean", "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False, "pooling_mode_weightedmean_tokens": False,
        "pooling_mode_lasttoken": spec["pooling"] == "last", "include_prompt": True})
    for (w, b), (_, activation, bias) in zip(dense_layers(spec, d), spec.get("dense", ())):
        folder = out / f"{len(modules)}_Dense"
        write_json(folder / "config.json", {"in_features": w.shape[1], "out_features": w.shape[0], "bias": bias,
                                            "activation_function": f"torch.nn.modules.{activation}"})
        save_file({"linear.weight": w, **({"linear.bias": b} if bias else {})}, folder / "model.safetensors")
        modules.append(("dense", folder.name, "sentence_transformers.models.Dense"))
    if spec.get("normalize"):
        n = len(modules)
        modules.append(("normalize", f"{n}_Normalize", "sentence_transformers.models.Normalize"))
    write_json(out / "modules.json", [dict(idx=i, name=str(i), path=path, type=kind) for i, (_, path, kind) in enumerate(modules)])
    write_json(out / "sentence_bert_config.json", {"max_seq_length": 64, "do_lower_case": False})
    write_json(out / "config_sentence_transformers.json", {
        "__version__": {"sentence_transformers": "5.0.0"}, "prompts": spec.get("prompts", {}), "default_prompt_name": None,
        "similarity_fn_name": "cosine"})


def expected_vectors(out, spec):
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(str(out), device="cpu", model_kwargs=dict(dtype=torch.float32)).double()
    result = {"texts": TEXTS, "vectors": [[float(np.float32(x)) for x in v] for v in model.encode(TEXTS)]}
    for name in spec.get("prompts", {}):
        result[f"prompt_{name}"] = [[float(np.float32(x)) for x in v] for v in model.encode(TEXTS[:2], prompt_name=name)]
    return result


def expected_scores(out):
    from sentence_transformers import CrossEncoder
    model = CrossEncoder(str(out), device="cpu", model_kwargs=dict(dtype=torch.float32))
    model.model.double()
    if model.num_labels > 1:
        import torch.nn.functional as F
        with torch.no_grad():
            logits = torch.stack([model.model(**model.tokenizer(t, return_tensors="pt")).logits[0] for t in TEXTS]).double()
        return {"texts": TEXTS, "probs": F.softmax(logits, -1).tolist(), "logits": logits.tolist(), "labels": list(model.model.config.id2label.values())}
    logits = model.predict(PAIRS, activation_fn=torch.nn.Identity())
    return {"pairs": PAIRS, "scores": np.asarray(model.predict(PAIRS), np.float64).tolist(), "logits": np.asarray(logits, np.float64).tolist()}


def pooled(mode, **more):
    return {"1_Pooling/config.json": {"pooling_mode": mode, **more}}


def prompted(**more):
    return {"config_sentence_transformers.json": {"prompts": {"query": "what is "}, "default_prompt_name": "query", **more}}


NORMALIZER = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False}
PLAIN_MODULES = [dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{kind}")
                 for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling")))]
# as sentence-transformers 6 writes a CrossEncoder
ONE_MODULE = {"modules.json": PLAIN_MODULES[:1], "sentence_bert_config.json": {
    "transformer_task": "sequence-classification", "module_output_name": "scores",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}}}
PLAIN_CLASS = {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"}}
CASED = {"tokenizer.json": {"normalizer": NORMALIZER}, **PLAIN_CLASS}
# new fields of the JSON files of a folder; a list replaces the file
SETTINGS = {
    "bert": {
        "max": pooled("max"), "root": pooled("mean_sqrt_len_tokens"), "weighted": pooled("weightedmean"), "two": pooled(["cls", "mean"]),
        "six": {**pooled(["max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens", "cls", "mean"]), "modules.json": PLAIN_MODULES},
        "old-two": {"1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}},
        "cut": {"config_sentence_transformers.json": {"truncate_dim": 12}},
        "cut-plain": {"config_sentence_transformers.json": {"truncate_dim": 12}, "modules.json": PLAIN_MODULES},
        "prompt": prompted(), "prompt-left-out": {**prompted(), **pooled("mean", include_prompt=False)},
        "prompt-left-out-all": {**prompted(), **pooled(["cls", "weightedmean", "max", "lasttoken"], include_prompt=False)},
        "lower": {"sentence_bert_config.json": {"do_lower_case": True}},
        "lower-first": {"sentence_bert_config.json": {"do_lower_case": True}, **CASED},
        "cased": CASED,
    },
    "bert-rerank": {
        "identity": {**ONE_MODULE, "config_sentence_transformers.json": {"activation_fn": "torch.nn.modules.linear.Identity", "model_type": "CrossEncoder"}},
        "no-modules": prompted(model_type="CrossEncoder", activation_fn="torch.nn.modules.linear.Identity"),
        "identity-first": {**ONE_MODULE, "config_sentence_transformers.json": {"activation_fn": "torch.nn.modules.linear.Identity", "model_type": "CrossEncoder"},
                           "config.json": {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}},
        "prompt": {**ONE_MODULE, **prompted(model_type="CrossEncoder")},
        "two-inputs": {"tokenizer_config.json": {"model_input_names": ["input_ids", "attention_mask"]}},
        "three-inputs": {"tokenizer_config.json": {"tokenizer_class": "TokenizersBackend", "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}},
        "plain-class": PLAIN_CLASS,
        "class": {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer"}},
    },
}


def change(folder, changes):
    """Write new fields into the JSON files of a folder."""
    for name, fields in changes.items():
        path = folder / name
        old = json.loads(path.read_text()) if path.exists() else {}
        if name.endswith("1_Pooling/config.json"):
            old = {k: v for k, v in old.items() if not k.startswith("pooling_mode")}
        path.write_text(json.dumps({**old, **fields} if isinstance(fields, dict) else fields))


def expected_settings(name, out):
    """Return the changes of SETTINGS with the numbers of sentence-transformers."""
    import shutil
    import tempfile
    from sentence_transformers import CrossEncoder, SentenceTransformer
    result = {}
    for key, changes in SETTINGS[name].items():
        with tempfile.TemporaryDirectory() as temp:
            folder = pathlib.Path(temp) / "model"
            shutil.copytree(out, folder)
            change(folder, changes)
            if "rerank" in name:
                model = CrossEncoder(str(folder), device="cpu", model_kwargs=dict(dtype=torch.float32))
                model.model.double()
                numbers = [round(float(x), 7) for x in model.predict(PAIRS)]
            else:
                model = SentenceTransformer(str(folder), device="cpu").double()
                numbers = [[round(float(x), 7) for x in v] for v in model.encode(TEXTS)]
        result[key] = {"changes": changes, "numbers": numbers}
    return result


INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
FRAME = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the '
         'answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n', "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


def expected_yes_no(model, out):
    """Return the scores by the program in Qwen3-Reranker's description: the probability of "yes"
    among "yes" and "no" at the last token. Scores 1 are for another instruction. Scores 2 are for
    pairs truncated to 40 tokens."""
    t = transformers.AutoTokenizer.from_pretrained(out)
    yes, no = t.convert_tokens_to_ids("yes"), t.convert_tokens_to_ids("no")
    head, tail = (t.encode(x, add_special_tokens=False) for x in FRAME)

    def scores(pairs, instruction=INSTRUCTION, n_max=1 << 20):
        found = []
        for query, document in pairs:
            text = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
            ids = head + t.encode(text, add_special_tokens=False)[:n_max] + tail
            with torch.no_grad():
                logits = model(torch.tensor([ids])).logits[0, -1]
            found.append(float(torch.softmax(logits[[no, yes]], -1)[1]))
        return found
    return {"pairs": PAIRS, "scores": scores(PAIRS), "instruction": "Find cats", "scores_1": scores(PAIRS, "Find cats"),
            "n_max": len(head) + 40 + len(tail), "scores_2": scores(PAIRS, n_max=40)}


def gguf_vocab_bert(w):
    tokens, types = [], []
    for t in word_pieces():
        special = t.startswith("[")
        types.append(gguf.TokenType.CONTROL if special else gguf.TokenType.NORMAL)
        tokens.append(t if special else t[2:] if t.startswith("##") else "\u2581" + t)
    w.add_tokenizer_model("bert")
    w.add_tokenizer_pre("jina-v2-en")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_type_count(2)
    w.add_pad_token_id(0)
    w.add_unk_token_id(1)
    w.add_bos_token_id(2)
    w.add_sep_token_id(3)
    w.add_mask_token_id(4)


def gguf_vocab_byte_level(w, pre="gpt-2"):
    vocab, merges = byte_level_vocab()
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(list(vocab))
    w.add_token_types([gguf.TokenType.CONTROL if i < 5 else gguf.TokenType.NORMAL for i in range(len(vocab))])
    w.add_token_merges([" ".join(m) for m in merges])
    w.add_bos_token_id(0)
    w.add_pad_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)


def gguf_bert(w, spec, c):
    w.add_layer_norm_eps(c.layer_norm_eps)
    w.add_causal_attention(False)
    gguf_vocab_bert(w)


def gguf_nomic(w, spec, c):
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    gguf_bert(w, spec, c)


def gguf_modern(w, spec, c):
    """The converter copies norm_eps. It also copies layer_norm_eps, which published files also
    have."""
    w.add_layer_norm_rms_eps(c.norm_eps)
    w.add_layer_norm_eps(c.norm_eps)
    w.add_causal_attention(False)
    w.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
    w.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    w.add_sliding_window(c.local_attention)
    w.add_sliding_window_pattern(spec["config"]["global_attn_every_n_layers"])
    w.add_vocab_size(c.vocab_size)
    w.add_string("modern-bert.hidden_activation", c.hidden_activation)
    if spec.get("score"):
        w.add_classifier_output_labels([c.id2label[i] for i in range(c.num_labels)])
    gguf_vocab_byte_level(w, "modern-bert")
    w.add_add_sep_token(True)


def gguf_t5(w, spec, c):
    w.add_key_length(c.d_kv)
    w.add_value_length(c.d_kv)
    w.add_layer_norm_eps(c.layer_norm_epsilon)
    w.add_layer_norm_rms_eps(c.layer_norm_epsilon)
    w.add_relative_attn_buckets_count(c.relative_attention_num_buckets)
    for i, (m, _) in enumerate(dense_layers(spec, c.hidden_size)):
        w.add_tensor(f"dense_{i + 2}.weight", m)
    w.add_tokenizer_model("t5")
    w.add_tokenizer_pre("default")
    w.add_token_list([p.encode() for p, _ in t5_pieces()])
    w.add_token_scores([s for _, s in t5_pieces()])
    w.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.UNKNOWN] + [gguf.TokenType.NORMAL] * (c.vocab_size - 3))
    w.add_add_space_prefix(True)
    w.add_eos_token_id(1)
    w.add_unk_token_id(2)
    w.add_pad_token_id(0)
    w.add_add_bos_token(False)
    w.add_add_eos_token(True)


def gguf_gemma(w, spec, c):
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
    w.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
    w.add_sliding_window(spec["config"]["sliding_window"])  # the class halves its own window
    for i, (m, _) in enumerate(dense_layers(spec, c.hidden_size)):
        w.add_dense_features_dims(f"dense_{i + 2}", m.shape[1], m.shape[0])
        w.add_tensor(f"dense_{i + 2}.weight", m)
    gguf_vocab_byte_level(w)


def stored(out):
    """Return the (name, values) of the folder's file, with the converter's changes of names."""
    from safetensors.torch import load_file
    for raw, t in load_file(out / "model.safetensors").items():
        raw = raw.removeprefix("model.").replace("classifier.", "classifier.out_proj.")
        if not raw.startswith("pooler."):
            yield raw, t.float().numpy()


def write_gguf(path, spec, model):
    """Write a GGUF file as llama.cpp's converter does, with the matrices in the file's type."""
    c, arch = model.config, spec["arch"]
    w = gguf.GGUFWriter(path, arch)
    w.add_type(gguf.GGUFType.MODEL)
    w.add_name("golden")
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(getattr(c, "n_positions", None) or c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(getattr(c, "d_ff", None) or c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    f32 = dtype_of(spec) == torch.float32
    w.add_file_type(gguf.LlamaFileType.ALL_F32 if f32 else gguf.LlamaFileType.MOSTLY_BF16)
    if "pooling" in spec:
        w.add_pooling_type({"mean": gguf.PoolingType.MEAN, "cls": gguf.PoolingType.CLS}[spec["pooling"]])
    {"bert": gguf_bert, "nomic-bert": gguf_nomic, "modern-bert": gguf_modern, "gemma-embedding": gguf_gemma, "t5encoder": gguf_t5}[arch](w, spec, c)
    names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch), c.num_hidden_layers)
    for raw, data in stored(path.parent):
        data = np.ascontiguousarray(data + np.float32(spec.get("norm_add", 0) * (data.ndim == 1)))
        name = names.get_name(raw, try_suffixes=(".weight", ".bias"))
        if f32 or data.ndim < 2 or name == "token_types.weight":
            w.add_tensor(name, data)
        else:
            bf16 = gguf.GGMLQuantizationType.BF16
            w.add_tensor(name, gguf.quants.quantize(data, bf16), raw_dtype=bf16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def published(c):
    """Return the fields of nomic-embed-text-v1.5's config.json, with the values of a config."""
    return dict(
        activation_function="swiglu", architectures=["NomicBertModel"], attn_pdrop=0.0, bos_token_id=None, causal=False,
        dense_seq_output=True, embd_pdrop=0.0, eos_token_id=None, fused_bias_fc=True, fused_dropout_add_ln=True, initializer_range=0.02,
        layer_norm_epsilon=c.layer_norm_eps, max_trained_positions=2048, mlp_fc1_bias=False, mlp_fc2_bias=False, model_type="nomic_bert",
        n_embd=c.hidden_size, n_head=c.num_attention_heads, n_inner=c.intermediate_size, n_layer=c.num_hidden_layers,
        n_positions=c.max_position_embeddings, pad_vocab_size_multiple=1, parallel_block=False, parallel_block_tied_norm=False,
        prenorm=False, qkv_proj_bias=False, reorder_and_upcast_attn=False, resid_pdrop=0.0,
        rotary_emb_base=c.rope_parameters["rope_theta"], rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None,
        rotary_scaling_factor=None, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True, summary_activation=None,
        summary_first_dropout=0.0, summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True, torch_dtype="float32",
        transformers_version="4.37.2", type_vocab_size=c.type_vocab_size, use_cache=True, use_flash_attn=True, use_rms_norm=False,
        use_xentropy=True, vocab_size=c.vocab_size)


def make(name):
    spec, out = MODELS[name], HERE / name
    out.mkdir(parents=True, exist_ok=True)
    n_vocab = spec["tokenizer"](out)
    tokenizer = json.loads((out / "tokenizer.json").read_text())
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
    config = spec["cls"].config_class(vocab_size=n_vocab, **spec["config"])
    model = spec["cls"](config).eval()
    fill(model, spec)
    copy.deepcopy(model).to(dtype_of(spec)).save_pretrained(out)
    if getattr(config, "use_bidirectional_attention", False):  # some versions write the halved window
        saved = json.loads((out / "config.json").read_text())
        write_json(out / "config.json", dict(saved, sliding_window=spec["config"]["sliding_window"]))
    if spec.get("arch") == "nomic-bert":
        write_json(out / "published.json", published(config))
    ids = np.random.RandomState(spec["seed"] + 100).randint(5, n_vocab, N_TOKEN).astype("<i4")
    ids.tofile(out / "tokens.i32")
    hidden_of(model.double(), spec, ids).astype("<f4").tofile(out / "hidden.f32")
    if "Roberta" in spec["cls"].__name__:
        ids[[3, 4, 17, 39]] = config.pad_token_id
        ids.tofile(out / "padded.i32")
        hidden_of(model, spec, ids).astype("<f4").tofile(out / "padded.f32")
    model = model.float()
    if "yes_no" in spec:
        expected = expected_yes_no(model.double(), out)
    elif "score" in spec:
        expected = expected_scores(out)
    else:
        write_modules(out, spec, config.hidden_size)
        expected = expected_vectors(out, spec)
    write_json(out / "expected.json", expected)
    if name in SETTINGS:
        write_json(out / "settings.json", expected_settings(name, out))
    if "arch" in spec:
        write_gguf(out / "model.gguf", spec, model)
    for file in out.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print(f"{name}: {sum(p.numel() for p in model.parameters())} weights")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for chosen in sys.argv[1:] or MODELS:
        make(chosen)
