/* request.c - memory of a request before engine_submit.
 *
 * The defaults are equal to the defaults of OpenAI's completions API: one answer of at most 16
 * tokens. No log probabilities of the prompt are requested. */
#include "engine_impl.h"

#include "base/check.h"

#include <stdlib.h>

/* Assign an id that is unique in the process. Ids begin at 1, so that 0 can mean "no request". Any
 * thread. */
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
    r->holder_weight = 1;
    return r;
}

/* Free a request that was not submitted. After engine_submit, the engine frees the request. */
void request_close(struct request *r)
{
    if (!r) return;
    if (r->constraint) r->constraint->op->close(r->constraint);
    vec_deinit(&r->prompt);
    arena_deinit(&r->arena);
    free(r);
}

/* Return a name from a list in the order of enum finish. */
const char *finish_name(enum finish f)
{
    static const char *const name[] = {"none",  "stop",    "length",  "abort",
                                       "error", "timeout", "refused", "repetition"};
    CHECK((size_t)f < sizeof name / sizeof name[0], "finish %d", (int)f);
    return name[f];
}
