/* simulate.c - the fake model, its clock, and clients that submit requests at the trace's times. */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* N_VOCAB is small, because logits are zeros.
 * N_AHEAD waiting requests are sufficient for every policy to select from. */
enum { N_VOCAB = 64, N_AHEAD = 64 /* maximum number of waiting jobs with at_once */ };

const struct sim_cost sim_cost_default = {
    .step = 30000, .row = 2000, .kv = 1.7, .pair = 0.85, .page = 100};

/* ---- the fake model ---- */

/* A model without computation. Each step advances the clock by its cost. */
struct fake {
    struct batch_limits limits;
    struct sim_cost cost;
    float *logits; /* zeros, owned [n_out, N_VOCAB]; sampling always selects token 0 */
    int64_t now_us, n_step, n_row;
};

/* Return the time of a step in microseconds. A row at position p of a prompt attends to p tokens. n
 * rows that end at kv_len attend to n * (kv_len - n / 2) tokens in total. */
static double cost_us(struct fake *f, const struct batch *b)
{
    const struct sim_cost *c = &f->cost;
    double us = c->step + c->row * b->n_row + c->page * b->n_copy;
    for (int s = 0; s < b->n_seq; s++) {
        int n = b->row0[s + 1] - b->row0[s];
        us += c->kv * b->kv_len[s];
        if (n > 1) us += c->pair * n * (b->kv_len[s] - n / 2.0);
    }
    return us;
}

/* Return the logits that all rows share. Greedy sampling of zeros selects token 0. */
static struct model_out forward(void *ctx, const struct batch *b)
{
    struct fake *f = ctx;
    f->now_us += (int64_t)cost_us(f, b);
    f->n_step++;
    f->n_row += b->n_row;
    return (struct model_out){.logits = f->logits};
}

static int64_t now_us(void *ctx)
{
    return ((struct fake *)ctx)->now_us;
}

/* ---- clients ---- */

/* A request in flight. */
struct client {
    size_t job;
    struct queue *queue; /* events of the request, owned */
    int64_t last_us;     /* time of the last progress */
};

/* The state of a simulation. One thread alternates between the engine and the clients. Pointers are
 * borrowed, except for `en` and `idle`. */
struct sim_run {
    struct sim_result *r;
    const struct traffic *t;
    const struct sim_options *o;
    struct fake fake;
    struct engine *en;
    VEC(struct client) live;
    VEC(struct queue *) idle; /* unused queues, owned */
    size_t next, n_done;
};

/* Return n / by, rounded up, so that the result is not 0. */
static int divide(int n, int by)
{
    return by > 1 ? (n + by - 1) / by : n;
}

/* Make a prompt of the trace's length. Use one token of every `shrink` tokens. */
static int make_prompt(struct sim_run *u, size_t i, struct ids *out, struct err *e)
{
    struct ids all = {0};
    int rc = traffic_prompt(u->t, i, N_VOCAB, &all, e), by = u->o->shrink > 1 ? u->o->shrink : 1;
    for (size_t k = 0; rc == 0 && k < all.n; k += (size_t)by)
        if (!vec_push(out, all.v[k])) rc = err_memory(e, "a prompt", all.n * sizeof *all.v);
    vec_deinit(&all);
    return rc;
}

/* Open a client. An unused queue is reused, because a trace has thousands of requests. */
static int open_client(struct sim_run *u, struct client *c, struct err *e)
{
    c->queue = u->idle.n ? u->idle.v[--u->idle.n] : engine_reply_queue();
    if (c->queue && vec_push(&u->live, *c)) return 0;
    queue_close(c->queue);
    return err_memory(e, "a client", sizeof *c);
}

/* Submit a job after the step during which the job arrived. The arrival of the request is the time
 * of the clock, not of the trace. */
