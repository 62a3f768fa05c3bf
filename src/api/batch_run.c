/* batch_run.c - the thread that answers the lines of batches (batches.h).
 *
 *   record --activate--> active --submit_next--> flight --answer--> chunk of the record
 *
 * The states of an active batch, with the function on each edge:
 *
 *   activate --> READS --read_line: no further line--> ANSWERS --finish: all answered--> completed
 *                  |                                      |
 *                  '---------- end_early -----------------'--> ENDS --finish: none in flight--> end
 *                  '---------- the record is missing -----'--> GONE --none in flight--> freed
 *
 * (1) Only the thread changes actives and flights. `lock` protects `pending` and `news`.
 * (2) The state of a batch is its record. Answered lines remain after a kill of the server; the
 *     next server answers the remaining lines. A line's seed is made from its custom_id, so its
 *     answer does not change.
 * (3) One batch of each owner is active, at most ACTIVE_MAX, so a large batch of one key does not
 *     delay batches of other keys. Lines of active batches take turns.
 * (4) Requests of batches have separate holders with the lowest weight and priority. The policy
 *     therefore admits other requests first, and other requests preempt requests of batches. No
 *     line is submitted while other requests wait.
 * (5) n_flight is the length of in_flight, and the sum of n_flight of the actives, at most
 *     FLIGHT_MAX. Each flight in this list has a call, and its active is in the list of actives.
 * (6) A waiting line is in the list of its own active. Its number is at most that of the last line
 *     that was read.
 * (7) A failure for lack of memory is temporary: the same step is tried again in a later round, at
 *     most TRIES_MAX times. Then it is the failure of the line or of the batch.
 * (8) The begin and the end of a batch are not lost if the store fails: the state of the batch is
 *     read or stored again after STORE_RETRY_US, until this succeeds or the record is missing. */
#include "batches.h"

#include "files.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FLIGHT_MAX: lines in flight, twice the default number of sequences. WAIT_US: time between two
 * checks of the ends of batches and of the engine's queue. TRIES_MAX: maximum attempts of a step
 * that fails because memory is exhausted. STORE_RETRY_US: time after a failure of the store, which
 * is logged, so that a permanent failure does not fill the log. */
enum {
    FLIGHT_MAX = 128,
    ACTIVE_MAX = 8,
    WAIT_US = 100000,
    TRIES_MAX = 20,
    STORE_RETRY_US = 5 * 1000 * 1000
};
/* weight of a batch's holder, the lowest weight of a key */
static const double batch_weight = 0.001;

/* A line without an answer. */
struct flight {
    struct active *active; /* borrowed */
    struct batch_line l;   /* owned */
    bool has_model;        /* true: the flight has a reference to its model */
    struct api api;        /* the model's api with seeds from custom_ids, valid if it has one */
    struct served_waiter wait;
    struct api_call *call; /* owned; NULL: the line waits */
    int64_t number;
    int n_try;
    struct flight *next;
};

/* READS: lines remain to be read. ANSWERS: all lines were read. ENDS: no further line begins, and
 * the batch then has the status `end`. GONE: as ENDS, but the record was deleted. */
enum active_state { ACTIVE_READS, ACTIVE_ANSWERS, ACTIVE_ENDS, ACTIVE_GONE };

struct active {
    struct batch_state b;
    struct batch_cursor lines; /* its texts are borrowed from b */
    struct flight *waiting;    /* lines to submit next, owned list */
    int n_flight;              /* lines in flight */
    int n_try;                 /* failures for lack of memory since the last success */
    enum active_state state;
    enum batch_status end; /* status after ENDS */
    bool bare;             /* true: the final state has no files, because the store failed */
    int64_t end_us;        /* time (time_us) from which the final state may be stored again */
    struct active *next;
};

/* A batch that is not active yet. */
struct pending_batch {
    uint64_t owner;
    char id[STORE_ID_BYTES];
    int n_try; /* failures for lack of memory */
};

/* Messages to the thread, as bits. CHANGED: a batch was added, cancelled, deleted or finished.
 * RESCAN: the thread must read `pending` from the store. STOP: the thread must end. */
