"""fields_encoders.py - fields.py for encoders and classifiers.

    tests/golden/make.py --fields NAME...      NAME: bert, roberta, xlm-roberta, distilbert, modernbert, nomic_bert,
    qwen3-embedding, and classifiers: bert-class, roberta-class, distilbert-class, modernbert-class, qwen3-class,
    qwen2-class, llama-class, gemma-class

The fields are those of the config classes of these encoders, of their base class, and of
rope_parameters. Hidden states, or the logits of a classifier, must equal transformers', as in
fields.py. Texts contain no padding (encoder_test.c has padding tokens within a text).

Published checkpoints of nomic_bert have the fields of their own program. `published` compares each
of these fields with an equivalent model of transformers' class. quoth must reject fields that this
class lacks by name."""
import copy
import dataclasses
import json
import zlib

import numpy as np
import torch
import transformers

import fields
from campaign import ABSENT
from fields import BOTH, FULL, ROPE, ROPE_BESIDE, ROPE_VALUES, SLIDES, SLIDING, ConfigCampaign

# class of transformers, model_type and fields in addition to SIZES or those of the decoders
SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256,
             pad_token_id=0)
BERT = dict(SIZES, type_vocab_size=2, layer_norm_eps=1e-5, hidden_act="gelu")
ROBERTA = dict(BERT, pad_token_id=1)
DISTIL = dict(vocab_size=96, dim=32, hidden_dim=48, n_layers=3, n_heads=4, max_position_embeddings=256, activation="gelu", pad_token_id=0)
MODERN = dict(SIZES, norm_eps=1e-5, local_attention=24, hidden_activation="gelu")
LABELS = dict(id2label={"0": "a", "1": "b", "2": "c"}, label2id={"a": 0, "b": 1, "c": 2})
GEMMA = dict(fields.BASE, use_bidirectional_attention=True, **LABELS)
CLASSES = {
    "bert": (transformers.BertModel, "bert", BERT), "roberta": (transformers.RobertaModel, "roberta", ROBERTA),
    "xlm-roberta": (transformers.XLMRobertaModel, "xlm-roberta", ROBERTA), "distilbert": (transformers.DistilBertModel, "distilbert", DISTIL),
    "modernbert": (transformers.ModernBertModel, "modernbert", MODERN),
    "nomic_bert": (transformers.NomicBertModel, "nomic_bert", dict(BERT, hidden_act="silu")),
    "qwen3-embedding": (transformers.Qwen3Model, "qwen3", fields.BASE),
    "bert-class": (transformers.BertForSequenceClassification, "bert", dict(BERT, **LABELS)),
    "roberta-class": (transformers.RobertaForSequenceClassification, "roberta", dict(ROBERTA, **LABELS)),
    "distilbert-class": (transformers.DistilBertForSequenceClassification, "distilbert", dict(DISTIL, **LABELS)),
    "modernbert-class": (transformers.ModernBertForSequenceClassification, "modernbert", dict(MODERN, **LABELS)),
    "qwen3-class": (transformers.Qwen3ForSequenceClassification, "qwen3", dict(fields.BASE, **LABELS)),
    "qwen2-class": (transformers.Qwen2ForSequenceClassification, "qwen2", dict(fields.BASE, **LABELS)),
    "llama-class": (transformers.LlamaForSequenceClassification, "llama", dict(fields.BASE, **LABELS)),
    "gemma-class": (transformers.Gemma3TextForSequenceClassification, "gemma3_text", GEMMA)}
WITH_ROPE = ("nomic_bert", "modernbert")
BY_LAYER_TYPE = ("modernbert",)  # classes with an object of rope parameters per type of layer

