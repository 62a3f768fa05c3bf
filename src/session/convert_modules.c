/* convert_modules.c - the files of sentence-transformers in a folder that is written from a GGUF of
 * an embedding: the list of modules, and the configs and tensors of the modules after the model.
 *
 *   Transformer --> Pooling --> Dense, at most 2 --> Normalize */
#include "session_impl.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the value of a key of the architecture; NULL if the file lacks the key. */
static const struct meta *arch_meta(const struct checkpoint *c, const char *name)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", meta_text(checkpoint_meta(c, "general.architecture"), NULL),
             name);
    return checkpoint_meta(c, key);
}

/* Return the number of Dense modules. */
static int n_dense(const struct checkpoint *c)
{
    if (!checkpoint_tensor(c, "dense_2.weight")) return 0;
    return checkpoint_tensor(c, "dense_3.weight") ? DENSE_MAX : 1;
}

static void put_module(struct buf *b, int i, const char *type, bool folder)
{
    buf_addf(b, "%s{\"idx\":%d,\"name\":\"%d\",\"path\":\"", i ? "," : "[", i, i);
    if (folder) buf_addf(b, "%d_%s", i, type);
    buf_addf(b, "\",\"type\":\"sentence_transformers.models.%s\"}", type);
}

/* Append the list of modules. */
static void put_modules(struct buf *b, const struct checkpoint *c)
{
    const int n = n_dense(c);
    put_module(b, 0, "Transformer", false);
    put_module(b, 1, "Pooling", true);
    for (int i = 0; i < n; i++) put_module(b, 2 + i, "Dense", true);
    if (meta_int(checkpoint_meta(c, "sentence_transformers.normalize"), 1))
        put_module(b, 2 + n, "Normalize", true);
    buf_add_text(b, "]\n");
}

/* Append the maximum length of a text from the file, or from the model if the file has none. */
static void put_length(struct buf *b, const struct checkpoint *c)
{
    const int64_t usual = meta_int(checkpoint_meta(c, "tokenizer.model_max_length"), 0);
    const int64_t own = meta_int(checkpoint_meta(c, "sentence_transformers.max_seq_length"), usual);
    buf_addf(b, "{\"max_seq_length\":%lld,\"do_lower_case\":false}\n",
             (long long)(own > 0 ? own : meta_int(arch_meta(c, "context_length"), 512)));
}

/* Append the prompts by name, and the name of the default prompt. */
static void put_prompts(struct buf *b, const struct checkpoint *c)
{
    static const char key[] = "sentence_transformers.prompts.";
    const char *name, *comma = "";
    const char *chosen =
        meta_text(checkpoint_meta(c, "sentence_transformers.default_prompt"), NULL);
    buf_add_text(b, "{\"prompts\":{");
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        size_t n;
        const char *text = meta_text(checkpoint_meta_at(c, i, &name), &n);
        if (!text || strncmp(name, key, sizeof key - 1) != 0) continue;
        buf_add_text(b, comma);
        json_put_text(b, name + sizeof key - 1, strlen(name + sizeof key - 1));
        buf_add_char(b, ':');
        json_put_text(b, text, n);
        comma = ",";
    }
    buf_add_text(b, "},\"default_prompt_name\":");
    if (chosen)
        json_put_text(b, chosen, strlen(chosen));
    else
        buf_add_text(b, "null");
    const int64_t cut = meta_int(checkpoint_meta(c, "sentence_transformers.truncate_dim"), 0);
    if (cut > 0) buf_addf(b, ",\"truncate_dim\":%lld", (long long)cut);
    buf_add_text(b, ",\"similarity_fn_name\":\"cosine\"}\n");
}

/* Append the config of the Pooling module: its width and the pooling, GGUF's number `type`. */
static void put_pooling(struct buf *b, const struct checkpoint *c, int64_t type)
{
    static const char *const mode[] = {"mean_tokens", "cls_token", "lasttoken"};
    buf_addf(b, "{\"word_embedding_dimension\":%lld",
             (long long)meta_int(arch_meta(c, "embedding_length"), 0));
    for (int i = 0; i < 3; i++)
        buf_addf(b, ",\"pooling_mode_%s\":%s", mode[i], type == i + 1 ? "true" : "false");
    buf_add_text(b, ",\"pooling_mode_max_tokens\":false,\"pooling_mode_mean_sqrt_len_tokens\":"
                    "false,\"pooling_mode_weightedmean_tokens\":false,\"include_prompt\":true}\n");
}

/* Append the config of Dense module i, a linear layer without an activation. */
static void put_dense(struct buf *b, const struct checkpoint *c, int i)
{
    char name[40];
    snprintf(name, sizeof name, "dense_%d.weight", i + 2);
    const struct tensor_info *t = checkpoint_tensor(c, name);
    snprintf(name, sizeof name, "dense_%d.bias", i + 2);
    buf_addf(b,
             "{\"in_features\":%lld,\"out_features\":%lld,\"bias\":%s,\"activation_function\":"
             "\"torch.nn.modules.linear.Identity\"}\n",
             (long long)t->dim[0], (long long)t->dim[1],
             checkpoint_tensor(c, name) ? "true" : "false");
}

int folder_add_modules(struct folder *f, const struct conversion_options *o, struct err *e)
{
    const int64_t type = meta_int(arch_meta(f->c, "pooling_type"), 0);
    int rc = 0;
    if (type < 1 || type > 3) return 0;
    put_modules(&f->text[FOLDER_MODULES], f->c);
    put_length(&f->text[FOLDER_LENGTH], f->c);
    put_prompts(&f->text[FOLDER_PROMPTS], f->c);
    put_pooling(&f->text[FOLDER_POOLING], f->c, type);
    for (int i = 0; i < n_dense(f->c) && rc == 0; i++) {
        put_dense(&f->text[FOLDER_DENSE + 2 * i], f->c, i);
        rc = model_hf_dense(&f->tensors[FOLDER_DENSE + 2 * i + 1], f->c, o, i, e);
    }
    return rc;
}
