"""wrappers.py - transformers' classes of models with several parts, for odd.py, fields.py and
make.py. Each model has a tiny part for images, whose values have no effect on texts.

    WRAPPERS   model_type -> class, model_types of the text part (the first is the class's default),
               other fields of the config
    config_of  the config of a class around the fields of a text part"""
import transformers

CLIP = dict(model_type="clip_vision_model", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16,
            patch_size=8, projection_dim=16)
SIGLIP = dict(model_type="siglip_vision_model", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16,
              patch_size=8, vision_use_head=False)
PIXTRAL = dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, head_dim=8, image_size=16,
               patch_size=8)
SAM = dict(model_type="sam_vision_model", hidden_size=16, output_channels=8, num_hidden_layers=1, num_attention_heads=2, image_size=32,
           patch_size=8, mlp_dim=16, window_size=2, global_attn_indexes=[0], num_pos_feats=8)
IDEFICS = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8)
QWEN = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=8, spatial_merge_size=2, temporal_patch_size=2)
TIMM = dict(model_type="timm_wrapper", architecture="resnet18", model_args=dict(layers=[1, 1, 1, 1], channels=[4, 4, 4, 4]))
VIT = dict(model_type="timm_wrapper", architecture="vit_tiny_patch16_224", model_args=dict(embed_dim=16, depth=1, num_heads=2, img_size=[32, 32]))


def qwen_vision(size, **more):
    """Return the vision part of Qwen-VL, whose width is that of the text part."""
    return lambda text: dict(QWEN, **{size: text["hidden_size"]}, **more)


def glm_vision(text):
    return dict(model_type="glm4v_vision", depth=1, hidden_size=16, out_hidden_size=text["hidden_size"], intermediate_size=16, num_heads=2, image_size=16,
                patch_size=8)


LLAMA4 = dict(model_type="llama4_vision_model", hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4,
              vision_output_dim=8, projector_input_dim=8, projector_output_dim=8)

GEMMA3N_VISION, GEMMA3N_AUDIO = 12, 7  # ids of the parts are the last ids of the text's vocabulary; value: first id, counted from the end


def gemma3n_vision(text):
    return dict(model_type="gemma3n_vision", architecture="resnet18", model_args=TIMM["model_args"], hidden_size=16, vocab_size=6, label_names=[],
                vocab_offset=text["vocab_size"] - GEMMA3N_VISION, rms_norm_eps=1e-3)


def gemma3n_audio(text):
    return dict(model_type="gemma3n_audio", hidden_size=24, vocab_size=9, vocab_offset=text["vocab_size"] - GEMMA3N_AUDIO, conf_num_attention_heads=2,
                conf_num_hidden_layers=1, sscp_conv_channel_size=[4, 4])


def spec(cls, *texts, **fields):
    return dict(cls=cls, texts=texts, fields=fields)


