"""fields_parts.py - fields.py for models of several parts, whose text part quoth reads.

    tests/golden/make.py --fields parts:KIND...  KIND: a model_type of wrappers.py, or parts: for all

Each field of all classes is omitted and set at two levels of config.json: next to text_config and
inside of text_config. The texts contain ids of gemma3n's other parts, and the fields for these ids
change."""
import dataclasses

import fields
import numpy as np
import torch
import transformers
import wrappers
from campaign import ABSENT

PLAIN = object()  # the field does not change
KINDS = tuple(wrappers.WRAPPERS)
# the ids of the texts are in [0, 60)
IDS = {"gemma3n": dict(vision_config=dict(vocab_offset=40, vocab_size=12), audio_config=dict(vocab_offset=50, vocab_size=90))}
ID_VALUES = dict(vocab_offset=(45, 30, 52), vocab_size=(11, 200, 3), hidden_size=(8, 40), rms_norm_eps=(1e-2, 1e-5))
VALUES = dict(
    fields.VALUES, image_token_id=(3, 40, None), video_token_id=(4, 40, None), audio_token_id=(5, 40, None), image_token_index=(3, 40),
    video_token_index=(4, 40), vision_config=({},), audio_config=({},), projector_hidden_act=("gelu", "relu"), vision_feature_layer=(-1, -2),
    vision_feature_select_strategy=("default", "full"), image_seq_length=(4, 9), spatial_merge_size=(1, 4), mm_tokens_per_image=(4, 16),
    boi_token_id=(3, 40), eoi_token_id=(3, 40), boi_token_index=(3, 40), eoi_token_index=(3, 40), boa_token_id=(3, 40), eoa_token_id=(3, 40),
    eoa_token_index=(3, 40), vision_start_token_id=(3, 40), vision_end_token_id=(3, 40), vision_token_id=(3, 40), image_start_token_id=(3, 40),
    image_end_token_id=(3, 40), video_start_token_id=(3, 40), video_end_token_id=(3, 40), projection_dim=(8, 32), ignore_index=(-100, 3),
    multimodal_projector_bias=(True, False), mlp_bias=(True, False), alignment_intermediate_size=(8, 32), scale_factor=(1, 2), downsample_factor=(1, 2),
    audio_soft_tokens_per_image=(4, 9), vision_soft_tokens_per_image=(4, 9), vision_aspect_ratio=("anyres_max_9", "anyres_max_4"),
    image_grid_pinpoints=([[16, 16]], [[32, 16]]), adapter_layer_norm_eps=(1e-3, 1e-6), visual_indicator_token_ids=([3, 4, 5, 6, 7], [8, 9, 10, 11, 12]))


def text_class(kind):
    """Return the config class of the kind's text part."""
    text = wrappers.WRAPPERS[kind]["texts"][0]
    return transformers.models.auto.configuration_auto.CONFIG_MAPPING[text]


