/* traffic_steps.c - measure the time that the engine needs in addition to its kernels. The engine's
 * steps are logged. Then the model alone computes the logged batches.
 *
 * The contents of the pages have no effect, because only the time is measured. The log is one block
 * of memory, filled from its beginning. Steps are not logged if the log is full. */
#include "traffic.h"

#include "base/cpu.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

struct step_log {
    struct model *m; /* model, borrowed */
    int32_t *word;   /* logged batches, owned [word_max] */
    size_t n_word, word_max;
    int n_step;
    int64_t first_us, last_us; /* start times of the first and the last logged step */
    bool full;
};

int step_log_open(struct step_log **out, struct model *m, size_t bytes_max, struct err *e)
{
    struct step_log *l = *out = calloc(1, sizeof *l);
    if (!l) return err_memory(e, "a log of steps", sizeof *l);
    l->m = m;
    l->word_max = bytes_max / sizeof *l->word;
    l->word = os_alloc(bytes_max);
    return l->word ? 0 : err_memory(e, "a log of steps", bytes_max);
}

void step_log_close(struct step_log *l)
{
    if (!l) return;
    os_free(l->word, l->word_max * sizeof *l->word);
    free(l);
}

void step_log_clear(struct step_log *l)
{
    l->n_word = 0;
    l->n_step = 0;
    l->full = false;
}

/* ---- one batch: counts, then its arrays, with the used part of the page tables ---- */

/* Return the number of pages that a sequence uses. The unused part of its page table is not
 * logged. */
static int n_page_of(const struct step_log *l, const struct batch *b, int seq)
{
    int rows = model_info(l->m)->page_rows;
    return (b->kv_len[seq] + rows - 1) / rows;
}

/* Return the number of words of a logged batch. The sum must agree with move_batch. */
static size_t words_of(const struct step_log *l, const struct batch *b)
{
    size_t n = 4 + 3 * (size_t)b->n_row + 2 * (size_t)b->n_seq + 1 + 2 * (size_t)b->n_out +
               3 * (size_t)b->n_copy;
    if (b->limits.n_short > 0) n += (size_t)b->n_row;
    if (b->limits.n_source > 0) n += (size_t)b->n_row + (size_t)b->n_seq;
    for (int i = 0; i < b->n_seq; i++) n += (size_t)n_page_of(l, b, i);
    return n;
}

/* A cursor that copies between the log and a batch's arrays. Writing and reading the log use the
 * same code. */
struct log_cursor {
    int32_t *at; /* borrowed */
    bool write;
};

static void move(struct log_cursor *c, void *array, size_t n)
{
    if (n == 0) return;
    if (c->write)
        memcpy(c->at, array, n * sizeof *c->at);
    else
        memcpy(array, c->at, n * sizeof *c->at);
    c->at += n;
}

/* Copy a batch. The four counts are first in the log, because a reader needs the counts for the
 * sizes of the arrays. */
static void move_batch(const struct step_log *l, struct log_cursor *c, struct batch *b)
{
    move(c, &b->n_row, 1);
    move(c, &b->n_seq, 1);
    move(c, &b->n_out, 1);
    move(c, &b->n_copy, 1);
    move(c, b->token, (size_t)b->n_row);
    move(c, b->pos, (size_t)b->n_row);
    move(c, b->slot, (size_t)b->n_row);
    move(c, b->row0, (size_t)b->n_seq + 1);
    move(c, b->kv_len, (size_t)b->n_seq);
    move(c, b->out_row, (size_t)b->n_out);
    move(c, b->out_kind, (size_t)b->n_out);
    move(c, b->copy, 3 * (size_t)b->n_copy);
    if (b->limits.n_short > 0) move(c, b->angle, (size_t)b->n_row);
    if (b->limits.n_source > 0) move(c, b->place, (size_t)b->n_row);
    if (b->limits.n_source > 0) move(c, b->source, (size_t)b->n_seq);
    for (int i = 0; i < b->n_seq; i++)
        move(c, b->page + (int64_t)i * b->page_stride, (size_t)n_page_of(l, b, i));
}

/* ---- the executor ---- */

/* Log a batch and the time of its beginning. A step ends at the beginning of the next step, so its
 * time includes the engine's own work. */
static void write_down(struct step_log *l, const struct batch *b)
{
    size_t n = words_of(l, b);
    l->full |= n > l->word_max - l->n_word;
    if (l->full) return;
    l->last_us = time_us();
    if (l->n_step++ == 0) l->first_us = l->last_us;
    struct log_cursor c = {l->word + l->n_word, true};
    /* move_batch only reads the batch when it writes the log */
    move_batch(l, &c, (struct batch *)b);
    l->n_word += n;
}

static struct model_out forward(void *ctx, const struct batch *b)
{
    struct step_log *l = ctx;
    write_down(l, b);
    return model_forward(l->m, b);
}

/* Return the model's executor, which then logs each batch before its step. */
struct executor step_log_executor(struct step_log *l)
{
    struct executor x = executor_of_model(l->m);
    x.ctx = l;
    x.forward = forward;
    x.head = NULL; /* a log contains no pooled request */
    return x;
}

/* ---- repetition ---- */

/* The floating-point mode of the engine is set, so that the kernels give the same results as in the
 * engine. */
bool step_log_times(struct step_log *l, int64_t *engine_us, int64_t *kernel_us, int *n_step,
                    struct err *e)
{
    struct batch b;
    const struct batch_limits *limits = model_batch_limits(l->m);
    /* a state per sequence of a step */
    if (limits->n_state > 0 && limits->n_state < limits->n_seq) return false;
    if (l->n_step < 2 || batch_open(&b, limits, e) != 0) return false;
    *n_step = l->n_step - 1; /* the last step is omitted, because its end is unknown */
    *engine_us = l->last_us - l->first_us;
    unsigned former = cpu_float_canonical();
    struct log_cursor c = {l->word, false};
    int64_t begin = time_us();
    for (int i = 0; i < *n_step; i++) {
        batch_clear(&b);
        move_batch(l, &c, &b);
        for (int s = 0; s < b.n_seq; s++) {
            batch_rope(&b, s, batch_is_long(&b.limits, b.kv_len[s]));
            batch_state(&b, s, s);
        }
        model_forward(l->m, &b);
    }
    *kernel_us = time_us() - begin;
    cpu_float_restore(former);
    batch_close(&b);
    return true;
}