static int submit(struct sim_run *u, size_t i, struct err *e)
{
    struct request *q = request_open(e);
    if (!q) return ERR_MEMORY;
    struct client c = {.job = i, .last_us = u->fake.now_us};
    int rc = open_client(u, &c, e);
    if (rc == 0) rc = make_prompt(u, i, &q->prompt, e);
    q->max_tokens = divide(u->t->v[i].n_output, u->o->shrink);
    q->params.temperature = 0;
    q->params.ignore_eos = true;
    q->reply = c.queue;
    if (u->o->key) q->holder = (uint64_t)u->o->key[i];
    u->r->n_query += (int64_t)q->prompt.n;
    u->r->trace[i].arrival_us = u->fake.now_us;
    if (rc == 0) rc = engine_submit(u->en, q, e);
    if (rc != 0) request_close(q);
    return rc;
}

/* Return true if the next job is due. With at_once, at most N_AHEAD jobs wait in addition to the
 * running jobs, which limits the engine's queue. */
static bool is_due(const struct sim_run *u)
{
    if (u->next == u->t->n) return false;
    if (u->o->at_once) return u->live.n < (size_t)u->o->n_seq + N_AHEAD;
    return u->t->v[u->next].arrival_us <= u->fake.now_us;
}

/* Read a client's new events. Return true if the answer has ended. */
static bool read_reply(struct sim_run *u, struct client *c)
{
    struct sim_trace *s = &u->r->trace[c->job];
    struct event ev;
    while (queue_pop(c->queue, &ev, 0)) {
        if (ev.kind == EVENT_DONE) {
            s->done_us = u->fake.now_us;
            u->r->n_hit += ev.usage.n_cached;
            if (ev.usage.queue_us > s->wait_us) s->wait_us = ev.usage.queue_us;
            return true;
        }
        /* wait_us is the longest time without progress: in the queue, or between two tokens */
        if (ev.kind != EVENT_TOKEN) continue;
        u->r->n_output++;
        if (s->first_us == 0)
            s->first_us = u->fake.now_us;
        else if (u->fake.now_us - c->last_us > s->wait_us)
            s->wait_us = u->fake.now_us - c->last_us;
        c->last_us = u->fake.now_us;
    }
    return false;
}

/* Replace a finished client by the last client, because the order of clients has no effect. */
static int read_replies(struct sim_run *u, struct err *e)
{
    for (size_t i = 0; i < u->live.n;) {
        struct client *c = &u->live.v[i];
        if (!read_reply(u, c)) {
            i++;
            continue;
        }
        if (!vec_push(&u->idle, c->queue)) return err_memory(e, "clients", sizeof *c);
        *c = u->live.v[--u->live.n];
        u->n_done++;
        if (u->o->progress) progress_bar(u->o->progress, u->n_done, u->t->n);
    }
    return 0;
}

/* Advance the clock to the next arrival, or to the end of a policy's wait. */
static void idle(struct sim_run *u)
{
    int64_t next = u->fake.now_us + 1000;
    if (u->live.n == 0 && u->next < u->t->n && !u->o->at_once) next = u->t->v[u->next].arrival_us;
    if (next > u->fake.now_us) u->fake.now_us = next;
}

/* Submit jobs, compute one step, and read events. engine_step returns false if there is no work;
 * the clock then advances to the next event. */
static int run_all(struct sim_run *u, struct err *e)
{
    int rc = 0;
    while (rc == 0 && u->n_done < u->t->n) {
        while (rc == 0 && is_due(u)) rc = submit(u, u->next++, e);
        if (rc == 0 && !engine_step(u->en)) idle(u);
        if (rc == 0) rc = read_replies(u, e);
    }
    return rc;
}

/* Open the engine with the options of a server. The cost model includes copies of pages. */
static int open_run(struct sim_run *u, struct err *e)
{
    const struct sim_options *o = u->o;
    struct fake *f = &u->fake;
    f->cost = o->cost;
    f->limits = (struct batch_limits){.n_row = o->n_row,
                                      .n_seq = o->n_seq,
                                      .n_out = o->n_seq,
                                      .n_copy = 2 * o->n_page,
                                      .page_stride = o->n_page};
    f->logits = calloc((size_t)o->n_seq * N_VOCAB, sizeof *f->logits);
    u->r->n = u->t->n;
    u->r->trace = calloc(u->t->n + 1, sizeof *u->r->trace);
    if (!f->logits || !u->r->trace) return err_memory(e, "a simulation", u->t->n);
    struct engine_options eo = {
        .executor = {.ctx = f,
                     .n_vocab = N_VOCAB,
                     .n_page = o->n_page,
                     .page_rows = o->page_rows,
                     .context_max = o->n_page * o->page_rows,
                     .n_host_page = o->n_host_page,
                     .page_bytes = 1,
                     .copy_rate = o->cost.page > 0 ? 1 / o->cost.page : 1,
                     .prefill_rate = o->cost.row > 0 ? 1 / o->cost.row : 1,
                     .limits = &f->limits,
                     .forward = forward,
                     .now_us = now_us},
        .scheduler = o->scheduler,
        .itl_multiple = o->itl_multiple,
        .starvation_us = o->starvation_us,
        .slice_tokens = o->slice_tokens,
        .queue_max = (int)u->t->n + 1,
    };
    return engine_open(&u->en, &eo, e);
}