enum { NEWS_CHANGED = 1, NEWS_RESCAN = 2, NEWS_STOP = 4 };

struct batch_runner {
    const struct server *server; /* borrowed */
    struct store *store;         /* borrowed */
    struct queue *bell;          /* queue of one byte, owned: the thread has work */
    pthread_mutex_t lock;
    pthread_t thread;
    VEC(struct pending_batch) pending; /* unfinished batches, oldest first; owned */
    unsigned news;                     /* bits NEWS_ */
    bool started;
    int64_t retry_us;         /* time (time_us) of the next look after a failure; 0: none */
    struct active *actives;   /* owned list */
    struct flight *in_flight; /* owned list */
    int n_flight;
};

/* Give news to the thread, without waking it. */
static void add_news(struct batch_runner *r, unsigned bits)
{
    pthread_mutex_lock(&r->lock);
    r->news |= bits;
    pthread_mutex_unlock(&r->lock);
}

/* Return true if there are news of this kind, and remove them. */
static bool take_news(struct batch_runner *r, unsigned bit)
{
    pthread_mutex_lock(&r->lock);
    const bool any = r->news & bit;
    r->news &= ~bit;
    pthread_mutex_unlock(&r->lock);
    return any;
}

/* ---- flights ---- */

/* Close the call of a flight, and drop its model. */
static void call_off(struct flight *f)
{
    api_call_close(f->call);
    f->call = NULL;
    served_leave(&f->wait);
    if (f->has_model) served_drop(&f->api);
    f->has_model = false;
}

static void flight_close(struct flight *f)
{
    call_off(f);
    batch_line_close(&f->l);
    free(f);
}

/* End a batch early, in the thread's next round. why: cause of a failure; NULL for other ends. */
static void end_early(struct active *a, enum batch_status end, const char *code,
                      const struct err *why)
{
    if (a->state >= ACTIVE_ENDS) return;
    a->state = ACTIVE_ENDS;
    a->end = end;
    if (why) batch_add_error(&a->b, code, why, 0);
    if (why) log_warn("%s failed: %s", a->b.id, why->text);
}

/* Handle a failure of the store for an active. */
static void store_failed(struct active *a, int rc, const struct err *why)
{
    if (rc == ERR_MISSING) {
        struct err e = *why;
        (void)err_set(&e, rc, "the input file was deleted");
        end_early(a, BATCH_failed, "input_file_not_found", &e);
    } else {
        end_early(a, BATCH_failed,
                  rc == ERR_LIMIT    ? "store_full"
                  : rc == ERR_MEMORY ? "out_of_memory"
                                     : "store_failed",
                  why);
    }
}

/* Look at the batches again after a failure. A failure for lack of memory is temporary. */
static void look_later(struct batch_runner *r, int rc)
{
    const int64_t at = time_us() + (rc == ERR_MEMORY ? WAIT_US : STORE_RETRY_US);
    if (!r->retry_us || at < r->retry_us) r->retry_us = at;
}

/* Count a failed step. Return true if the step must be tried again in a later round. */
static bool try_later(int rc, int *n_try)
{
    return rc == ERR_MEMORY && ++*n_try < TRIES_MAX;
}

/* Store the answer of a line: the answer of its call, or the error rc. Return false if the failure
 * is temporary, so that the line is answered later. */
static bool answer(struct batch_runner *r, struct flight *f, int rc, const struct err *why)
{
    struct active *a = f->active;
    struct buf line = {0};
    struct err e = {0};
    enum batch_part part = BATCH_ERROR;
    const struct batch_result result = {
        .line = &f->l, .number = f->number, .call = f->call, .rc = rc, .why = why};
    const int failed = batch_put_answer(&line, &a->b, &result, &part, &e);
    bool again = failed == ERR_BUSY || try_later(failed, &f->n_try);
    if (!again && !line.failed && line.n) {
        rc = store_add_chunk(r->store, a->b.owner, a->b.id, part, f->number, &line, &e);
        if (rc == ERR_MISSING)
            a->state = ACTIVE_GONE;
        else if (try_later(rc, &f->n_try))
            again = true;
        else if (rc != 0 && rc != ERR_ARG) /* ERR_ARG: the line has an answer */
            store_failed(a, rc, &e);
    } else if (!again) {
        end_early(a, BATCH_failed, "out_of_memory", &e);
    }
    buf_deinit(&line);
    return !again;
}

