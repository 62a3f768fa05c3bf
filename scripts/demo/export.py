"""Write a checkpoint as a Hugging Face directory (f32 safetensors) and as GGUF (F32 and Q8_0).

    python export.py --checkpoint DIR/main.pt --name quoth-tiny --hf DIR/hf --gguf DIR

GGUF tensor names and metadata are those of architecture qwen3. Norms remain F32, and the head is
tied (no output.weight). """
import argparse
import json
import shutil
from pathlib import Path

import gguf
import torch
from safetensors.torch import save_file

import chatml
from pack import VOCAB

EOS, EOT = chatml.TEXT_END, chatml.END
LAYER_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
               "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
               "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    if name.startswith("model.layers."):
        _, _, layer, rest = name.split(".", 3)
        return f"blk.{layer}.{LAYER_NAMES[rest.removesuffix('.weight')]}.weight"
    return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]


def token_ids(tokenizer):
    return {t["content"]: t["id"] for t in tokenizer["added_tokens"]}


def hf_config(cfg, ids):
    return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": cfg["vocab"], "hidden_size": cfg["hidden"],
            "intermediate_size": cfg["ff"], "num_hidden_layers": cfg["layers"], "num_attention_heads": cfg["heads"],
            "num_key_value_heads": cfg["kv_heads"], "head_dim": cfg["d_head"], "max_position_embeddings": cfg["context"],
            "rope_theta": cfg["rope_theta"], "rope_scaling": None, "rms_norm_eps": cfg["eps"], "hidden_act": "silu", "attention_bias": False,
            "attention_dropout": 0.0, "tie_word_embeddings": True, "use_cache": True, "use_sliding_window": False, "initializer_range": 0.02,
            "bos_token_id": ids[EOS], "eos_token_id": ids[EOT], "torch_dtype": "float32"}


def tokenizer_config(tokenizer):
    added = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in tokenizer["added_tokens"]}
    return {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "add_prefix_space": False, "bos_token": None, "eos_token": EOT,
            "pad_token": EOS, "unk_token": None, "clean_up_tokenization_spaces": False, "errors": "replace", "split_special_tokens": False,
            "model_max_length": 1024, "added_tokens_decoder": added, "chat_template": chatml.TEMPLATE}


def write_hf(folder, saved, tokenizer_path):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = json.loads(tokenizer_path.read_text())
    ids = token_ids(tokenizer)
    generation = {"bos_token_id": ids[EOS], "eos_token_id": [ids[EOT], ids[EOS]], "pad_token_id": ids[EOS], "do_sample": True,
                  "temperature": 0.7, "top_p": 0.9, "top_k": 20}
    for name, value in (("config", hf_config(saved["config"], ids)), ("generation_config", generation),
                        ("tokenizer_config", tokenizer_config(tokenizer))):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    shutil.copy(tokenizer_path, folder / "tokenizer.json")
    save_file({k: v.float().contiguous() for k, v in saved["model"].items()}, folder / "model.safetensors", {"format": "pt"})


def tokens_and_types(tokenizer):
    tokens, types = [None] * VOCAB, [gguf.TokenType.NORMAL] * VOCAB
    for text, i in tokenizer["model"]["vocab"].items():
        tokens[i] = text
    for t in tokenizer["added_tokens"]:
        tokens[t["id"]] = t["content"]
        types[t["id"]] = gguf.TokenType.CONTROL if t["special"] else gguf.TokenType.USER_DEFINED
    return tokens, types


def add_metadata(writer, name, cfg, tokenizer):
    writer.add_name(name)
    writer.add_context_length(cfg["context"])
    writer.add_embedding_length(cfg["hidden"])
    writer.add_block_count(cfg["layers"])
    writer.add_feed_forward_length(cfg["ff"])
    writer.add_head_count(cfg["heads"])
    writer.add_head_count_kv(cfg["kv_heads"])
    writer.add_key_length(cfg["d_head"])
    writer.add_value_length(cfg["d_head"])
    writer.add_rope_freq_base(cfg["rope_theta"])
    writer.add_layer_norm_rms_eps(cfg["eps"])
    writer.add_vocab_size(cfg["vocab"])
    tokens, types = tokens_and_types(tokenizer)
    ids = token_ids(tokenizer)
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(ids[EOS])
    writer.add_eos_token_id(ids[EOT])
    writer.add_eot_token_id(ids[EOT])
    writer.add_pad_token_id(ids[EOS])
    writer.add_add_bos_token(False)
    writer.add_chat_template(chatml.TEMPLATE)


def write_gguf(path, name, saved, tokenizer_path, quant):
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "qwen3")
    add_metadata(writer, name, saved["config"], json.loads(tokenizer_path.read_text()))
    kind = gguf.GGMLQuantizationType[quant]
    writer.add_file_type({"F32": gguf.LlamaFileType.ALL_F32, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[quant])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, tensor in saved["model"].items():
        values = tensor.float().numpy()
        if values.ndim == 2 and quant != "F32":
            writer.add_tensor(gguf_name(key), gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(key), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--checkpoint", type=Path, required=True)
    args.add_argument("--name", required=True)
    args.add_argument("--hf", type=Path, help="folder for the Hugging Face layout")
    args.add_argument("--gguf", type=Path, help="folder for NAME-f32.gguf and NAME-q8_0.gguf")
    args = args.parse_args()
    saved = torch.load(args.checkpoint, map_location="cpu")
    tokenizer = args.checkpoint.parent / "tokenizer.json"
    if args.hf:
        write_hf(args.hf, saved, tokenizer)
    for quant in ("F32", "Q8_0") if args.gguf else ():
        write_gguf(args.gguf / f"{args.name}-{quant.lower()}.gguf", args.name, saved, tokenizer, quant)


if __name__ == "__main__":
    main()
