/* classifier.c - classifiers whose labels are tokens of a language model, such as Qwen3-Reranker.
 * config.json or --hf-overrides has the tokens, in vLLM's fields:
 *
 *   {"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}
 *   {"classifier_from_token": ["0", "1"], "method": "from_2_way_softmax"}
 *   {"classifier_from_token": ["Yes"], "method": "no_post_processing"}
 *
 * from_2_way_softmax is the probability of the second token in the softmax of both logits: the
 * sigmoid of the difference of the logits. Qwen3-Reranker uses this method. no_post_processing has
 * a label per token. */
#include "session.h"

#include <stdio.h>
#include <string.h>

bool session_config_true(const struct session *s, const char *field)
{
    char key[128];
    snprintf(key, sizeof key, "config.%s", field);
    return meta_bool(checkpoint_meta(s->checkpoint, key), false);
}

/* Set *difference by the name of the method: true for from_2_way_softmax. */
static int read_method(bool *difference, const struct checkpoint *c, bool original, int n_token,
                       struct err *e)
{
    const char *method = meta_text(checkpoint_meta(c, "config.method"), NULL);
    if (!method && original) method = "from_2_way_softmax";
    *difference = method && strcmp(method, "from_2_way_softmax") == 0;
    if (!*difference && !(method && strcmp(method, "no_post_processing") == 0))
        return err_field(e, ERR_ARG, "method",
                         ": must be from_2_way_softmax or no_post_processing, got \"%.40s\"",
                         method ? method : "");
    if (*difference && n_token != 2)
        return err_field(e, ERR_ARG, "classifier_from_token", ": must have 2 tokens, got %d",
                         n_token);
    return 0;
}

int session_class_tokens(struct model_options *mo, const struct checkpoint *c,
                         const struct tokenizer *t, struct err *e)
{
    const struct meta *list = checkpoint_meta(c, "config.classifier_from_token");
    const bool original = meta_bool(checkpoint_meta(c, "config.is_original_qwen3_reranker"), false);
    const size_t n = meta_count(list);
    if (meta_kind(list) == META_NONE && !original) return 0;
    if (meta_item_kind(list) != META_TEXT || n == 0 || n > CLASS_TOKENS_MAX)
        return err_field(e, ERR_ARG, "classifier_from_token",
                         ": must be a list of 1 to %d tokens, got %zu", CLASS_TOKENS_MAX, n);
    for (size_t i = 0; i < n; i++) {
        size_t n_piece = 0;
        const char *piece = meta_item_text(list, i, &n_piece);
        mo->class_token[i] = tokenizer_find(t, piece, n_piece);
        if (mo->class_token[i] < 0)
            return err_field(e, ERR_ARG, "classifier_from_token",
                             "[%zu]: \"%.*s\" is not a token of the model", i,
                             n_piece > 60 ? 60 : (int)n_piece, piece);
    }
    mo->n_class_token = (int)n;
    return read_method(&mo->class_difference, c, original, (int)n, e);
}