class PartsCampaign(fields.ConfigCampaign):
    """Settings also have keys (level, field): the level "" is the top level, and "text_config" is
    the text part."""
    values = VALUES

    def text_of(self, kind, setting):
        text = wrappers.WRAPPERS[kind]["texts"][0]
        config = dict(fields.BASE, **fields.BESIDE.get(text, {}), model_type=text)
        if text.endswith("_moe_text"):
            config.update(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24)
        if text in ("qwen2_vl_text", "qwen2_5_vl_text", "glm4v_text"):  # heads have hidden size / heads lanes
            config.update(hidden_size=64, head_dim=ABSENT)
        if text in ("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "glm4v_text"):
            config["rope_parameters"] = dict(rope_type="default", rope_theta=10000.0, mrope_section=[4, 2, 2])
            if kind.startswith("qwen3"):
                config["rope_parameters"]["mrope_interleaved"] = True
            if kind.startswith("glm"):
                config["rope_parameters"]["partial_rotary_factor"] = 1.0
        config.update(setting)
        for usual, own in text_class(kind).attribute_map.items():
            if own in setting:
                config[usual] = ABSENT
        config = {k: v for k, v in config.items() if v is not ABSENT}
        fields.nest_rope(config, text)
        if text in fields.NESTED and "num_hidden_layers" in setting:
            for name in {"layer_types", "activation_sparsity_pattern"} - setting.keys():
                config.pop(name, None)
        return config

    def config_of(self, arch, setting):
        kind = arch.split(":")[1]
        by = {}
        for key, value in setting.items():
            if isinstance(key, tuple):
                by.setdefault(key[0], {})[key[1]] = value
        text = self.text_of(kind, by.get("text_config", {}))
        outer = wrappers.outer_of(kind, dict(fields.BASE, **{k: v for k, v in text.items() if v is not None}))
        for part, ids in IDS.get(kind, {}).items():
            changed = {**outer[part], **ids, **by.get(part, {})}
            outer[part] = {k: v for k, v in changed.items() if v is not ABSENT}
        config = dict(outer, model_type=kind, text_config=text)
        config.update(by.get("", {}))
        return {k: v for k, v in config.items() if v is not ABSENT}

    def reference(self, arch, config, n):
        kind = arch.split(":")[1]
        cls = wrappers.class_of(kind)
        parsed = transformers.AutoConfig.from_pretrained(self.folder)
        parsed._attn_implementation = parsed._experts_implementation = "eager"
        for part in (parsed, parsed.get_text_config()):
            part.dtype = None  # the text part's own type would round constants, although its weights are f32
            if hasattr(part, "quantization_config"):
                delattr(part, "quantization_config")
        text = wrappers.WRAPPERS[kind]["texts"][0]
        model = fields.weights_for(self.make, cls(parsed).float().eval(), self.small, int(text in fields.NORM_LESS_1), fields.SCALES.get(text, {}))
        model.save_pretrained(self.folder)  # with the names and the forms of experts in published files
        self.model, self.ids = model, torch.from_numpy(np.fromfile(self.tokens(n), "<i4").astype(np.int64))[None]
        return self.results_of(model.double(), self.ids)

    def results_of(self, model, ids):
        with torch.no_grad():
            return self.make.text_of(model)(input_ids=ids, use_cache=False, return_dict=True).logits[0].double().numpy()

    def level(self, arch, level, names):
        for name in names:
            setting = dict(self.setting.get(name, {})) if level else {}
            absent = dict(self.setting_absent.get(name, setting)) if level else {}
            if name == "rope_parameters":
                setting = absent = {}
            values = ID_VALUES[name] if level.endswith("_config") and level != "text_config" else self.values.get(name, fields.BOTH)

            def at(fields_of_text, value):
                made = {k if k in ("small", "n_token") else ("text_config", k): v for k, v in fields_of_text.items()}
                if value is not PLAIN:
                    made[level, name] = value
                return made

            variants = [("absent", at(absent, ABSENT), at(absent, PLAIN))]
            for k, value in enumerate(values):
                variants.append(("null" if value is None else str(k + 1), at(setting, value), at(setting, PLAIN)))
            self.field(arch, f"{level}.{name}" if level else name, variants, 1e-4, self.compare)

    def all(self, arch):
        kind = arch.split(":")[1]
        want, got, said = self.compare(arch, {})
        if self.verdict(f"{arch} as it is", "model_type", want, got, said, 1e-4) != "=" or want is None:
            self.wrong.append(f"{arch}: no result without a change: {self.why} {said}")
        whole = {f.name for k in KINDS for f in dataclasses.fields(wrappers.class_of(k).config_class)}
        text = {f.name for k in KINDS for f in dataclasses.fields(text_class(k))} | set(fields.MORE)
        hidden = {"text_config", "model_type", "qformer_config", "perceiver_config", "vq_config", "high_res_vision_config"}
        self.level(arch, "", sorted((whole | text) - hidden))
        self.level(arch, "text_config", sorted(text - hidden))
        for part in IDS.get(kind, {}):
            self.level(arch, part, sorted(ID_VALUES))