/* Read the next line that has no answer into a->waiting. Return false after the last line, or if
 * the line must be read later. */
static bool read_line(struct batch_runner *r, struct active *a)
{
    struct err e = {0};
    struct flight *f = calloc(1, sizeof *f);
    int rc = f ? 1 : err_memory(&e, "a line", sizeof *f);
    while (rc == 1 && (rc = batch_cursor_next(&a->lines, &e)) == 1)
        if (!store_has_chunk(r->store, a->b.owner, a->b.id, a->lines.number)) break;
    if (rc == 0) a->state = ACTIVE_ANSWERS;
    if (rc == 1) {
        rc = batch_line_read(&f->l, a->lines.line, a->lines.n_line, &e);
        if (rc == ERR_MEMORY) batch_cursor_repeat(&a->lines);
        if (rc == 0) {
            f->active = a;
            f->number = a->lines.number;
            a->waiting = f;
            a->n_try = 0;
            return true;
        }
    }
    if (f) flight_close(f);
    if (rc < 0 && !try_later(rc, &a->n_try)) store_failed(a, rc, &e);
    return false;
}

/* Ring the bell of the thread (served_waiter). */
static void ring(void *runner)
{
    queue_push(((struct batch_runner *)runner)->bell, "");
}

/* Acquire the model of a line. ERR_BUSY while the model is not loaded. Answers do not depend on
 * stored responses, as in quoth batch. */
static int take_model(struct batch_runner *r, struct flight *f, struct err *e)
{
    const struct json *named = body_field(f->l.body, "model");
    const char *name = json_text(named, NULL);
    const struct api *api = NULL;
    struct served *model;
    int rc = 0;
    if (f->has_model) return 0;
    if (f->wait.model) {
        rc = served_taken(&f->wait, &api, e);
        if (rc != 0 || api) served_leave(&f->wait);
    } else {
        if (named && !name) return body_wrong("model", "a string without NUL", named, e);
        f->wait = (struct served_waiter){.wake = ring, .arg = r, .patient = true};
        rc = server_model(r->server, name, &model, e);
        if (rc == 0) rc = served_take(model, &f->wait, &api, e);
    }
    if (rc == ERR_UNAVAILABLE) return ERR_BUSY; /* the models sleep, or the server stops */
    if (rc != 0) return rc;
    if (!api) return ERR_BUSY;
    f->api = *api;
    f->api.seeded = true;
    f->api.seed = 0;
    f->api.store = NULL;
    f->api.streams = false;
    f->api.patient = true;
    f->has_model = true;
    return 0;
}

/* Make the call of a line whose model is acquired. */
static int open_call(struct batch_runner *r, struct flight *f, const struct dialect *d,
                     struct err *e)
{
    const uint64_t owner = f->active->b.owner, own = hash_bytes(&owner, sizeof owner, 3) | 1,
                   salt = r->server->o.separate_caches ? hash_bytes(&owner, sizeof owner, 4) : 0;
    const struct call_origin from = {.holder = own};
    char name[STORE_ID_BYTES + 24];
    const int64_t begin_us = time_us();
    int rc = call_open(&f->call, &f->api, d, f->l.body, from, r->bell, e);
    if (rc == ERR_BUSY) return rc; /* the line is opened again later */
    snprintf(name, sizeof name, "%s:%lld", f->active->b.id, (long long)f->number);
    struct span *span = span_begin(r->server->o.telemetry, NULL, NULL, begin_us);
    span_put_text(span, "url.path", f->l.url);
    span_put_text(span, "quoth.request_id", name);
    if (rc != 0) {
        span_end_status(span, api_status(rc));
        return rc;
    }
    call_take_span(f->call, span);
    api_call_name(f->call, name);
    api_call_set_holder(f->call, own, batch_weight, salt);
    api_call_set_priority(f->call, INT_MAX);
    api_call_salt(f->call, batch_key_id(f->l.custom_id, f->l.n_custom_id).hash[0]);
    return 0;
}

