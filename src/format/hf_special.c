/* hf_special.c - special tokens of a Hugging Face directory, by the names of the variables that
 * chat templates use.
 *
 *   tokenizer_config.json     extra_special_tokens, NAME_token   "tokenizer.special.NAME"
 *   special_tokens_map.json   NAME_token                          the same; a null has a key, too
 *   tokenizer_config.json     tokenizer_class                     "tokenizer.class"
 *
 * transformers 5 merges the files in this order: tokens of one model (an object of names, and names
 * that are not standard), the map, standard tokens of tokenizer_config.json. The map has no effect
 * if tokenizer_config.json has added_tokens_decoder. */
#include "hf_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Return true for the names that every tokenizer has. */
static bool is_standard(const char *name)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Add a token: a text, an object with the text as `content`, or null. Other values have no effect.
 * A name that is too long for a key has no effect either. */
static int add_token(struct config_reader *h, const char *name, const struct json *v)
{
    char key[HF_KEY_BYTES_MAX];
    size_t n;
    const char *text = json_text(json_kind(v) == JK_OBJECT ? json_field(v, "content") : v, &n);
    const int n_key = snprintf(key, sizeof key, "tokenizer.special.%s", name);
    if ((!text && json_kind(v) != JK_NULL) || n_key >= (int)sizeof key) return 0;
    if (checkpoint_meta(h->c, key)) return 0;
    if (h->n_special++ == CHECKPOINT_SPECIAL_MAX)
        return err_set(h->e, ERR_LIMIT, "%s/%s: must have at most %d special tokens", h->dir,
                       h->file, CHECKPOINT_SPECIAL_MAX);
    return text ? checkpoint_add_text(h->c, key, text, n, h->e) : hf_add_bare(h, key, VT_NULL);
}

/* Add the members of an object of names. */
static int add_names(struct config_reader *h, const struct json *object)
{
    int rc = 0;
    for (void *it = json_first(object); it && rc == 0; it = json_next(object, it)) {
        size_t n;
        rc = add_token(h, json_it_key(it, &n), json_it_value(it));
    }
    return rc;
}

/* Add the fields NAME_token at the top level of a file, with or without the standard names. */
static int add_fields(struct config_reader *h, const struct json *root, bool standard)
{
    int rc = 0;
    for (void *it = json_first(root); it && rc == 0; it = json_next(root, it)) {
        size_t n;
        const char *name = json_it_key(it, &n);
        if (text_ends_with(name, "_token") && is_standard(name) == standard)
            rc = add_token(h, name, json_it_value(it));
    }
    return rc;
}

int hf_special_map(struct config_reader *h, const struct json *root)
{
    int rc = add_names(h, json_kind(json_field(root, "extra_special_tokens")) == JK_OBJECT
                              ? json_field(root, "extra_special_tokens")
                              : NULL);
    if (rc == 0) rc = add_fields(h, root, true);
    return rc ? rc : add_fields(h, root, false);
}

int hf_special_own(struct config_reader *h, const struct json *root)
{
    const struct json *extra = json_field(root, "extra_special_tokens"),
                      *own = json_field(root, "model_specific_special_tokens");
    size_t n = 0;
    const char *class = json_text(json_field(root, "tokenizer_class"), &n);
    int rc = class ? checkpoint_add_text(h->c, "tokenizer.class", class, n, h->e) : 0;
    if (rc == 0 && json_kind(extra) == JK_OBJECT) rc = add_names(h, extra);
    if (rc == 0) rc = add_fields(h, root, false);
    if (rc == 0 && h->n_special == 0 && json_kind(own) == JK_OBJECT) rc = add_names(h, own);
    return rc;
}

int hf_special_standard(struct config_reader *h, const struct json *root)
{
    return add_fields(h, root, true);
}
