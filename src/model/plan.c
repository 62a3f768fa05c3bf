/* plan.c - all memory of a bound model, allocated before the first step: maximum sequence length,
 * vectors, scratch, rope tables, KV pages.
 *
 *   max_model_len --> page_stride (pages of a sequence) --> scratch --> rope tables --> states
 *                 --> pages
 *
 * Recurrent states and pages are planned last, because they share the remaining memory (kv_room):
 * states receive at most half of it, and pages the rest. */
#include "model_impl.h"

#include "base/check.h"
#include "base/log.h"
#include "base/os.h"

#include <limits.h>

enum { ENCODER_ROWS_MAX = 1 << 16 }; /* limit of a step's rows: --max-num-batched-tokens */

/* ---- sizes ---- */

/* Return the maximum length of a sequence: the requested length, or the model's context length. The
 * model's length is halved if no length is requested, until its KV fits into half of the free
 * memory. */
static int choose_context(const struct model *m, const struct model_options *o, int64_t token_bytes)
{
    const int n_requested = o->context_max;
    int n = n_requested > 0 ? n_requested : m->config.context_train;
    if (n_requested <= 0 && n > m->config.length_max) n = (int)m->config.length_max;
    if (o->context_trained && n > m->config.context_train) n = m->config.context_train;
    uint64_t room = os_memory_free() / 2;
    while (n_requested <= 0 && n > 512 && (uint64_t)n * (uint64_t)token_bytes > room) n /= 2;
    return n;
}

/* Return the number of bytes for pages and recurrent states. The process may use the fraction
 * memory_utilization of the memory of the machine or control group. Pages and states get the rest
 * after packed weights, adapters, activations and swap space. */
static int64_t kv_room(const struct model *m, const struct model_options *o)
{
    double all = (double)os_memory_bytes() * o->memory_utilization;
    double taken =
        (double)m->info.weights.n_byte + (double)m->info.scratch_bytes + (double)o->swap_bytes;
    if (o->additions) taken += (double)o->additions->n_byte;
    return all > taken ? (int64_t)(all - taken) : 0;
}

/* Return the number of pages for n_longest sequences of `stride` pages each. The pages fill at most
 * half of the free memory. The result is at least `stride`. */
static int64_t pages_of_longest(int stride, int n_longest, int64_t page_bytes)
{
    int64_t n = (int64_t)stride * (n_longest > 1 ? n_longest : 1),
            max = (int64_t)(os_memory_free() / 2) / page_bytes;
    if (n > max) n = max;
    return n > stride ? n : stride;
}

/* Return the number of pages. The number of slots must fit into 32 bits. */
static int choose_pages(const struct model *m, const struct model_options *o, int stride,
                        int page_rows)
{
    int64_t bytes = m->info.page_bytes, n = o->n_page, max = INT32_MAX / page_rows;
    const int64_t states = m->info.states_bytes;
    if (n == 0 && bytes == 0) /* if no layer has K and V, pages only limit the number of tokens */
        n = (int64_t)stride * m->limits.n_seq;
    else if (n == 0 && o->kv_bytes)
        n = (o->kv_bytes - states) / bytes;
    else if (n == 0 && o->memory_utilization > 0)
        n = (kv_room(m, o) - states) / bytes;
    else if (n == 0)
        n = pages_of_longest(stride, o->n_longest, bytes);
    return n < 1 ? 1 : n > max ? (int)max : (int)n;
}

/* Set the maximum number of page copies of a step. Copy on write needs one per sequence. The others
 * swap one sequence out and in. */
static void choose_copies(struct batch_limits *l, bool swap)
{
    if (l->n_copy == 0) l->n_copy = l->n_seq + (swap ? 2 * l->page_stride : 0);
}

/* Set the limits so that a step has room for the whole text of an encoder and a row of each
 * sequence that decodes. */
static void choose_rows(struct model *m)
{
    struct batch_limits *l = &m->limits;
    const struct config *c = &m->config;
    if (!m->arch->encoder && !m->arch->crosses) return;
    if (m->info.context_max > ENCODER_ROWS_MAX) m->info.context_max = ENCODER_ROWS_MAX;
    int n = m->info.context_max;
    if (m->arch->crosses) {
        n -= c->n_start; /* the target has at least the first tokens of the decoder */
        if (c->n_position > 0 && n > c->n_position - c->position0) n = c->n_position - c->position0;
        l->n_source = n = n > 1 ? n : 1;
        n += l->n_seq;
    }
    if (l->n_row < n) l->n_row = n;
}

/* ---- recurrent states ---- */

/* Slots that a sequence needs at most (engine/state.c): its current state, and a second one if
 * other sequences find the first. */
enum { SLOTS_OF_SEQ = 2, SNAPSHOTS = 64 };

/* Return the number of slots: slots for all sequences, and as many for prefixes that later requests
 * may continue. Their bytes are at most half of the memory that pages and states share. A sequence
 * can be computed in any case. */
