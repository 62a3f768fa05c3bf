/* arch_impl.h - private to src/model: declaration of an architecture, its keys and functions
 * (arch/). */
#ifndef QUOTH_MODEL_ARCH_IMPL_H
#define QUOTH_MODEL_ARCH_IMPL_H

#include "block_impl.h"

#include <math.h>

struct binder;
struct fwd;

/* Use of a metadata key by an architecture. */
enum key_use {
    KEY_READ, /* key that config.c or the architecture reads; `value` is the default, NAN if none */
    KEY_IDLE, /* key without an effect on results; `why` gives the reason */
    KEY_ONLY, /* key that is accepted only with `value`; `why` gives the reason */
    KEY_MUST, /* key like KEY_ONLY that is also required in a GGUF */
};
/* A metadata key and its use by the architecture. `key` follows "ARCH.". The key of a config.json
 * field without a GGUF name is "config.FIELD". The texts are static. */
struct config_key {
    const char *key;
    enum key_use use;
    double value;
    const char *why;
};
#define KEY(key, value)                                                                            \
    {                                                                                              \
        key, KEY_READ, value, NULL                                                                 \
    }
#define KEY_UNSET(key)                                                                             \
    {                                                                                              \
        key, KEY_READ, NAN, NULL                                                                   \
    }
#define IDLE(key, why)                                                                             \
    {                                                                                              \
        key, KEY_IDLE, NAN, why                                                                    \
    }
#define ONLY(key, value, why)                                                                      \
    {                                                                                              \
        key, KEY_ONLY, value, why                                                                  \
    }
#define MUST(key, value, why)                                                                      \
    {                                                                                              \
        key, KEY_MUST, value, why                                                                  \
    }
#define KEYS_END                                                                                   \
    {                                                                                              \
        NULL, KEY_IDLE, NAN, NULL                                                                  \
    }

struct arch_convert;
/* An architecture. The rows of tensors.def under its name define its tensor names and shapes. All
 * data are static. */
struct arch {
    const char *name;
    /* Keys of config.json with the defaults of the reference class, and keys of a GGUF, in addition
     * to keys.def. Each list ends with KEYS_END. gguf_key is NULL if none. */
    const struct config_key *hf_key, *gguf_key;
    /* a further name of the architecture in GGUF files, static; NULL if none */
    const char *gguf_other;
    /* reason for rejecting GGUF files, static; NULL: GGUF files are accepted */
    const char *gguf_why;
    const char *hf_why; /* reason for rejecting folders, static; NULL: folders are accepted */
    /* true: GGUF files pair rotary lanes as in neox. Hugging Face checkpoints without hf_adjacent
     * have the same pairs */
    bool gguf_neox;
    bool gguf_tiled;  /* true: GGUF files have another order of the heads of recurrent layers */
    bool gguf_curve;  /* true: the activation in the metadata of a GGUF file is used */
    bool hf_adjacent; /* true: pairs in Hugging Face checkpoints are adjacent lanes */
    /* true: in Hugging Face checkpoints, attn_qkv groups the rows by KV head: its q heads, k, v */
    bool hf_groups;
    /* true: in Hugging Face checkpoints, rows of gate and up alternate in the tensor of all
     * experts, and their biases */
    bool hf_pairs;
    /* true: GGUF files have gate and up of experts in separate tensors, in contrast to Hugging Face
     * checkpoints */
    bool gguf_halves;
    /* true: the widths of feed-forward blocks and the numbers of KV heads may be lists with a value
     * per layer */
    bool gguf_lists, hf_lists;
    /* true: in GGUF files, layers with 0 KV heads are recurrent. Their list needs gguf_lists */
    bool gguf_kinds;
    /* true: with gguf_kinds, a layer has one block: the feed-forward block in layers with a width
     * of it, attention in layers with KV heads, otherwise a recurrence */
    bool gguf_single;
    /* name of the output norm in tensors.def; NULL: output_norm */
    const char *output_norm;
    /* keys of a config.json whose list, or text, has an item or a character per layer. The first of
     * them in the file gives the number of layers. NULL ends the list. hf_layers NULL: no list */
    const char *const *hf_layers;
    /* true: all layers are recurrent. The config has neither heads of attention nor feed-forward
     * blocks */
    bool no_attention;
    /* true: the metadata have no rope, because no layer has a rope or the rope is fixed */
    bool no_rope;
    /* true: each row attends to all rows of its sequence, which is computed in one step. The model
     * returns hidden states, but no logits. */
    bool encoder;
    /* true: the first layers belong to an encoder, and all further layers to a decoder that attends
     * to its output. The ends are struct cross_ends, the layers struct decoder_layer */
    bool crosses;
    /* beginning of the names of the layers of an encoder without its decoder; NULL: no beginning */
    const char *part;
    /* true: rope may rotate only the first lanes of a head, in all files or in GGUF files */
    bool partial_rope, gguf_partial_rope;
    /* types of rope_parameters of the class; NULL: ROPE_TYPES */
    const struct rope_type *rope_type;
    /* field of config.json with the epsilon of LayerNorm; NULL: the architecture has RMSNorm */
    const char *layer_norm_eps;
    bool norm_bias;   /* true: each LayerNorm has a bias; false: no LayerNorm has a bias */
    bool plain_norms; /* true: the table has no LayerNorm, because no LayerNorm has weights */
    /* parts of the conversion that only this architecture has (convert_impl.h); NULL if none */
    const struct arch_convert *convert;
    enum curve curve; /* activation of feed-forward blocks if the metadata have none */
    /* name of the default activation if the architecture computes it (ffn_block.act), static; NULL:
     * `curve` */
    const char *own_curve;
    int ffn_times; /* default width of feed-forward blocks as a multiple of d; 0 if none */
    /* sizes of the architecture's structs for ends and layers; 0: sizes of decoder_ends and
     * decoder_layer */
    size_t ends_bytes, layer_bytes;
    /* beginnings of raw names, or ends after a dot, of tensors without an effect on results. NULL
     * ends the list. left_out NULL: no list */
    const char *const *left_out;
    /* description of the tensors in left_out, static; NULL if left_out is NULL */
    const char *left_out_why;
    /* Set d_head, the rotated lanes of ROPE_MAIN, and `own` by keys of the architecture. c already
     * has the numbers of layers and heads, widths and epsilon. NULL: heads have their usual
     * sizes. */
    void (*heads)(struct config *c, struct binder *b);
    /* Return a size of tensors.def that no common key gives. NULL if no tensor has such a size. */
    int64_t (*size)(const struct config *c, enum tensor_size size);
    /* Adjust the config that config.c read from the common keys. NULL if no adjustment is needed. b
     * keeps the first failure. */
    void (*config)(struct config *c, struct binder *b);
    /* functions of the architecture; NULL: the function of most decoders (block/layer.c,
     * block/ends.c) */
    void (*bind_ends)(struct binder *b, void *ends);
    void (*bind)(struct binder *b, void *layer, int il);
    /* Set f->x to the embedded tokens of the batch. */
    void (*embed)(struct fwd *f, const void *ends);
    void (*layer)(struct fwd *f, const void *layer);
    /* Compute the results that the batch requires, from f->x. */
    struct model_out (*output)(struct fwd *f, const void *ends);
};

#define ARCH(id) extern const struct arch arch_##id;
#include "arch/arch.def"
#undef ARCH

#endif
