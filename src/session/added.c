/* added.c - the tokens that the tokenizer adds to a text, for prompts, /tokenize, the library and
 * `quoth tokenize`, so that all of them have the same ids. */
#include "session.h"

#include "base/log.h"

/* Warnings about the model are those of loading, and not of its tokenizer. */
bool session_is_headless(const char *path)
{
    struct buf quiet = {0}, *was = log_kept;
    struct checkpoint *c = NULL;
    struct backend *b = NULL;
    struct model_sizes sizes = {.kv_type = KV_F16};
    struct err e;
    log_kept = &quiet;
    int rc = checkpoint_open(&c, path, &e);
    if (rc == 0) rc = backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e);
    if (rc == 0) rc = model_measure(c, b, NULL, &sizes, &e);
    backend_close(b);
    checkpoint_close(c);
    log_kept = was;
    buf_deinit(&quiet);
    return rc == 0 && sizes.headless;
}

unsigned session_added(bool special, bool pooled)
{
    if (!special) return 0;
    return ENCODE_ADD_SPECIAL | (pooled ? ENCODE_ADD_ALWAYS : 0);
}