/* Return true if requests other than those of batches wait in an engine. */
static bool others_wait(const struct batch_runner *r, const struct engine *engine)
{
    struct stats_view v;
    int n_own = 0;
    stats_read(engine_stats(engine), &v);
    for (const struct flight *f = r->in_flight; f; f = f->next)
        n_own += f->api.session->engine == engine && !api_call_has_output(f->call);
    return v.value[STAT_waiting] > n_own;
}

/* Make and submit the call of a line. ERR_BUSY if the line must wait. */
static int submit(struct batch_runner *r, struct flight *f, struct err *e)
{
    const struct dialect *d = dialect_of(f->l.url, f->l.body);
    int rc = d ? 0 : err_field(e, ERR_MISSING, "url", ": \"%.80s\" not found", f->l.url);
    if (rc == 0 && json_kind(f->l.body) != JK_OBJECT)
        rc = body_wrong("body", "an object", f->l.body, e);
    if (rc == 0) rc = take_model(r, f, e);
    if (rc == 0 && others_wait(r, f->api.session->engine)) rc = ERR_BUSY;
    if (rc == 0 && !f->call) rc = open_call(r, f, d, e);
    return rc ? rc : api_call_submit(f->call, e);
}

/* Submit the next line of a batch. Return false if there is no line, or the line must wait. */
static bool submit_next(struct batch_runner *r, struct active *a)
{
    struct err e = {0};
    if (!a->waiting && !read_line(r, a)) return false;
    struct flight *f = a->waiting;
    int rc = submit(r, f, &e);
    if (rc == ERR_BUSY) return false;
    if (rc != 0) {
        call_off(f);
        if (!answer(r, f, rc, &e)) return false;
        a->waiting = f->next;
        flight_close(f);
        return true;
    }
    a->waiting = f->next;
    a->n_flight++;
    f->next = r->in_flight;
    r->in_flight = f;
    r->n_flight++;
    return true;
}

/* Submit lines of all active batches in turn, until each batch must wait. */
static void submit_lines(struct batch_runner *r)
{
    for (bool any = true; any;) {
        any = false;
        for (struct active *a = r->actives; a; a = a->next)
            if ((a->state == ACTIVE_READS || (a->state == ACTIVE_ANSWERS && a->waiting)) &&
                r->n_flight < FLIGHT_MAX)
                any |= submit_next(r, a);
    }
}

/* Store the answers of complete calls. A line whose failure is temporary is submitted again. Return
 * true if a call was complete. */
static bool take_answers(struct batch_runner *r)
{
    bool any = false;
    for (struct flight **at = &r->in_flight; *at;) {
        struct flight *f = *at;
        struct active *a = f->active;
        if (!api_call_poll(f->call)) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        r->n_flight--;
        a->n_flight--;
        any = true;
        if (a->state >= ACTIVE_ENDS || answer(r, f, 0, NULL)) {
            flight_close(f);
            continue;
        }
        call_off(f);
        f->next = a->waiting;
        a->waiting = f;
    }
    return any;
}

/* ---- ends ---- */

/* Store lines for the requests of a batch that were not answered. */
static int fill(struct batch_runner *r, struct active *a, enum batch_part what, struct err *e)
{
    struct batch_cursor c = {.store = r->store, .owner = a->b.owner, .id = a->b.input};
    const enum batch_part part = batch_is_anthropic(&a->b) ? what : BATCH_ERROR;
    int rc;
    while ((rc = batch_cursor_next(&c, e)) == 1) {
        struct batch_line l = {0};
        struct buf line = {0};
        if (store_has_chunk(r->store, a->b.owner, a->b.id, c.number)) continue;
        rc = batch_line_read(&l, c.line, c.n_line, e);
        if (rc == 0) batch_put_unanswered(&line, &a->b, &l, c.number, what);
        if (rc == 0 && line.failed) rc = err_memory(e, "an answer", line.n);
        if (rc == 0) rc = store_add_chunk(r->store, a->b.owner, a->b.id, part, c.number, &line, e);
        if (rc == ERR_ARG) rc = 0; /* the line has an answer */
        buf_deinit(&line);
        batch_line_close(&l);
        if (rc != 0) break;
    }
    batch_cursor_deinit(&c);
    return rc;
}