# The published files of nomic_bert: fields of their program, and the equal fields of the class.
PUBLISHED = dict(n_embd=32, n_head=4, n_layer=3, n_inner=48, n_positions=256, layer_norm_epsilon=1e-12, activation_function="swiglu",
                 rotary_emb_fraction=1.0, rotary_emb_base=1000, rotary_emb_interleaved=False, rotary_emb_scale_base=None,
                 rotary_scaling_factor=None, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, causal=False,
                 use_rms_norm=False, parallel_block=False, parallel_block_tied_norm=False, max_trained_positions=2048,
                 pad_vocab_size_multiple=1, fused_bias_fc=True, fused_dropout_add_ln=True, use_flash_attn=True, use_xentropy=True,
                 dense_seq_output=True, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, type_vocab_size=2, vocab_size=96)
SAME = dict(n_embd="hidden_size", n_head="num_attention_heads", n_layer="num_hidden_layers", n_inner="intermediate_size",
            n_positions="max_position_embeddings", layer_norm_epsilon="layer_norm_eps", rotary_emb_base="rope_theta",
            activation_function="hidden_act", type_vocab_size="type_vocab_size", vocab_size="vocab_size")
GATES = {"swiglu": "silu", "geglu": "gelu"}
PUBLISHED_DEFAULTS = dict(activation_function="swiglu", n_embd=768, n_head=12, n_layer=12, n_positions=1024, layer_norm_epsilon=1e-5, rotary_emb_base=10000,
                          type_vocab_size=2, vocab_size=50257)
# values that the class does not support
OTHER = dict(activation_function=("gelu", "gelu_new", "glu"), rotary_emb_fraction=(0.5, 0.0), rotary_emb_interleaved=(True,), rotary_emb_scale_base=(512,),
             rotary_scaling_factor=(2.0,), qkv_proj_bias=(True,), mlp_fc1_bias=(True,), mlp_fc2_bias=(True,), prenorm=(True,),
             n_inner=(None,), rotary_head_dim=(True,), num_heads_kv=(2,), moe_every_n_layers=(2,))
NEEDED = ("rotary_emb_fraction", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "activation_function", "n_inner")  # other defaults
IGNORED = dict(causal=(True,), use_rms_norm=(True,), parallel_block=(True,), parallel_block_tied_norm=(True,), max_trained_positions=(64, 512),
               pad_vocab_size_multiple=(1, 32), fused_bias_fc=BOTH, fused_dropout_add_ln=BOTH, use_flash_attn=BOTH, use_xentropy=BOTH,
               dense_seq_output=BOTH, attn_pdrop=(0.1, 0.5), embd_pdrop=(0.1, 0.5), resid_pdrop=(0.1, 0.5))

VALUES = dict(
    fields.VALUES, max_position_embeddings=(200, 4096), type_vocab_size=(1, 3), dim=(64, 16), hidden_dim=(32, 80), n_layers=(1, 5),
    local_attention=(12, 41), global_attn_every_n_layers=(2, 1, 4), global_rope_theta=(500.0, 1e6), local_rope_theta=(500.0, 1e6),
    classifier_pooling=("cls", "mean"), classifier_activation=("gelu", "relu"), position_embedding_type=("absolute", "relative_key"),
    hidden_dropout_prob=(0.1, 0.5), attention_probs_dropout_prob=(0.1, 0.5), embedding_dropout=(0.1, 0.5), mlp_dropout=(0.1, 0.5),
    qa_dropout=(0.1, 0.5), seq_classif_dropout=(0.1, 0.5), initializer_cutoff_factor=(1.0, 3.0), sparse_pred_ignore_index=(-1, 5),
    cls_token_id=(3, 5, None), gradient_checkpointing=BOTH, pooler_type=("a", "b"), activation_function=("swiglu", "geglu", "gelu"))
MORE = (*fields.MORE, "position_embedding_type", "global_attn_every_n_layers", "global_rope_theta", "local_rope_theta", "sliding_window",
        "reference_compile", "repad_logits_with_grad", "pooler_type", "gradient_checkpointing", *PUBLISHED)