LLAVA = dict(vision_config=CLIP, image_token_index=3)
WRAPPERS = {
    "mistral3": spec("Mistral3ForConditionalGeneration", "mistral", "ministral3", vision_config=PIXTRAL, image_token_index=3),
    "qwen2_vl": spec("Qwen2VLForConditionalGeneration", "qwen2_vl_text", vision_config=qwen_vision("hidden_size", embed_dim=16, mlp_ratio=1)),
    "qwen2_5_vl": spec("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", vision_config=qwen_vision("out_hidden_size", fullatt_block_indexes=[0])),
    "qwen3_5": spec("Qwen3_5ForConditionalGeneration", "qwen3_5_text", vision_config=qwen_vision("out_hidden_size", num_position_embeddings=16)),
    "qwen3_5_moe": spec("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text",
                        vision_config=qwen_vision("out_hidden_size", num_position_embeddings=16)),
    "qwen3_vl": spec("Qwen3VLForConditionalGeneration", "qwen3_vl_text",
                     vision_config=qwen_vision("out_hidden_size", deepstack_visual_indexes=[0], num_position_embeddings=16)),
    "qwen3_vl_moe": spec("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text",
                         vision_config=qwen_vision("out_hidden_size", deepstack_visual_indexes=[0], num_position_embeddings=16)),
    "llama4": spec("Llama4ForConditionalGeneration", "llama4_text", vision_config=LLAMA4, image_token_index=3),
    "llava": spec("LlavaForConditionalGeneration", "llama", "mistral", "qwen2", "gemma", "phi3", "granite", "olmo2", "smollm3", "qwen3_moe", "gemma2",
                  "gemma3_text", **LLAVA),
    "llava_next": spec("LlavaNextForConditionalGeneration", "llama", "mistral", "granite", "qwen2", **LLAVA),
    "llava_next_video": spec("LlavaNextVideoForConditionalGeneration", "llama", "mistral", **LLAVA),
    "vipllava": spec("VipLlavaForConditionalGeneration", "llama", vision_config=dict(CLIP, num_hidden_layers=2), vision_feature_layers=[-1, -2]),
    "video_llava": spec("VideoLlavaForConditionalGeneration", "llama", **LLAVA),
    "llava_onevision": spec("LlavaOnevisionForConditionalGeneration", "qwen2", "qwen3", vision_config=SIGLIP, image_token_index=3),
    "idefics2": spec("Idefics2ForConditionalGeneration", "mistral", "llama", vision_config=IDEFICS,
                     perceiver_config=dict(n_latents=2, hidden_size=16, depth=1, n_heads=2, head_dim=8, num_key_value_heads=1)),
    "idefics3": spec("Idefics3ForConditionalGeneration", "llama", vision_config=IDEFICS, image_token_id=3),
    "smolvlm": spec("SmolVLMForConditionalGeneration", "llama", vision_config=IDEFICS, image_token_id=3),
    "internvl": spec("InternVLForConditionalGeneration", "qwen2", "llama", "qwen3", "qwen3_moe",
                     vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=[16, 16], patch_size=[8, 8])),
    "paligemma": spec("PaliGemmaForConditionalGeneration", "gemma", "gemma2", vision_config=SIGLIP, image_token_index=3, projection_dim=16),
    "aya_vision": spec("AyaVisionForConditionalGeneration", "cohere2", vision_config=SIGLIP, image_token_index=3),
    "cohere2_vision": spec("Cohere2VisionForConditionalGeneration", "cohere2", vision_config=SIGLIP, image_token_id=3, alignment_intermediate_size=16),
    "exaone4_5": spec("Exaone4_5_ForConditionalGeneration", "exaone4", vision_config=qwen_vision("out_hidden_size", fullatt_block_indexes=[0], num_key_value_heads=1)),
    "lighton_ocr": spec("LightOnOcrForConditionalGeneration", "qwen3", vision_config=PIXTRAL, image_token_id=3),
    "got_ocr2": spec("GotOcr2ForConditionalGeneration", "qwen2",
                     vision_config=dict(hidden_size=16, output_channels=8, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8, mlp_dim=16,
                                        window_size=2, global_attn_indexes=[0])),
    "ovis2": spec("Ovis2ForConditionalGeneration", "qwen2", vision_config=dict(IDEFICS, vocab_size=20, num_visual_indicator_tokens=5),
                  visual_indicator_token_ids=[3, 4, 5, 6, 7]),
    "fast_vlm": spec("FastVlmForConditionalGeneration", "qwen2", vision_config=dict(TIMM, hidden_size=16)),
    "perception_lm": spec("PerceptionLMForConditionalGeneration", "llama", vision_config=VIT),
    "deepseek_vl": spec("DeepseekVLForConditionalGeneration", "llama", vision_config=SIGLIP, image_token_id=3),
    "deepseek_vl_hybrid": spec("DeepseekVLHybridForConditionalGeneration", "llama", vision_config=SIGLIP, high_res_vision_config=SAM, image_token_id=3),
    "janus": spec("JanusForConditionalGeneration", "llama",
                  vision_config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8, projection_dim=16),
                  vq_config=dict(embed_dim=4, num_embeddings=8, latent_channels=32, base_channels=32, channel_multiplier=[1], num_res_blocks=1, projection_dim=16,
                                 image_token_embed_dim=16)),
    "glm4v": spec("Glm4vForConditionalGeneration", "glm4v_text", vision_config=glm_vision, image_token_id=3),
    "glm46v": spec("Glm46VForConditionalGeneration", "glm4v_text", vision_config=glm_vision, image_token_id=3),
    "granite4_vision": spec("Granite4VisionForConditionalGeneration", "granite4_vision_text", vision_config=dict(CLIP, hidden_size=64), image_token_index=3,
                            downsample_rate="1/2", deepstack_layer_map=[[0, 0]], spatial_target_layers=[0, 0, 0, 0]),
    "gemma3": spec("Gemma3ForConditionalGeneration", "gemma3_text", vision_config=SIGLIP, image_token_index=3, mm_tokens_per_image=4),
    "gemma3n": spec("Gemma3nForConditionalGeneration", "gemma3n_text", vision_config=gemma3n_vision, audio_config=gemma3n_audio),
    "gemma4": spec("Gemma4ForConditionalGeneration", "gemma4_text", vision_config=None, audio_config=None, image_token_id=3, video_token_id=4, audio_token_id=7),
    "shieldgemma2": spec("Gemma3ForConditionalGeneration", "gemma3_text", vision_config=SIGLIP, image_token_index=3, mm_tokens_per_image=4),
}


def outer_of(model_type, text):
    """Return the fields at the top level around those of a text part."""
    w = WRAPPERS[model_type]
    fields = {k: v(text) if callable(v) else v for k, v in w["fields"].items()}
    if model_type == "ovis2":
        fields.update(hidden_size=text["hidden_size"], vocab_size=text["vocab_size"])
    if model_type == "paligemma":
        fields.update(hidden_size=text["hidden_size"])
    return fields


def config_of(model_type, text, text_type=None, **more):
    """Return the config of a class around the fields of a text part. more: fields of the top level."""
    w, fields = WRAPPERS[model_type], outer_of(model_type, text)
    return transformers.AutoConfig.for_model(model_type, text_config=dict(text, model_type=text_type or w["texts"][0]), **fields, **more)


def class_of(model_type):
    return getattr(transformers, WRAPPERS[model_type]["cls"])
