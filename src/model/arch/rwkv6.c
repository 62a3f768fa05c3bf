/* rwkv6.c - RWKV-6 ("Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence", arXiv
 * 2404.05892): RWKV-5 with factors and decays that depend on the row. The class belongs to
 * published directories (model_type rwkv6), not to transformers. The ranks of the compressed
 * factors and decays are sizes of tensors, because no field has them. */
#include "rwkv_arch_impl.h"

static const struct config_key hf_key[] = {
    KEY("vocab_size", 65536),
    KEY("embedding_length", 768),
    KEY("block_count", 24),
    RWKV_HF_KEYS,
    KEY("config.head_size", 64),
    KEY("config.head_size_divisor", 8),
    IDLE("config.num_attention_heads", "the class divides the width by head_size"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("wkv.head_size"),
    KEY_UNSET("time_mix_extra_dim"),
    KEY_UNSET("time_decay_extra_dim"),
    KEY("rescale_every_n_layers", 0),
    KEY(RWKV_HEAD_EPS_KEY, RWKV_HEAD_EPS),
    ONLY("token_shift_count", 2, "both parts of a layer mix each row with the row before it"),
    ONLY("attention.head_count", 0, "the layers have no attention"),
    KEYS_END,
};

/* Return a rank of a folder: dimension i of a tensor of the first layer, in [1, WIDTH_MAX]. A
 * missing tensor, or one of another size, is an error of binding. Random weights have `usual` rows,
 * the rank in published folders, because no field has it. */
static int rank_of(const struct binder *b, const char *name, int i, int usual)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, name);
    if (b->maker) return usual;
    if (checkpoint_is_random(b->checkpoint)) i = 1 - i;
    return t && t->dim[i] >= 1 && t->dim[i] <= WIDTH_MAX ? (int)t->dim[i] : 1;
}

static void config(struct config *c, struct binder *b)
{
    struct rwkv_sizes *s = rwkv_read_sizes(c, b, (int64_t)c->d * 7 / 64 * 32);
    if (!s) return;
    if (!config_is_hf(b)) {
        rwkv_read_gguf_heads(c, b, &s->n_head, &s->d_head, &s->head_eps);
        s->rank_mix = config_int(b, "time_mix_extra_dim", 1, WIDTH_MAX, 0);
        s->rank_decay = config_int(b, "time_decay_extra_dim", 1, WIDTH_MAX, 0);
        return;
    }
    rwkv_read_heads(c, b, s);
    const int usual = c->d < 4096 ? 32 : 64;
    s->rank_mix = rank_of(b, "blk.0.time_mix_w2.weight", 1, usual);
    s->rank_decay = rank_of(b, "blk.0.time_mix_decay_w1.weight", 0, 2 * usual);
}

const struct arch arch_rwkv6 = {
    .name = "rwkv6",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .convert = &rwkv6_convert,
    .config = config,
    RWKV_ARCH,
};
