#!/usr/bin/env python3
"""Make the golden models of encoder and decoder: tiny random models with the results of transformers.

    tests/golden/cross.py [NAME...]     makes all, or the named folders, in tests/golden/cross

Each folder has:

- config.json, generation_config.json, model.safetensors (BF16), tokenizer.json, tokenizer_config.json;
- model.gguf (T5's architectures), with the keys and names of llama.cpp's converter;
- tokens.i32 [80]: ids: the first 48 are a source, the others are the decoder's text from its first
  tokens on;
- logits.f32 [7, n_vocab]: transformers' logits of every fifth position of the decoder's text, up to
  the last, computed in float64;
- greedy.json: texts with their ids, and the answers of generate(do_sample=False): ids without the
  first tokens, and their text without special tokens. `beams` is generate's answer with four beams.

make.py explains the packages. Weights come from numpy's frozen RandomState.
"""
import json
import pathlib
import sys

import make  # enter the environment before other imports
import encoders

import gguf
import numpy as np
import tokenizers
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent / "cross"
N_SOURCE, N_TARGET, N_GREEDY = 48, 32, 20
WORDS = "the cat sat on mat dog ran paris is capital of france what a and to translate english german summarize house small".split()
TEXTS = ["translate english to german: the house is small.", "summarize: the cat sat on the mat, and the dog ran.", "x",
         "  What is  the capital of France?\n", "caf\u00e9 <extra_id_0> 42!", "the capital of france is paris " * 6]
# generate() of transformers fails if the decoder has more layers than the encoder
T5 = dict(d_model=24, d_kv=8, d_ff=32, num_layers=3, num_decoder_layers=2, num_heads=2, relative_attention_num_buckets=8,
          relative_attention_max_distance=128, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, n_positions=64)
BEAMS = dict(num_beams=4, length_penalty=1.5, early_stopping=True)


def charsmap(rules):
    """Return SentencePiece's precompiled form of rules {one byte: text}: a double array, then the texts."""
    unit, texts = np.zeros(784, "<u4"), b""
    unit[0] = 256 << 10
    for byte, text in rules.items():
        unit[256 ^ byte] = 512 << 10 | 1 << 8 | byte
        unit[256 ^ byte ^ 512] = 1 << 31 | len(texts)
        texts += text + b"\0"
    return (4 * len(unit)).to_bytes(4, "little") + unit.tobytes() + texts


SPACES = charsmap({ord("\n"): b" ", ord("\t"): b" "})