/* The engine is closed before the queues, because the engine writes to the queues. */
int simulate(struct sim_result *r, const struct traffic *t, const struct sim_options *o,
             struct err *e)
{
    *r = (struct sim_result){0};
    struct sim_run u = {.r = r, .t = t, .o = o};
    int rc = open_run(&u, e);
    if (rc == 0) rc = run_all(&u, e);
    engine_close(u.en);
    for (size_t i = 0; i < u.live.n; i++) queue_close(u.live.v[i].queue);
    for (size_t i = 0; i < u.idle.n; i++) queue_close(u.idle.v[i]);
    vec_deinit(&u.live);
    vec_deinit(&u.idle);
    free(u.fake.logits);
    r->n_step = u.fake.n_step;
    r->n_row = u.fake.n_row;
    for (size_t i = 0; rc == 0 && i < r->n; i++)
        if (r->trace[i].done_us > r->us) r->us = r->trace[i].done_us;
    if (rc != 0) sim_result_close(r);
    return rc;
}

void sim_result_close(struct sim_result *r)
{
    free(r->trace);
    *r = (struct sim_result){0};
}

/* The capacity is measured with the policy "first come, first served", without keys. */
int sim_capacity(int64_t *us, const struct traffic *t, const struct sim_options *o, struct err *e)
{
    struct sim_options all = *o;
    struct sim_result r;
    all.at_once = true;
    all.scheduler = "fcfs";
    all.key = NULL;
    int rc = simulate(&r, t, &all, e);
    *us = r.us;
    sim_result_close(&r);
    return rc;
}

/* Return the time of one static batch: n_seq prompts of n_prompt tokens, then n_output - 1 steps
 * with all sequences. */
static double rectangle_us(const struct sim_cost *c, int n_seq, int n_row, int n_prompt,
                           int n_output)
{
    double rows = (double)n_seq * n_prompt, steps = ceil(rows / n_row) + n_output - 1,
           context = n_prompt + n_output / 2.0;
    return steps * c->step + (rows + (double)n_seq * (n_output - 1)) * c->row +
           rows * n_prompt / 2 * c->pair + (double)n_seq * (n_output - 1) * context * c->kv;
}

/* Batches are formed in the order of arrival. The longest prompt and the longest answer of its jobs
 * determine the size of a batch. */
int64_t sim_padded_us(const struct traffic *t, const struct sim_options *o)
{
    double us = 0;
    for (size_t i = 0; i < t->n; i += (size_t)o->n_seq) {
        int n = 0, prompt = 0, output = 0;
        for (; n < o->n_seq && i + (size_t)n < t->n; n++) {
            const struct traffic_job *j = &t->v[i + (size_t)n];
            if (j->n_prompt > prompt) prompt = j->n_prompt;
            if (j->n_output > output) output = j->n_output;
        }
        us += rectangle_us(&o->cost, n, o->n_row, prompt, output);
    }
    return (int64_t)us;
}

/* ---- fairness ---- */

/* Every fourth request is from the key that does not flood. Loads are relative to the engine's
 * capacity. */
enum { EVERY = 4, KEY_FLOODS = 1, KEY_OTHER = 2 };
static const double other_load = 0.4, flood_load = 3;

/* Return true for jobs of the key that does not flood. */
static bool is_other(size_t i)
{
    return i % EVERY == EVERY - 1;
}

/* Select the jobs of one key, with arrivals at `load` of the engine's capacity. Both keys begin at
 * time 0, so that their jobs overlap. */
