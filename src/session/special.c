/* special.c - the texts of special tokens for chat templates.
 *
 *   folder   tokenizer.special.NAME, the names and texts of its JSON files (format/hf_special.c)
 *            else the default of the tokenizer's class, if the vocabulary has the token
 *   others   BOS and EOS, the ids of the tokenizer: a GGUF has no names
 *
 * A folder's token without a text, or with null, is absent, as in transformers. An id in
 * config.json gives no text. */
#include "session.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "tokenizer.special.";

/* Append a variable. The reader of a folder limits the number of its tokens. */
static void add(struct chat_special *s, const char *name, const char *text, size_t n)
{
    if (text && s->n < CHAT_SPECIAL_MAX)
        s->v[s->n++] = (struct chat_variable){.name = name, .text = text, .n = n};
}

static void add_id(struct chat_special *s, const char *name, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *text = id >= 0 ? tokenizer_piece(t, id, &n) : NULL;
    add(s, name, text, n);
}

/* Return true if the tokenizer's class has this name, with or without "Fast". */
static bool is_class(const char *class, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(class, name, n) == 0 && (!class[n] || strcmp(class + n, "Fast") == 0);
}

/* Add the defaults of the class, except for tokens of the files. transformers does not use the
 * class LlamaTokenizer if tokenizer.json is byte-level; such a vocabulary lacks the class's
 * tokens. */
static void add_defaults(struct chat_special *s, const struct checkpoint *c,
                         const struct tokenizer *t)
{
    static const struct {
        const char *class, *name, *text;
    } defaults[] = {
#define SPECIAL(class, name, text) {#class, #name, text},
#include "special.def"
    };
    const char *class = meta_text(checkpoint_meta(c, "tokenizer.class"), NULL);
    for (size_t i = 0; class && t && i < sizeof defaults / sizeof defaults[0]; i++) {
        char key[80];
        snprintf(key, sizeof key, "%s%s", prefix, defaults[i].name);
        if (!is_class(class, defaults[i].class) || checkpoint_meta(c, key)) continue;
        if (tokenizer_find(t, defaults[i].text, strlen(defaults[i].text)) >= 0)
            add(s, defaults[i].name, defaults[i].text, strlen(defaults[i].text));
    }
}

void chat_special(struct chat_special *s, const struct checkpoint *c, const struct tokenizer *t)
{
    s->n = 0;
    if (!c || checkpoint_kind(c) != CKPT_HF) {
        if (t) add_id(s, "bos_token", t, tokenizer_bos(t));
        if (t) add_id(s, "eos_token", t, tokenizer_eos(t));
        return;
    }
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const char *key;
        size_t n = 0;
        const struct meta *v = checkpoint_meta_at(c, i, &key);
        if (strncmp(key, prefix, sizeof prefix - 1) != 0) continue;
        const char *text = meta_text(v, &n);
        add(s, key + sizeof prefix - 1, text, n);
    }
    add_defaults(s, c, t);
}

const struct chat_variable *chat_special_find(const struct chat_special *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->v[i].name, name) == 0) return &s->v[i];
    return NULL;
}