def t5_tokenizer(out):
    """Write a Unigram tokenizer with T5's steps and template, and a short charsmap. Return its pieces."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -3.0)]
    pieces += [("\u2581" + w, -4.0 - i / 10) for i, w in enumerate(WORDS)]
    pieces += [(c, -6.0 - i / 100) for i, c in enumerate("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?:")]
    pieces += [("at", -4.5), ("an", -4.6)]
    pieces += [(f"<extra_id_{i}>", 0.0) for i in (1, 0)]
    t = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2, byte_fallback=False))
    t.normalizer = tokenizers.normalizers.Precompiled(SPACES)
    pre = tokenizers.pre_tokenizers
    t.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)])
    t.decoder = tokenizers.decoders.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)
    t.post_processor = tokenizers.processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token="</s>", unk_token="<unk>", pad_token="<pad>", model_max_length=64,
        additional_special_tokens=["<extra_id_0>", "<extra_id_1>"]).save_pretrained(out)
    return pieces


# seed: seed of the weights; gguf: true if llama.cpp has the architecture; without: a change of the
# configuration that changes the logits
MODELS = {
    # version 1.0: ReLU without a gate, and the embedding as the head, with a factor
    "t5": dict(cls=transformers.T5ForConditionalGeneration, seed=56, gguf=True, config=dict(T5, feed_forward_proj="relu"),
               without=dict(relative_attention_max_distance=20)),
    # like version 1.1 of T5: GeGLU, a separate head
    "mt5": dict(cls=transformers.MT5ForConditionalGeneration, seed=4, gguf=True, untied=True, config=dict(T5, feed_forward_proj="gated-gelu"),
                without=dict(relative_attention_num_buckets=6)),
    # norms after the sums, positions, a vector added to the logits, other heads and widths of the
    # decoder, a forced first token
    "bart": dict(cls=transformers.BartForConditionalGeneration, seed=1, gguf=False, tokenizer=encoders.byte_level_tokenizer,
                 forced_bos=0, scales={"shared": 0.7, ".bias": 0.1, "encoder_attn.out_proj.weight": 2.0, "final_logits_bias": 0.2},
                 config=dict(d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=2, encoder_ffn_dim=24,
                             decoder_ffn_dim=32, max_position_embeddings=128, scale_embedding=True, decoder_start_token_id=2),
                 without=dict(scale_embedding=False)),
}


def make_model(spec, n_vocab, seed, **overrides):
    fields = {**spec["config"], **overrides}
    config = spec["cls"].config_class(vocab_size=n_vocab, **fields)
    config._attn_implementation = "eager"
    config.dtype = torch.float32
    model = spec["cls"](config).eval()
    if spec.get("untied"):  # like the published files, whose head differs from the embedding
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            w = make.random_weight(rng, name, tuple(p.shape), 0, 0.4) * make.scale_of(spec.get("scales", {}), name)
            p.copy_(w.to(torch.bfloat16))  # bfloat16 is the type of the files
        for name, p in sorted(model.named_buffers()):
            if name.endswith(make.FACTORS):
                w = make.random_weight(rng, name, tuple(p.shape)) * make.scale_of(spec.get("scales", {}), name)
                p.copy_(w.to(torch.bfloat16))
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=config.pad_token_id, eos_token_id=config.eos_token_id, bos_token_id=getattr(config, "bos_token_id", None),
        decoder_start_token_id=config.decoder_start_token_id, forced_bos_token_id=spec.get("forced_bos"))
    return model


def logits_of(model, tokens):
    return make.cross_logits_of(model, tokens, N_SOURCE)


def starts(model):
    """Return the tokens with which the decoder's text begins."""
    c = model.generation_config
    return [c.decoder_start_token_id] + ([] if c.forced_bos_token_id is None else [c.forced_bos_token_id])


def answer(model, ids, **how):
    """Return the generated ids after the first tokens, up to the end token."""
    source = torch.tensor([ids])
    n = len(starts(model))
    out = model.generate(source, attention_mask=torch.ones_like(source), do_sample=False, max_new_tokens=N_GREEDY + n - 1, **how)
    out = out[0, n:].tolist()
    eos = model.config.eos_token_id
    return out[:out.index(eos) + 1] if eos in out else out


def margin_of(model, ids, out):
    """Return the smallest relative difference of the two best logits."""
    start = starts(model)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([start + out[:-1]]), use_cache=False).logits[0, len(start) - 1:]
    top = torch.sort(logits, dim=1).values
    return float(((top[:, -1] - top[:, -2]) / logits.abs().max()).min())


def t5_name(raw):
    """Return GGUF's name of a tensor of T5."""
    ends = {"shared": "token_embd", "lm_head": "output", "encoder.final_layer_norm": "enc.output_norm", "decoder.final_layer_norm": "dec.output_norm"}
    raw = raw.removesuffix(".weight")
    if raw in ends:
        return ends[raw] + ".weight"
    side, _, il, _, part, *rest = raw.split(".")
    kinds = ["attn", "ffn"] if side == "encoder" else ["attn", "cross_attn", "ffn"]
    kind = kinds[int(part)]
    leaf = {"layer_norm": "norm", "relative_attention_bias": "rel_b", "wi": "up", "wi_0": "gate", "wi_1": "up", "wo": "down"}.get(rest[-1], rest[-1])
    return f"{side[:3]}.blk.{il}.{kind}_{leaf}.weight"