static int part_of(struct traffic *out, const struct traffic *t, bool other, double load,
                   const struct sim_options *o, struct err *e)
{
    int64_t us = 0;
    *out = (struct traffic){.seed = t->seed + (uint64_t)other};
    for (size_t i = 0; i < t->n; i++)
        if (is_other(i) == other && !vec_push(out, t->v[i])) return err_memory(e, "a trace", t->n);
    if (out->n == 0)
        return err_set(e, ERR_ARG, "the trace: must have requests of both keys, got %zu", t->n);
    int rc = sim_capacity(&us, out, o, e);
    int64_t first = out->v[0].arrival_us, last = out->v[out->n - 1].arrival_us - first;
    for (size_t i = 0; i < out->n; i++) out->v[i].arrival_us -= first;
    if (rc == 0 && last > 0) traffic_faster(out, (double)last * load / (double)us);
    return rc;
}

/* Merge a key's jobs by arrival. `key` has one item per job and grows with `all`. */
static int append(struct traffic *all, int **key, const struct traffic *part, int k, struct err *e)
{
    int *more = realloc(*key, (all->n + part->n + 1) * sizeof **key);
    if (!more) return err_memory(e, "keys", part->n * sizeof **key);
    *key = more;
    for (size_t i = 0; i < part->n; i++) {
        size_t at = all->n;
        if (!vec_push(all, part->v[i])) return err_memory(e, "a trace", part->n);
        for (; at > 0 && all->v[at - 1].arrival_us > part->v[i].arrival_us; at--) {
            all->v[at] = all->v[at - 1];
            more[at] = more[at - 1];
        }
        all->v[at] = part->v[i];
        more[at] = k;
    }
    return 0;
}

/* Compute the mean latencies of a key's jobs, or of all jobs if key is NULL. */
static void means(double *first_s, double *done_s, const struct sim_result *r, const int *key)
{
    double first = 0, done = 0, n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (key && key[i] != KEY_OTHER) continue;
        first += (double)(r->trace[i].first_us - r->trace[i].arrival_us);
        done += (double)(r->trace[i].done_us - r->trace[i].arrival_us);
        n++;
    }
    *first_s = first * 1e-6 / n;
    *done_s = done * 1e-6 / n;
}

/* Measure the key alone on half of the machine, because half of the machine is its share under a
 * fair policy. */
static int half_machine(double *first_s, double *done_s, const struct traffic *t,
                        struct sim_options o, struct err *e)
{
    struct sim_result r;
    o.cost.step *= 2, o.cost.row *= 2, o.cost.kv *= 2, o.cost.pair *= 2, o.cost.page *= 2;
    o.n_seq = (o.n_seq + 1) / 2, o.n_row = (o.n_row + 1) / 2, o.n_page = (o.n_page + 1) / 2;
    o.scheduler = "fcfs";
    int rc = simulate(&r, t, &o, e);
    if (rc == 0) means(first_s, done_s, &r, NULL);
    sim_result_close(&r);
    return rc;
}

/* Compare two simulations: the key alone on half of the machine, and both keys on the whole
 * machine. */
int sim_flood(struct sim_fairness *f, const struct traffic *t, const struct sim_options *o,
              struct err *e)
{
    struct traffic other = {0}, floods = {0}, both = {.seed = t->seed};
    struct sim_options with = *o;
    struct sim_result r = {0};
    int *key = NULL;
    int rc = part_of(&other, t, true, other_load, o, e);
    if (rc == 0) rc = part_of(&floods, t, false, flood_load, o, e);
    if (rc == 0) rc = append(&both, &key, &floods, KEY_FLOODS, e);
    if (rc == 0) rc = append(&both, &key, &other, KEY_OTHER, e);
    if (rc == 0) rc = half_machine(&f->fair_first_s, &f->fair_done_s, &other, *o, e);
    with.key = key;
    if (rc == 0) rc = simulate(&r, &both, &with, e);
    if (rc == 0) means(&f->first_s, &f->done_s, &r, key);
    sim_result_close(&r);
    traffic_close(&other), traffic_close(&floods), traffic_close(&both);
    free(key);
    return rc;
}