static int choose_states(const struct model *m, const struct model_options *o)
{
    const int64_t bytes = m->info.state_bytes;
    int64_t n = 2 * (int64_t)SLOTS_OF_SEQ * m->limits.n_seq + SNAPSHOTS, room;
    if (o->kv_bytes)
        room = o->kv_bytes;
    else if (o->memory_utilization > 0)
        room = kv_room(m, o);
    else
        room = (int64_t)(os_memory_free() / 2);
    if (n > room / 2 / bytes) n = room / 2 / bytes;
    return n < SLOTS_OF_SEQ ? SLOTS_OF_SEQ : (int)n;
}

/* Reserve the slots, and the slots in the swap space: as many as sequences, in at most half of the
 * space. */
static int plan_states(struct model *m, const struct model_options *o, struct err *e)
{
    struct model_info *i = &m->info;
    if (m->state_floats == 0) return 0;
    i->n_state = m->limits.n_state = choose_states(m, o);
    if ((uint64_t)i->n_state * (uint64_t)i->state_bytes > os_memory_bytes())
        return err_set(e, ERR_LIMIT,
                       "the recurrent states of a sequence take %.1f GiB and there are %.1f (this "
                       "machine's memory, or --memory-limit)",
                       (double)i->n_state * (double)i->state_bytes / 1073741824.0,
                       (double)os_memory_bytes() / 1073741824.0);
    const int64_t n_host = o->swap_bytes / 2 / i->state_bytes;
    i->n_host_state = n_host < m->limits.n_seq ? (int)n_host : m->limits.n_seq;
    i->states_bytes = i->n_state * i->state_bytes;
    const struct state_store_options so = {.backend = m->backend,
                                           .slot_floats = m->state_floats,
                                           .n_slot = i->n_state,
                                           .n_host = i->n_host_state};
    return state_store_open(&m->states, &so, e);
}

/* ---- vectors ---- */