/* Make a file of the answers of a part. id: set to the file's id; "" if there is no answer. */
static int make_file(struct batch_runner *r, const struct batch_state *b, enum batch_part part,
                     char *id, int64_t now, struct err *e)
{
    char filename[STORE_ID_BYTES + 20];
    int64_t n_byte;
    int64_t n = 0;
    int rc = store_count_chunks(r->store, b->owner, b->id, part, &n, &n_byte, e);
    if (rc != 0 || n == 0) return rc;
    stored_id(id, FILE_PREFIX);
    snprintf(filename, sizeof filename, "%s_%s.jsonl", b->id,
             part == BATCH_OK ? "output" : "error");
    rc = file_store(r->store, b->owner,
                    &(struct file_object){.id = id,
                                          .filename = filename,
                                          .purpose = "batch_output",
                                          .n_byte = n_byte,
                                          .created = now,
                                          .ends = b->output_seconds ? now + b->output_seconds : 0},
                    e);
    return rc ? rc : store_move_chunks(r->store, b->owner, b->id, part, id, e);
}

/* Set the final state in one change: status, times, counts, and files of OpenAI's batches. */
static int set_final(struct batch_runner *r, struct active *a, bool files, struct err *e)
{
    struct batch_state b;
    const int64_t now = time_wall_us() / 1000000;
    store_begin(r->store);
    int rc = batch_load(&b, r->store, a->b.owner, a->b.id, e);
    if (rc == 0 && files && !batch_is_anthropic(&b)) {
        rc = make_file(r, &b, BATCH_OK, b.output, now, e);
        if (rc == 0) rc = make_file(r, &b, BATCH_ERROR, b.error, now, e);
    }
    b.status = a->end;
    if (!b.n_line) b.n_line = a->b.n_line;
    if (a->end == BATCH_completed) b.finalizing_at = b.completed_at = now;
    if (a->end == BATCH_failed) b.failed_at = now;
    if (a->end == BATCH_expired) b.expired_at = now;
    if (a->end == BATCH_cancelled) b.cancelled_at = now;
    buf_deinit(&b.errors);
    buf_add(&b.errors, a->b.errors.data, a->b.errors.n);
    if (rc == 0 && b.errors.failed) rc = err_memory(e, "errors", a->b.errors.n);
    if (rc == 0) rc = batch_store(&b, r->store, false, e);
    rc = store_end(r->store, rc, e);
    batch_deinit(&b);
    return rc;
}

/* Store the final state with the files of answers, after the lines of unanswered requests. */
static int set_full(struct batch_runner *r, struct active *a, struct err *e)
{
    int rc = 0;
    if (a->state == ACTIVE_ANSWERS) a->end = BATCH_completed;
    if (a->end == BATCH_expired) rc = fill(r, a, BATCH_EXPIRED, e);
    if (a->end == BATCH_cancelled && batch_is_anthropic(&a->b)) rc = fill(r, a, BATCH_CANCELLED, e);
    return rc ? rc : set_final(r, a, true, e);
}

/* End a batch without lines in flight. The state is `failed` if the store has no space for the
 * files. Return false if this must be tried again later. */
static bool finish(struct batch_runner *r, struct active *a)
{
    struct err e = {0};
    int rc = 0;
    if (time_us() < a->end_us) return false;
    if (!a->bare) {
        rc = set_full(r, a, &e);
        if (try_later(rc, &a->n_try)) return false;
        a->bare = rc != 0 && rc != ERR_MISSING;
        if (a->bare) {
            a->state = ACTIVE_ANSWERS;
            store_failed(a, rc, &e);
        }
    }
    if (a->bare) rc = set_final(r, a, false, &e);
    if (rc == 0 || rc == ERR_MISSING) return true;
    log_warn("%s: %s", a->b.id, e.text);
    a->end_us = time_us() + STORE_RETRY_US;
    return false;
}

