/* request.c - the life of a request until engine_submit. */
#include "engine_impl.h"

#include <stdlib.h>

struct request *request_open(struct err *e)
{
    static _Atomic uint64_t next_id = 1;
    struct request *r = calloc(1, sizeof *r);
    if (!r) {
        err_memory(e, "a request", sizeof *r);
        return NULL;
    }
    r->id = atomic_fetch_add(&next_id, 1);
    r->params = sample_params_default;
    r->max_tokens = 16;
    r->n_prompt_logprob = -1;
    r->n = 1;
    r->length_penalty = 1;
    r->share_weight = 1;
    return r;
}

void request_close(struct request *r)
{
    if (!r) return;
    if (r->constraint) r->constraint->op->close(r->constraint);
    vec_deinit(&r->prompt);
    arena_deinit(&r->arena);
    free(r);
}

const char *finish_name(enum finish f)
{
    static const char *const name[] = {"none",  "stop",    "length", "abort",
                                       "error", "timeout", "refused"};
    return name[f];
}