/* Return n rounded up to 16 floats, a cache line. */
static int64_t round16(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* Copy the vectors of bind.c into one block of device memory, each aligned to 64 bytes. Consecutive
 * layers with one order of inputs share one copy of the order, because the backend compares
 * addresses. */
static int plan_vectors(struct model *m, struct err *e)
{
    struct backend *b = m->backend;
    for (size_t i = 0; i < m->vector.n; i++) m->n_vector_float += round16(m->vector.v[i].n);
    const size_t n_byte = (size_t)m->n_vector_float * sizeof(float);
    if (n_byte == 0) return 0;
    float *to = m->vectors = b->op->alloc(b, n_byte);
    if (!to) return err_memory(e, "norms and biases", n_byte);
    const float *order = NULL, *copy = NULL; /* the last order of inputs, and its copy */
    for (size_t i = 0; i < m->vector.n; i++) {
        const struct vector *v = &m->vector.v[i];
        if (v->index && *v->at == order) {
            *v->at = copy;
            continue;
        }
        if (v->index) order = *v->at, copy = to;
        b->op->write(b, to, *v->at, (size_t)v->n * sizeof(float));
        *v->at = to;
        to += round16(v->n);
    }
    return 0;
}

/* ---- scratch ---- */

/* Place all buffers in sequence, each aligned to 64 bytes. base NULL: only compute the size. Return
 * the total number of floats. */
static int64_t lay_out(struct model *m, float *base)
{
    int64_t at = 0;
    for (size_t i = 0; i < m->scratch.n; i++) {
        struct scratch *s = &m->scratch.v[i];
        int64_t n = s->per_row * m->limits.n_row + s->per_out * m->limits.n_out + s->fixed;
        s->at = base ? base + at : NULL;
        at += round16(n);
    }
    return at;
}

/* Allocate the activations. Scratch per row has n_row rows, and scratch per output has n_out rows.
 * `host` is the copy of scratch on the host, for devices with their own memory. */
static int plan_scratch(struct model *m, struct err *e)
{
    struct backend *b = m->backend;
    const struct batch_limits *l = &m->limits;
    m->n_scratch = lay_out(m, NULL);
    const size_t n_byte = (size_t)m->n_scratch * sizeof(float);
    m->memory = b->op->alloc(b, n_byte);
    m->host = b->is_host ? m->memory : os_alloc(n_byte);
    if (!m->memory || !m->host) return err_memory(e, "activations", n_byte);
    lay_out(m, m->memory);
    if (m->config.n_padded > 0) {
        m->token = arena_push(&m->arena, (size_t)l->n_row * sizeof *m->token, 8);
        if (!m->token) return err_memory(e, "tokens", (size_t)l->n_row * sizeof *m->token);
    }
    m->info.scratch_bytes = (int64_t)n_byte;
    /* rows of linear layers in a mixture */
    const int64_t n_entry = (int64_t)l->n_row * m->used_max;
    int n_row = l->n_row > l->n_out ? l->n_row : l->n_out;
    if (n_entry > INT32_MAX)
        return err_set(e, ERR_LIMIT, "%d rows of a step with %d experts each are too many",
                       l->n_row, m->used_max);
    if (n_entry > n_row) n_row = (int)n_entry;
    const struct op_sizes sizes = {.n_row = n_row,
                                   .k = m->k_max,
                                   .d_head = m->d_head_max,
                                   .n_group = m->group_max,
                                   .batch = l};
    return b->op->reserve(b, &sizes, e);
}

/* ---- pages ---- */

/* Open the KV store. Reject a store that exceeds the machine's memory. The system would accept a
 * store that is too large, because pages are not written yet, and would end the process later. */
static int plan_pages(struct model *m, const struct model_options *o, int page_rows, struct err *e)
{
    struct model_info *i = &m->info;
    i->n_page = choose_pages(m, o, m->limits.page_stride, page_rows);
    if ((uint64_t)i->n_page * (uint64_t)i->page_bytes > os_memory_bytes())
        return err_set(e, ERR_LIMIT,
                       "the KV cache would take %.1f GiB and there are %.1f (this machine's "
                       "memory, or --memory-limit): lower %s",
                       (double)i->n_page * (double)i->page_bytes / 1073741824.0,
                       (double)os_memory_bytes() / 1073741824.0,
                       o->n_page     ? "--num-gpu-blocks-override"
                       : o->kv_bytes ? "--kv-cache-memory"
                                     : "--max-model-len");
    struct kv_store_options so = {.backend = m->backend,
                                  .layer = m->kv_geometry,
                                  .n_layer = m->config.n_layer,
                                  .type = o->kv_type,
                                  .page_rows = page_rows,
                                  .n_page = i->n_page};
    int rc = kv_store_open(&m->kv, &so, e);
    const int64_t swap = o->swap_bytes - i->n_host_state * i->state_bytes;
    i->n_host_page = i->page_bytes ? (int)(swap / i->page_bytes) : 0;
    if (rc == 0) rc = kv_store_spill(&m->kv, i->n_host_page, e);
    i->kv_bytes = m->kv.n_byte;
    i->swap_bytes = i->n_host_page * i->page_bytes + i->n_host_state * i->state_bytes;
    i->page_rows = page_rows;
    i->kv_type = o->kv_type;
    return rc;
}

enum { PAGE_ROWS = 32 }; /* default number of rows of a page */

int64_t plan_token_bytes(const struct model *m, enum kv_type t)
{
    return kv_store_bytes_per_page(m->kv_geometry, m->config.n_layer, t, PAGE_ROWS) / PAGE_ROWS;
}

int plan_open(struct model *m, const struct model_options *o, struct err *e)
{
    CHECK(!m->memory && !m->vectors, "%lld floats are planned already", (long long)m->n_scratch);
    const struct config *c = &m->config;
    int page_rows = o->page_rows ? o->page_rows : PAGE_ROWS;
    m->info.page_bytes = kv_store_bytes_per_page(m->kv_geometry, c->n_layer, o->kv_type, page_rows);
    m->info.kv_token_bytes = m->info.page_bytes / page_rows;
    m->info.context_max = choose_context(m, o, m->info.kv_token_bytes);
    if (o->context_max <= 0 && m->info.context_max < c->context_train &&
        m->info.context_max < c->length_max)
        log_warn("the context is %d tokens, not the model's %d, to fit into memory; "
                 "--max-model-len sets it",
                 m->info.context_max, c->context_train);
    const int64_t n_position = (int64_t)(c->n_position - c->position0) * (m->arch->crosses ? 2 : 1);
    if (c->n_position > 0 && m->info.context_max > n_position)
        return err_field(e, ERR_LIMIT, "--max-model-len",
                         ": must be at most the %lld positions of the model, got %d",
                         (long long)n_position, m->info.context_max);
    m->limits = o->batch;
    m->limits.n_segment = c->n_segment;
    m->info.state_bytes = m->state_floats * (int64_t)sizeof(float);
    m->limits.n_state = m->state_floats > 0; /* plan_states sets the number */
    choose_rows(m);
    m->limits.n_short = rope_n_short(m, m->info.context_max);
    m->limits.page_stride = (m->info.context_max + page_rows - 1) / page_rows;
    choose_copies(&m->limits, o->swap_bytes > 0);
    int rc = plan_vectors(m, e);
    if (rc == 0) rc = plan_scratch(m, e);
    if (rc == 0) rc = rope_open(m, m->info.context_max, e);
    if (rc == 0) rc = plan_states(m, o, e);
    if (rc == 0) rc = plan_pages(m, o, page_rows, e);
    return rc;
}

void plan_close(struct model *m)
{
    struct backend *b = m->backend;
    const size_t n_byte = (size_t)m->n_scratch * sizeof(float);
    kv_store_close(&m->kv);
    state_store_close(&m->states);
    rope_close(m);
    if (m->host && m->host != m->memory) os_free(m->host, n_byte);
    if (m->memory) b->op->release(b, m->memory, n_byte);
    if (m->vectors) b->op->release(b, m->vectors, (size_t)m->n_vector_float * sizeof(float));
}