SETTING = dict(fields.SETTING, max_position_embeddings={})
SETTING_ABSENT = dict(fields.SETTING_ABSENT, sliding_window=SLIDING, num_key_value_heads={})


class EncoderCampaign(ConfigCampaign):
    values, setting, setting_absent = VALUES, SETTING, SETTING_ABSENT

    def tokens(self, n):
        path = self.folder / f"tokens-{n}.i32"
        if not path.exists():
            np.random.RandomState(7).randint(6, 60, n).astype("<i4").tofile(path)
        return path

    def fields_of(self, arch):
        own = {f.name for cls, _, _ in CLASSES.values() for f in dataclasses.fields(cls.config_class)}
        return sorted(own | set(MORE))

    def results_of(self, model, ids):
        """Return the logits of a classifier, or hidden states. A decoder whose head is the embedding has a
        head, so quoth computes its logits."""
        with torch.no_grad():
            out = model(ids, return_dict=True)
            if hasattr(out, "logits"):
                return out.logits.double().numpy()
            hidden = out.last_hidden_state[0]
            if isinstance(model, transformers.Qwen3Model) and model.config.tie_word_embeddings:
                hidden = hidden @ model.embed_tokens.weight.T
        return hidden.double().numpy()

    def set_weights(self, model, add):
        """Set weights that depend only on name and shape."""
        with torch.no_grad():
            for name, p in model.named_parameters():
                x = np.random.RandomState(zlib.crc32(f"{name} {tuple(p.shape)}".encode())).standard_normal(tuple(p.shape))
                if p.ndim == 2:
                    table = "embed" in name
                    x *= (1e-3 if self.small else 0.7) if table else 1.5 / np.sqrt(p.shape[1])
                else:
                    x = x * 0.2 if name.endswith("bias") else 1 + 0.3 * x - add
                p.copy_(torch.from_numpy(x.astype(np.float32)))

    def reference(self, arch, config, n):
        cls, model_type, _ = CLASSES[arch]
        parsed = cls.config_class.from_pretrained(self.folder)
        parsed._attn_implementation = "eager"
        for key in ("quantization_config",):
            if hasattr(parsed, key):
                delattr(parsed, key)
        model = cls(parsed).float().eval()
        self.set_weights(model, int(model_type in fields.NORM_LESS_1))
        copy.deepcopy(model).save_pretrained(self.folder)  # names of published files
        self.model, self.ids = model, torch.from_numpy(np.fromfile(self.tokens(n), "<i4").astype(np.int64))[None]
        return self.results_of(model.double(), self.ids)

    def config_of(self, arch, setting):
        cls, model_type, base = CLASSES[arch]
        config = dict(base, model_type=model_type)
        for usual, own in cls.config_class.attribute_map.items():  # two names of one value
            if usual in setting:
                config[own] = ABSENT
        config.update({k: v for k, v in setting.items() if k not in ("small", "n_token")})
        config = {k: v for k, v in config.items() if v is not ABSENT}
        fields.nest_rope(config, model_type)
        return config

    def rope(self, arch):
        """Check the parameters of each kind of scaling. quoth rejects every scaling of sliding
        layers by its type, so other parameters of sliding layers are checked without a scaling."""
        if arch not in WITH_ROPE:
            return
        plain_part = dict(rope_type="default", rope_theta=1000.0)
        parts = ("full_attention", "sliding_attention") if arch in BY_LAYER_TYPE else ("",)

        def place(part, p):
            p = {"full_attention": plain_part, "sliding_attention": plain_part, part: p} if part else p
            return dict(rope_parameters=p)
        for kind, base in ROPE.items() if arch in BY_LAYER_TYPE else ():  # of every type of layer, unless the type is spelled `type`
            plain = {k: v for k, v in base.items() if k != "rope_theta"}
            old = dict({k: v for k, v in plain.items() if k != "rope_type"}, type=kind)
            variants = [(label, dict(rope_scaling=p, **beside), {}) for label, p, beside in (
                ("1", base, {}), ("2", plain, {}), ("both", dict(plain, type="default"), {}),
                ("context", plain, dict(original_max_position_embeddings=16)), ("bases", plain, dict(global_rope_theta=500.0, local_rope_theta=300.0)))]
            self.field(arch, f"rope_scaling.{kind}", variants, 1e-4, self.compare)
            self.field(arch, f"rope_scaling.{kind}.rope_type", [("absent", dict(rope_scaling=old), {})], 1e-4, self.compare)
            self.field(arch, f"rope_scaling.{kind}.rope_scaling", [("objects", dict(rope_scaling=dict(full_attention=base, sliding_attention=base)), {})],
                       1e-4, self.compare)
            self.field(arch, f"rope_parameters.{kind}", [("flat", dict(rope_parameters=base), {})], 1e-4, self.compare)
        for part in parts:
            for kind, base in ROPE.items():
                for name, values in ROPE_VALUES.items():
                    if part == "sliding_attention" and kind != "default" and name != "rope_type":
                        continue
                    beside = base if part == "sliding_attention" else dict(base, **ROPE_BESIDE.get(name, {}))
                    if part == "sliding_attention":
                        values = (*values, kind) if name == "rope_type" else values
                    else:
                        values = (ABSENT, *values)
                    variants = []
                    for value in values:
                        p = {k: v for k, v in dict(beside, **{name: value}).items() if v is not ABSENT}
                        if part == "sliding_attention" and value == "default":
                            p = dict(plain_part)
                        label = "absent" if value is ABSENT else "null" if value is None else str(len(variants) + 1)
                        variants.append((label, place(part, p), place(part, beside)))
                    self.field(arch, f"rope_parameters{'.' * bool(part)}{part}.{kind}.{name}", variants, 1e-4, self.compare)

    def weights_twice(self, arch):
        if arch == "nomic_bert":
            self.published()

    # ---- published files of nomic_bert ----

    def compare_published(self, arch, setting):
        """Compare a published file with an equivalent model of the class. If there is no such
        model, quoth must reject the file, and the reference is a result that no model has."""
        file = {k: v for k, v in dict(PUBLISHED, **setting).items() if v is not ABSENT and k != "small"}
        want = np.ones((1, 1))
        self.small = setting.get("small", False)
        if not any(v in OTHER.get(k, ()) or (v is ABSENT and k in NEEDED) for k, v in setting.items()):
            whole = dict(PUBLISHED_DEFAULTS, **{k: v for k, v in file.items() if k in SAME})
            same = {SAME[k]: GATES.get(v, v) for k, v in whole.items() if k != "rotary_emb_base"}
            same["rope_parameters"] = dict(rope_type="default", rope_theta=float(whole["rotary_emb_base"]))
            want = self.compare(arch, dict(same, small=self.small))[0]
        (self.folder / "config.json").write_text(json.dumps(dict(file, model_type="nomic_bert", pad_token_id=0)))
        got, said = self.program(self.quoth, self.folder, fields.N_TOKEN)
        return want, got, said

    def published(self):
        beside = dict(n_embd=dict(n_layer=1), n_head=dict(n_embd=48), layer_norm_epsilon=dict(small=True))
        names = dict({k: VALUES[k] for k in SAME if k in VALUES}, **IGNORED)
        for name, values in OTHER.items():
            names[name] = (*names.get(name, ()), *[v for v in values if v not in names.get(name, ())])
        for name, values in names.items():
            plain = beside.get(name, {})
            variants = [("absent", dict(plain, **{name: ABSENT}), plain)]
            for i, value in enumerate(values):
                variants.append(("null" if value is None else str(i + 1), dict(plain, **{name: value}), plain))
            self.field("nomic_bert", f"published.{name}", variants, 1e-4, self.compare_published)
