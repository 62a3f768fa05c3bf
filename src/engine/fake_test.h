/* fake_test.h - a model whose K and V can be checked, on a virtual clock. K and V of a token
 * contain the token, its position, a hash of all tokens up to it, and its text's rope (LongRoPE). K
 * and V are stored at the slots of the batch. Logits are a hash of the prefix in the page table, so
 * wrong K and V give a wrong token. The fake model also reports a batch that reads a hole or a page
 * without content, or writes to a shared page. The thread that steps the engine calls the model. */
#ifndef QUOTH_ENGINE_FAKE_TEST_H
#define QUOTH_ENGINE_FAKE_TEST_H

#include "engine_impl.h"

enum { FAKE_VOCAB = 24 };

struct fake_cell {
    int32_t token, pos;
    /* hash of all tokens up to this token, because K and V depend on all these tokens. For a token
     * of a source, the hash covers all tokens of the source and the position */
    uint64_t prefix;
    bool is_long; /* true: the rope had the long list of divisors (limits.n_short) */
};

/* Recurrent state: number of all tokens, and their hash. */
struct fake_state {
    int n_token;
    uint64_t hash;
};

/* Fake model. The test sets these fields before fake_open: limits, n_page, page_rows, n_host_page,
 * window, and the clock's behaviour. */
struct fake {
    struct batch_limits limits;
    int n_page, page_rows, n_host_page, window;
    /* number of states in host memory; with limits.n_state, the model also has recurrent state */
    int n_host_state;
    /* number of tokens after a source (fake_start), with limits.n_source */
    int n_start;
    bool no_kv; /* true: the model has only recurrent state; window is 1 */
    /* one step in this number of steps takes up to 200 ms more; 0: none */
    int jump_every;
    uint64_t rng;                      /* state of the random numbers of the jumps */
    _Atomic int64_t now_us;            /* a caller of engine_submit reads the value during a step */
    struct pool *pool;                 /* borrowed; NULL if none */
    struct fake_cell *cell;            /* owned [n_page * page_rows] cells of the pages */
    struct fake_cell *host;            /* owned [n_host_page * page_rows] cells in host memory */
    struct fake_state *state;          /* owned [limits.n_state] */
    struct fake_state *host_state;     /* owned [n_host_state] */
    uint64_t *behind;                  /* owned [n_row] the state after each row of the step */
    float *logits;                     /* owned [n_out, FAKE_VOCAB] */
    int64_t n_row, n_step, n_state_in; /* n_state_in: states that returned from host memory */
    const struct pages *pages, *states; /* borrowed from the engine, set after it is open */
    const char *wrong;                  /* error in a batch; NULL if none */
};

/* Open the model. The caller calls fake_close also after ERR_MEMORY. */
int fake_open(struct fake *f, struct err *e);
/* Free the model, also after a failure of fake_open. */
void fake_close(struct fake *f);
/* Return an executor without context_max and copy_rate. A step takes 1 ms plus 100 us per row; a
 * token of a page is 1000 bytes. */
struct executor fake_executor(struct fake *f);

extern const int32_t fake_start[2];
/* Return the hash h of a prefix with one more token. At the first position that the row attends to,
 * h begins with 1, or with 2 if the rope has the long list of divisors. */
uint64_t fake_mix(uint64_t h, int32_t token);
int fake_first_visible(const struct fake *f, int pos);
/* Return a hash of the inputs that determine the logits after token [n]. These are the tokens that
 * the last row attends to, and the recurrent state. */
uint64_t fake_meaning(const struct fake *f, const int32_t *token, int n);
void fake_logits(uint64_t h, float *logits);

#endif