def write_gguf(path, model, pieces):
    c = model.config
    w = gguf.GGUFWriter(path, "t5")
    w.add_type(gguf.GGUFType.MODEL)
    w.add_name("golden")
    w.add_context_length(c.n_positions)
    w.add_embedding_length(c.d_model)
    w.add_feed_forward_length(c.d_ff)
    w.add_block_count(c.num_layers)
    w.add_decoder_block_count(c.num_decoder_layers)
    w.add_head_count(c.num_heads)
    w.add_key_length(c.d_kv)
    w.add_value_length(c.d_kv)
    w.add_layer_norm_eps(c.layer_norm_epsilon)
    w.add_relative_attn_buckets_count(c.relative_attention_num_buckets)
    w.add_layer_norm_rms_eps(c.layer_norm_epsilon)
    w.add_decoder_start_token_id(c.decoder_start_token_id)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    kind = {"<pad>": gguf.TokenType.CONTROL, "</s>": gguf.TokenType.CONTROL, "<unk>": gguf.TokenType.UNKNOWN}
    w.add_tokenizer_model("t5")
    w.add_tokenizer_pre("default")
    w.add_token_list([p.encode() for p, _ in pieces])
    w.add_token_scores([s for _, s in pieces])
    w.add_token_types([gguf.TokenType.CONTROL if p.startswith("<extra") else kind.get(p, gguf.TokenType.NORMAL) for p, _ in pieces])
    w.add_precompiled_charsmap(SPACES)
    w.add_add_space_prefix(True)
    w.add_remove_extra_whitespaces(True)
    w.add_eos_token_id(c.eos_token_id)
    w.add_unk_token_id(2)
    w.add_pad_token_id(c.pad_token_id)
    w.add_add_bos_token(False)
    w.add_add_eos_token(True)
    for raw, p in model.named_parameters():
        data = p.detach().float().numpy()
        kind = gguf.GGMLQuantizationType.F32 if data.ndim == 1 else gguf.GGMLQuantizationType.BF16
        w.add_tensor(t5_name(raw), gguf.quants.quantize(data, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def build(name, seed):
    """Make a folder. Return the smallest margin of greedy choices."""
    spec, out = MODELS[name], HERE / name
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    pieces = t5_tokenizer(out) if spec["gguf"] else None
    n_vocab = len(pieces) if pieces else spec["tokenizer"](out)
    model = make_model(spec, n_vocab, seed)
    model.to(torch.bfloat16).save_pretrained(out)
    for file in out.iterdir():
        file.chmod(0o644)
    if spec["gguf"]:
        write_gguf(out / "model.gguf", model, pieces)
    c = model.config
    rng = np.random.RandomState(100 + seed)
    tokens = rng.randint(3, n_vocab, N_SOURCE + N_TARGET).astype("<i4")
    tokens[N_SOURCE - 1], tokens[N_SOURCE:N_SOURCE + len(starts(model))] = c.eos_token_id, starts(model)
    model = model.to(torch.float32).double()
    logits = logits_of(model, tokens)
    back = spec["cls"].from_pretrained(out, attn_implementation="eager", dtype=torch.float32).double()
    assert make.distance(logits_of(back, tokens), logits) < 1e-7, f"{name}: safetensors give other logits"
    other = logits_of(make_model(spec, n_vocab, seed, **spec["without"]).double(), tokens)
    assert make.distance(other, logits) > 0.01, f"{name}: {spec['without']} has no effect"
    tokens.tofile(out / "tokens.i32")
    make.save_logits(out / "logits.f32", logits)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    cases, margin = [], 1.0
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        if len(ids) > tokenizer.model_max_length:
            continue
        greedy = answer(model, ids)
        margin = min(margin, margin_of(model, ids, greedy))
        cases.append(dict(text=text, ids=ids, greedy=greedy, answer=tokenizer.decode(greedy, skip_special_tokens=True),
                          beams=answer(model, ids, **BEAMS)))
    make.write_compact(out / "greedy.json", cases)
    make.write_compact(out / "tokenizer.json", json.loads((out / "tokenizer.json").read_text()))
    lengths = [len(case["greedy"]) for case in cases]
    print(f"{name} {seed}: {sum(p.numel() for p in model.parameters())} weights, max|logit| {np.abs(logits).max():.1f}, margin {margin:.5f}, "
          f"lengths {lengths}, tokens {len(set(sum((case['greedy'] for case in cases), [])))}")
    return margin


def main(args):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name in [a for a in args if a in MODELS] or MODELS:
        build(name, MODELS[name]["seed"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
