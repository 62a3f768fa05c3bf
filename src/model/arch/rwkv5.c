/* rwkv5.c - RWKV-5.2 ("Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence",
 * arXiv 2404.05892): RWKV-4 with a state per head, a gate, and a norm of the results of each head.
 * The class belongs to published directories (model_type rwkv5), not to transformers. */
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

void rwkv_read_heads(struct config *c, struct binder *b, struct rwkv_sizes *s)
{
    static const char size_key[] = "config.head_size", by_key[] = "config.head_size_divisor";
    s->d_head = config_int(b, size_key, 1, D_HEAD_MAX, 0);
    const double by = config_real(b, by_key, 8);
    if (b->rc == 0 && s->d_att != c->d)
        config_refuse(b, "config.attention_hidden_size", ERR_UNSUPPORTED,
                      "must be hidden_size, %d, got %d", c->d, s->d_att);
    if (b->rc == 0 && s->d_att % s->d_head)
        config_refuse(b, size_key, ERR_FORMAT, "must divide %d, got %d", s->d_att, s->d_head);
    /* the class divides the results before the norm, which only its epsilon detects */
    s->head_eps = (float)(RWKV_HEAD_EPSILON * by * by);
    if (b->rc == 0 && !(by > 0 && s->head_eps > 0 && isfinite(s->head_eps)))
        config_refuse(b, by_key, ERR_FORMAT, "must be above 0, got %g", by);
    s->n_head = b->rc == 0 ? s->d_att / s->d_head : 1;
}

static void config(struct config *c, struct binder *b)
{
    struct rwkv_sizes *s = rwkv_read_sizes(c, b, (int64_t)c->d * 7 / 64 * 32);
    if (s) rwkv_read_heads(c, b, s);
}

const struct arch arch_rwkv5 = {
    .name = "rwkv5",
    .hf_key = hf_key,
    .gguf_why = "llama.cpp has no such architecture",
    .config = config,
    RWKV_ARCH,
};