static void active_close(struct active *a)
{
    while (a->waiting) {
        struct flight *f = a->waiting;
        a->waiting = f->next;
        flight_close(f);
    }
    batch_cursor_deinit(&a->lines);
    batch_deinit(&a->b);
    free(a);
}

/* Cancel the calls of batches that end early. Finish batches without lines in flight. Return true
 * if a batch was finished. */
static bool end_batches(struct batch_runner *r)
{
    bool any = false;
    const int64_t now = time_wall_us() / 1000000;
    for (struct active **at = &r->actives; *at;) {
        struct active *a = *at;
        if (a->b.expires_at <= now) end_early(a, BATCH_expired, NULL, NULL);
        for (struct flight *f = r->in_flight; a->state >= ACTIVE_ENDS && f; f = f->next)
            if (f->active == a) api_call_cancel(f->call);
        const bool waits = a->state == ACTIVE_READS || (a->state == ACTIVE_ANSWERS && a->waiting);
        if (a->n_flight || waits || (a->state != ACTIVE_GONE && !finish(r, a))) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        active_close(a);
        any = true;
    }
    return any;
}

/* ---- beginnings ---- */

/* Check the lines of a new batch, and set its state. ERR_MEMORY if this must be tried again later:
 * after the last attempt, the batch fails. */
static int begin(struct batch_runner *r, struct active *a, int *n_try)
{
    struct batch_state checked = {.owner = a->b.owner};
    struct err e = {0};
    int rc;
    snprintf(checked.endpoint, sizeof checked.endpoint, "%s", a->b.endpoint);
    snprintf(checked.input, sizeof checked.input, "%s", a->b.input);
    const bool valid = batch_validate(&checked, r->store, &rc, &e);
    a->b.n_line = checked.n_line;
    if (rc == 0 && !valid) {
        end_early(a, BATCH_failed, NULL, NULL);
        buf_add(&a->b.errors, checked.errors.data, checked.errors.n);
    } else if (rc == 0) {
        struct batch_state b;
        store_begin(r->store);
        rc = batch_load(&b, r->store, a->b.owner, a->b.id, &e);
        if (rc == 0) {
            b.n_line = checked.n_line;
            b.in_progress_at = time_wall_us() / 1000000;
            if (b.status == BATCH_validating) b.status = BATCH_in_progress;
            rc = batch_store(&b, r->store, false, &e);
        }
        rc = store_end(r->store, rc, &e);
        batch_deinit(&b);
        if (rc == ERR_MISSING) {
            a->state = ACTIVE_GONE;
            rc = 0;
        }
    }
    batch_deinit(&checked);
    if (try_later(rc, n_try)) return ERR_MEMORY;
    if (rc != 0) store_failed(a, rc, &e);
    return 0;
}

/* Return the active batch of an owner; NULL if none. *n: number of actives. */
static struct active *active_of(const struct batch_runner *r, uint64_t owner, int *n)
{
    struct active *found = NULL;
    *n = 0;
    for (struct active *a = r->actives; a; a = a->next, ++*n)
        if (a->b.owner == owner) found = a;
    return found;
}

/* Begin or continue a batch. Return an error if this must be tried again later. */
static int activate(struct batch_runner *r, struct pending_batch *p)
{
    struct active *a = calloc(1, sizeof *a);
    struct err e = {0};
    if (!a) return ERR_MEMORY;
    int rc = batch_load(&a->b, r->store, p->owner, p->id, &e);
    if (rc != 0 && rc != ERR_MISSING) log_warn("%s: %s", p->id, e.text);
    if (rc != 0 || batch_ended(&a->b)) {
        active_close(a);
        return rc == ERR_MISSING || rc == ERR_FORMAT ? 0 : rc; /* a damaged record never begins */
    }
    a->lines = (struct batch_cursor){.store = r->store, .owner = a->b.owner, .id = a->b.input};
    if (a->b.status == BATCH_cancelling)
        end_early(a, BATCH_cancelled, NULL, NULL);
    else if (a->b.status == BATCH_validating && begin(r, a, &p->n_try) != 0) {
        active_close(a);
        return ERR_MEMORY;
    }
    a->next = r->actives;
    r->actives = a;
    return 0;
}

/* Set *p to the oldest pending batch whose owner has no active batch, and remove it from `pending`.
 * Return false if there is no such batch. */
static bool take_pending(struct batch_runner *r, struct pending_batch *p)
{
    int n = 0;
    size_t i = 0;
    pthread_mutex_lock(&r->lock);
    while (i < r->pending.n && active_of(r, r->pending.v[i].owner, &n)) i++;
    const bool found = i < r->pending.n && n < ACTIVE_MAX;
    if (found) {
        *p = r->pending.v[i];
        r->pending.n--;
        memmove(&r->pending.v[i], &r->pending.v[i + 1], (r->pending.n - i) * sizeof *p);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

/* Add a batch to `pending`. Read the pending batches again later if memory runs out. */
static void add_pending(struct batch_runner *r, const struct pending_batch *p)
{
    pthread_mutex_lock(&r->lock);
    if (!vec_push(&r->pending, *p)) r->news |= NEWS_RESCAN;
    pthread_mutex_unlock(&r->lock);
}

static struct pending_batch pending_of(uint64_t owner, const char *id)
{
    struct pending_batch p = {.owner = owner};
    snprintf(p.id, sizeof p.id, "%s", id);
    return p;
}

/* Read the pending batches again after a failure. */
static void scan_later(struct batch_runner *r, int rc, const struct err *why)
{
    log_warn("batches: %s", why->text);
    add_news(r, NEWS_RESCAN);
    look_later(r, rc);
}

/* Read the pending batches from the store: at the start, and after a failure. */
static void scan(struct batch_runner *r)
{
    static const char *const kinds[] = {BATCH_PREFIX, MSGBATCH_PREFIX};
    struct err e = {0};
    pthread_mutex_lock(&r->lock);
    r->pending.n = 0;
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct stored_list l = {0};
        int rc = stored_list_all(&l, r->store, kinds[i], &e);
        if (rc != 0) scan_later(r, rc, &e);
        for (size_t k = 0; k < l.n; k++) {
            struct batch_state b;
            rc = batch_read(&b, l.v[k].holder, l.v[k].id, &l.v[k].head, &e);
            bool active = false;
            for (const struct active *a = r->actives; a; a = a->next)
                active |= strcmp(a->b.id, l.v[k].id) == 0;
            const struct pending_batch p = pending_of(l.v[k].holder, l.v[k].id);
            if (rc == ERR_MEMORY)
                scan_later(r, rc, &e);
            else if (rc != 0) /* a damaged record never begins */
                log_warn("%s: %s", p.id, e.text);
            if (rc == 0 && !batch_ended(&b) && !active) add_pending(r, &p);
            batch_deinit(&b);
        }
        stored_list_deinit(&l);
    }
}

/* Handle requests to cancel or delete active batches. Activate pending batches. */
static void look(struct batch_runner *r)
{
    struct err e = {0};
    struct pending_batch p;
    for (struct active *a = r->actives; a; a = a->next) {
        struct batch_state b;
        int rc = batch_load(&b, r->store, a->b.owner, a->b.id, &e);
        a->end_us = 0; /* a change may have made space in the store */
        if (rc == ERR_MISSING) {
            a->state = ACTIVE_GONE;
        } else if (rc != 0) {
            log_warn("%s: %s", a->b.id, e.text);
            look_later(r, rc);
        }
        if (rc == 0 && b.status == BATCH_cancelling) end_early(a, BATCH_cancelled, NULL, NULL);
        batch_deinit(&b);
    }
    if (take_news(r, NEWS_RESCAN)) scan(r);
    while (take_pending(r, &p)) {
        const int rc = activate(r, &p);
        if (rc == 0) continue;
        add_pending(r, &p);
        look_later(r, rc);
        break;
    }
}

/* ---- the thread ---- */

/* Return NULL, or the violated invariant. */
static const char *check(const struct batch_runner *r)
{
    int n_flight = 0, n_sum = 0, n_same;
    for (const struct flight *f = r->in_flight; f; f = f->next, n_flight++) {
        const struct active *a = r->actives;
        while (a && a != f->active) a = a->next;
        if (!a || !f->call) return "a line in flight has no batch or no call (5)";
    }
    for (const struct active *a = r->actives; a; a = a->next) {
        n_sum += a->n_flight;
        for (const struct flight *f = a->waiting; f; f = f->next)
            if (f->active != a || f->number > a->lines.number)
                return "a waiting line is not a line of its batch (6)";
        if (active_of(r, a->b.owner, &n_same) != a || n_same > ACTIVE_MAX)
            return "two batches of an owner, or too many batches, are active (3)";
    }
    if (n_flight != r->n_flight || n_flight != n_sum || n_flight > FLIGHT_MAX)
        return "the lines in flight are not counted right (5)";
    return NULL;
}

/* Return the maximum time until the next round, in microseconds; < 0: no limit. */
static int64_t wait_us(const struct batch_runner *r)
{
    const int64_t left = r->retry_us - time_us();
    if (r->actives) return WAIT_US;
    if (!r->retry_us) return -1;
    return left > 0 ? left : 0;
}

static void *run(void *runner)
{
    struct batch_runner *r = runner;
    char byte;
    bool any = true;
    os_thread_background();
    while (!take_news(r, NEWS_STOP)) { /* batches_stop gives it once */
        if (!any) (void)queue_pop(r->bell, &byte, wait_us(r));
        const bool retries = r->retry_us && time_us() >= r->retry_us;
        if (retries) r->retry_us = 0;
        if (take_news(r, NEWS_CHANGED) || retries) look(r);
        submit_lines(r);
        any = take_answers(r);
        if (end_batches(r)) batches_wake(r), any = true;
        const char *wrong = check_steps ? check(r) : NULL;
        CHECK(!wrong, "%s", wrong);
    }
    return NULL;
}

int batches_open(struct batch_runner **out, const struct server *s, struct err *e)
{
    struct batch_runner *r = *out = calloc(1, sizeof *r);
    if (!r) return err_memory(e, "batches", sizeof *r);
    r->server = s;
    r->store = s->o.store;
    r->news = NEWS_CHANGED | NEWS_RESCAN;
    pthread_mutex_init(&r->lock, NULL);
    r->bell = queue_open(1, 1);
    int rc = r->bell ? 0 : err_memory(e, "batches", 0);
    if (rc == 0) r->started = os_thread_start(&r->thread, run, r);
    if (rc == 0 && !r->started) rc = os_thread_error("the thread of batches", e);
    if (rc == 0) return 0;
    batches_close(r);
    *out = NULL;
    return rc;
}

void batches_add(struct batch_runner *r, uint64_t owner, const char *id)
{
    const struct pending_batch p = pending_of(owner, id);
    add_pending(r, &p);
    batches_wake(r);
}

void batches_wake(struct batch_runner *r)
{
    add_news(r, NEWS_CHANGED);
    queue_push(r->bell, "");
}

void batches_stop(struct batch_runner *r)
{
    if (!r || !r->started) return;
    add_news(r, NEWS_STOP);
    queue_push(r->bell, "");
    pthread_join(r->thread, NULL);
    r->started = false;
    while (r->in_flight) {
        struct flight *f = r->in_flight;
        r->in_flight = f->next;
        flight_close(f);
    }
    while (r->actives) {
        struct active *a = r->actives;
        r->actives = a->next;
        active_close(a);
    }
}

void batches_close(struct batch_runner *r)
{
    if (!r) return;
    batches_stop(r);
    queue_close(r->bell);
    vec_deinit(&r->pending);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
