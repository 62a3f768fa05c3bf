/* download.c - download a blob by parallel ranges on one thread, and hash it on another thread.
 *
 *   network   a range of missing chunks --> stream --> partial_write --> CHUNK_DONE
 *   hasher    chunks in their order: partial_read --> SHA-256, journal --> CHUNK_HASHED
 *
 *   MISSING --start_streams--> ACTIVE --last byte--> DONE --hasher--> HASHED
 *      ^-------- release ---------'                            CLAIMED --hasher--'
 *      '-------------------- the journal was wrong: hasher ------'
 *
 * Chunks in the journal begin as CLAIMED. Until the first answer arrives there is only one stream,
 * because this answer shows if the server supports ranges. Without ranges, one stream receives the
 * whole file and skips the bytes that are on the disk. The hasher reads the bytes from the page
 * cache, so the rate is that of the slower thread. The lock protects the states of chunks and the
 * fields after it. */
#include "hub_impl.h"

#include "base/cancel.h"
#include "base/cond.h"
#include "base/hash.h"
#include "base/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* RUN: chunks of a range. POLL_US: time between two reports of the progress. */
enum { N_STREAM_MAX = 64, N_STREAM = 8, RUN = 4, POLL_US = 100000, OTHER_BODY_MAX = 1 << 20 };

enum chunk_state { CHUNK_MISSING, CHUNK_ACTIVE, CHUNK_CLAIMED, CHUNK_DONE, CHUNK_HASHED };

struct transfer;
/* A request in flight. */
struct stream {
    struct transfer *t;      /* borrowed */
    uint64_t begin, at, end; /* range of the file, and its next byte */
    /* received bytes that were missing, and received bytes of other answers */
    uint64_t n_new, n_other;
    uint32_t url_number; /* url_number of the transfer at the start */
    int n_redirect;
    bool active, ranged; /* ranged: the request has a Range */
};

struct transfer {
    struct remote *c;     /* borrowed */
    const struct blob *b; /* borrowed */
    struct partial part;
    /* network thread only */
    struct stream stream[N_STREAM_MAX];
    int n_stream, n_active;
    bool probed, no_ranges;
    uint32_t *have; /* bytes of a chunk that were written [n_chunk] */
    uint64_t n_have;
    uint32_t low;             /* index before which no chunk is missing */
    char url[HUB_PATH_BYTES]; /* URL after redirects */
    uint32_t url_number;      /* number of changes of `url` */
    struct patience patience;
    int rc;
    struct err *e; /* borrowed */
    /* shared with the hasher */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t *state;    /* [n_chunk] */
    bool stop, hashed; /* hashed: the hasher has ended */
    int hash_rc;
    struct err hash_error;
    char hash[HUB_HASH_BYTES];
};

/* ---- the hasher ---- */

/* Wait for chunk i. Return its state; CHUNK_MISSING if the transfer stops. */
static enum chunk_state wait_for(struct transfer *t, uint32_t i)
{
    enum chunk_state s;
    pthread_mutex_lock(&t->lock);
    while ((s = t->state[i]) < CHUNK_CLAIMED && !t->stop) pthread_cond_wait(&t->changed, &t->lock);
    if (t->stop) s = CHUNK_MISSING;
    pthread_mutex_unlock(&t->lock);
    return s;
}

static void set_state(struct transfer *t, uint32_t i, enum chunk_state s)
{
    pthread_mutex_lock(&t->lock);
    t->state[i] = (uint8_t)s;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* Add chunk i to the hash. A claimed chunk whose bytes differ from the journal becomes missing. */
static int hash_chunk(struct transfer *t, struct digest *d, uint32_t i, void *bytes)
{
    for (;;) {
        const enum chunk_state s = wait_for(t, i);
        const size_t n = partial_chunk_bytes(&t->part, i);
        /* the transfer has stopped; the network thread has the reason */
        if (s == CHUNK_MISSING) return ERR_IO;
        int rc = partial_read(&t->part, i, bytes, &t->hash_error);
        if (rc != 0) return rc;
        const uint64_t hash = hash_bytes(bytes, n, 0);
        if (s == CHUNK_CLAIMED && hash != t->part.hash[i]) {
            set_state(t, i, CHUNK_MISSING);
            continue;
        }
        if (!digest_add(d, bytes, n)) return err_memory(&t->hash_error, "a hash", 0);
        if (s == CHUNK_DONE) partial_note(&t->part, i, hash);
        set_state(t, i, CHUNK_HASHED);
        return 0;
    }
}

static int hash_all(struct transfer *t)
{
    struct digest d = {0};
    void *bytes = malloc(CHUNK_BYTES);
    int rc = bytes ? 0 : err_memory(&t->hash_error, "a chunk", CHUNK_BYTES);
    if (rc == 0) rc = digest_open(&d, t->b->hash, t->part.n_byte, &t->hash_error);
    for (uint32_t i = 0; rc == 0 && i < t->part.n_chunk; i++) rc = hash_chunk(t, &d, i, bytes);
    if (rc == 0 && !digest_end(&d, t->hash)) rc = err_memory(&t->hash_error, "a hash", 0);
    digest_close(&d);
    free(bytes);
    return rc;
}

static void *run_hasher(void *arg)
{
    struct transfer *t = arg;
    int rc = hash_all(t);
    pthread_mutex_lock(&t->lock);
    t->hash_rc = rc;
    t->hashed = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- callbacks of a stream ---- */

/* Return true if a header with a hash differs from the blob's. Quotes and W/ are not compared. */
static bool differs(const struct transfer *t, const char *etag)
{
    char hash[HUB_HASH_BYTES + 8];
    if (!etag) return false;
    if (strncmp(etag, "W/", 2) == 0) etag += 2;
    etag += *etag == '"';
    snprintf(hash, sizeof hash, "%.*s", (int)strcspn(etag, "\""), etag);
    return is_hash(hash) && strcmp(hash, t->b->hash) != 0;
}

/* Set the transfer's error. Return false. */
static bool reject(struct transfer *t, const char *why)
{
    t->rc = err_set(t->e, ERR_FORMAT, "%s: %s: %s", t->c->name, t->b->title, why);
    return false;
}

/* Check the range of an answer with status 206: "bytes FIRST-LAST/SIZE". */
static bool check_range(struct stream *s, const char *range)
{
    struct transfer *t = s->t;
    unsigned long long first, last, n_byte;
    char size[24];
    if (!range ||
        sscanf(range, "bytes %19llu-%19llu/%23s", &first, &last, size) != 3) /* check: widths */
        return reject(t, "an answer without a valid Content-Range");
    n_byte = strcmp(size, "*") == 0 ? t->part.n_byte : strtoull(size, NULL, 10);
    if (n_byte != t->part.n_byte) return reject(t, "the size differs from the list of files");
    if (first != s->at || last >= n_byte || last < first)
        return reject(t, "the server returned another range");
    if (s->end > last + 1) s->end = last + 1;
    return true;
}

/* Accept an answer with status 200, which is the whole file. Return false if other streams have
 * ranges of the file. */
static bool take_whole(struct stream *s, const char *length)
{
    struct transfer *t = s->t;
    if (length && strtoull(length, NULL, 10) != t->part.n_byte)
        return reject(t, "the size differs from the list of files");
    t->no_ranges = true;
    if (s->ranged && t->n_active > 1) return false;
    s->at = 0;
    s->end = t->part.n_byte;
    return true;
}

static bool on_head(void *ctx, int status, const struct fetch_head *h)
{
    struct stream *s = ctx;
    struct transfer *t = s->t;
    if (remote_owns(t->c, t->url) && differs(t, fetch_header(h, "x-linked-etag")))
        return reject(t, "the hash differs from the list of files; the file has changed");
    if (status != 200 && status != 206) return true;
    const char *coding = fetch_header(h, "content-encoding");
    if (coding && strcasecmp(coding, "identity") != 0)
        return reject(t, "the answer is compressed, which the request does not allow");
    bool ok = status == 206 ? check_range(s, fetch_header(h, "content-range"))
                            : take_whole(s, fetch_header(h, "content-length"));
    t->probed |= ok;
    return ok;
}

static enum chunk_state state_of(struct transfer *t, uint32_t i)
{
    pthread_mutex_lock(&t->lock);
    const enum chunk_state s = t->state[i];
    pthread_mutex_unlock(&t->lock);
    return s;
}

/* Write the bytes that the chunk lacks. A chunk that becomes missing after a stream has passed its
 * beginning stays missing. */
static int write_chunk(struct stream *s, uint32_t i, const char *data, size_t n)
{
    struct transfer *t = s->t;
    const uint64_t offset = s->at - (uint64_t)i * CHUNK_BYTES;
    const size_t n_skip = t->have[i] > offset ? (size_t)(t->have[i] - offset) : 0;
    if (state_of(t, i) >= CHUNK_CLAIMED || t->have[i] < offset || n_skip >= n) return 0;
    int rc = partial_write(&t->part, s->at + n_skip, data + n_skip, n - n_skip, t->e);
    if (rc != 0) return rc;
    t->have[i] += (uint32_t)(n - n_skip);
    t->n_have += n - n_skip;
    s->n_new += n - n_skip;
    if (t->have[i] == partial_chunk_bytes(&t->part, i)) set_state(t, i, CHUNK_DONE);
    return 0;
}

static bool on_body(void *ctx, int status, const char *data, size_t n)
{
    struct stream *s = ctx;
    struct transfer *t = s->t;
    if (status != 200 && status != 206) return (s->n_other += n) < OTHER_BODY_MAX;
    if (n > s->end - s->at) return reject(t, "the answer is longer than its range");
    while (n > 0 && t->rc == 0) {
        const uint32_t i = (uint32_t)(s->at / CHUNK_BYTES);
        const uint64_t end = (uint64_t)(i + 1) * CHUNK_BYTES;
        const size_t k = n < end - s->at ? n : (size_t)(end - s->at);
        t->rc = write_chunk(s, i, data, k);
        s->at += k, data += k, n -= k;
    }
    return t->rc == 0;
}

/* Make the chunks of an ended stream missing again. */
static void release(struct stream *s)
{
    struct transfer *t = s->t;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = (uint32_t)(s->begin / CHUNK_BYTES); i < t->part.n_chunk; i++) {
        if ((uint64_t)i * CHUNK_BYTES >= s->end) break;
        if (t->state[i] != CHUNK_ACTIVE) continue;
        t->state[i] = CHUNK_MISSING;
        if (i < t->low) t->low = i;
    }
    pthread_mutex_unlock(&t->lock);
}

static void set_url(struct transfer *t, const char *url)
{
    t->rc = path_put(t->url, t->e, "%s", url);
    t->url_number++;
}

/* Continue at the URL of a redirect, unless another stream has done this. */
static void redirect(struct stream *s, const char *url)
{
    struct transfer *t = s->t;
    char next[HUB_PATH_BYTES];
    memcpy(next, t->url, sizeof next);
    t->rc = remote_redirect(t->c, next, url, &s->n_redirect, t->e);
    if (t->rc == 0 && s->url_number == t->url_number) set_url(t, next);
}

/* Handle an answer without the requested bytes. A URL of another server may have expired, so the
 * next request is sent to the hub. */
static void failed(struct stream *s, const struct fetch_result *r, const char *why)
{
    struct transfer *t = s->t;
    const bool expired =
        !r->error &&
        (r->status == 401 || r->status == 403 || r->status == 404 || r->status == 410) &&
        strcmp(t->url, t->b->url) != 0;
    if (expired && s->url_number != t->url_number) return;
    if (!r->error && r->status == 416)
        reject(t, "the size differs from the list of files");
    else if (expired)
        set_url(t, t->b->url);
    else if (!r->error && r->status != 200 && r->status != 206)
        t->rc = remote_status_error(t->c, r->status, t->url, t->e);
    if ((r->status == 429 || r->status == 503) && t->n_stream > 1) t->n_stream /= 2;
    if (t->rc == 0) t->rc = patience_fail(&t->patience, t->c, r, why, s->n_new > 0, t->e);
}

static void on_done(void *ctx, const struct fetch_result *r)
{
    struct stream *s = ctx;
    struct transfer *t = s->t;
    char why[300];
    const bool ok = !r->error && (r->status == 200 || r->status == 206);
    s->active = false;
    t->n_active--;
    release(s);
    if (t->rc != 0) return;
    snprintf(why, sizeof why, "%.200s: %s", t->b->title, r->error ? r->error : "");
    if (!r->error)
        snprintf(why, sizeof why, "%.200s: %s %d", t->b->title,
                 ok ? "the answer is too short, status" : "the server returned status", r->status);
    if (!r->error && r->status >= 300 && r->status < 400) {
        redirect(s, r->redirect);
    } else if (ok && (s->n_new > 0 || s->at == s->end)) {
        t->patience.n_fail = 0;
        s->n_redirect = 0;
    } else if (!(s->ranged && t->no_ranges && r->status == 200 && !s->n_new)) {
        failed(s, r, why);
    }
}

/* ---- the network thread ---- */

/* Find the first missing chunks, set their state to ACTIVE, and set the stream's range. Return
 * false if no chunk is missing. */
static bool take_range(struct transfer *t, struct stream *s)
{
    const uint32_t n_run = t->no_ranges ? t->part.n_chunk : RUN;
    uint32_t i = t->low, n = 0;
    pthread_mutex_lock(&t->lock);
    while (i < t->part.n_chunk && t->state[i] != CHUNK_MISSING) i++;
    t->low = i;
    for (; i + n < t->part.n_chunk && n < n_run; n++) {
        if (t->state[i + n] != CHUNK_MISSING || (n > 0 && t->have[i + n] > 0)) break;
        t->state[i + n] = CHUNK_ACTIVE;
    }
    pthread_mutex_unlock(&t->lock);
    if (n == 0) return false;
    s->begin = (uint64_t)i * CHUNK_BYTES;
    s->at = t->no_ranges ? 0 : s->begin + t->have[i];
    s->end = (uint64_t)(i + n) * CHUNK_BYTES;
    if (s->end > t->part.n_byte || t->no_ranges) s->end = t->part.n_byte;
    return true;
}

/* Send a request for the missing bytes. */
static int start_stream(struct transfer *t, struct stream *s)
{
    char range[80];
    const char *header[2];
    size_t n = 0;
    if (!take_range(t, s)) return 0;
    s->n_new = s->n_other = 0;
    s->url_number = t->url_number;
    s->ranged = !t->no_ranges;
    snprintf(range, sizeof range, "Range: bytes=%llu-%llu", (unsigned long long)s->at,
             (unsigned long long)s->end - 1);
    if (s->ranged) header[n++] = range;
    if (t->c->token.n && remote_owns(t->c, t->url)) header[n++] = t->c->token.data;
    struct fetch_request r = {.url = t->url,
                              .header = header,
                              .n_header = n,
                              .ctx = s,
                              .on_head = on_head,
                              .on_body = on_body,
                              .on_done = on_done};
    int rc = fetch_start(t->c->fetch, &r, t->e);
    if (rc != 0) return rc;
    s->active = true;
    t->n_active++;
    return 0;
}

/* Begin as many streams as allowed. */
static int start_streams(struct transfer *t)
{
    const int n_max = t->probed && !t->no_ranges ? t->n_stream : 1;
    int rc = 0;
    if (time_us() < t->patience.until_us) return 0;
    for (int i = 0; rc == 0 && i < n_max && t->n_active < n_max; i++)
        if (!t->stream[i].active) rc = start_stream(t, &t->stream[i]);
    return rc;
}

/* Wait for the network, the end of a pause, or the hasher, at most POLL_US. Return true if the
 * hasher has ended, and either it has failed or no stream is active. */
static bool wait_for_any(struct transfer *t)
{
    const int64_t now = time_us(), pause = t->patience.until_us - now;
    pthread_mutex_lock(&t->lock);
    bool ended = t->hashed;
    if (!ended && t->n_active == 0 && pause <= 0) cond_wait(&t->changed, &t->lock, now + POLL_US);
    ended = t->hashed && (t->n_active == 0 || t->hash_rc != 0);
    pthread_mutex_unlock(&t->lock);
    if (!ended && (t->n_active > 0 || pause > 0))
        fetch_wait(t->c->fetch, now + (pause > 0 && pause < POLL_US ? pause : POLL_US));
    return ended;
}

/* Report that the disk has `done` bytes of the blob. */
static void report(const struct remote *c, const struct blob *b, uint64_t done)
{
    const struct hub_pull_options *o = c->o;
    if (!o || !o->progress) return;
    o->progress(o->ctx, &(struct hub_progress){.file = b->title,
                                               .hash = b->hash,
                                               .file_done = done,
                                               .file_bytes = b->n_byte,
                                               .done = b->n_done + done,
                                               .n_byte = b->n_all});
}

/* Receive missing chunks until the blob is complete. Return 0 or the error. `low` becomes 0 if no
 * request is in flight, because a chunk that the hasher made missing may precede `low`. */
static int run_network(struct transfer *t)
{
    bool ended = false;
    while (t->rc == 0 && !ended) {
        if (t->n_active == 0) t->low = 0;
        t->rc = start_streams(t);
        if (t->rc == 0) ended = wait_for_any(t);
        if (t->rc == 0 && !ended && cancelled()) t->rc = err_cancelled(t->e);
        report(t->c, t->b, t->part.n_known + t->n_have);
    }
    return t->rc;
}

/* Run both threads until the blob is complete. */
static int transfer(struct transfer *t)
{
    pthread_t hasher;
    if (!os_thread_start(&hasher, run_hasher, t)) return os_thread_error("the hasher thread", t->e);
    run_network(t);
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(hasher, NULL);
    if (t->rc == 0 && t->hash_rc != 0) {
        *t->e = t->hash_error;
        t->rc = t->hash_rc;
    }
    return t->rc;
}

/* ---- a blob ---- */

/* Prepare the states of the chunks. */
static int begin(struct transfer *t)
{
    const size_t n = (size_t)t->part.n_chunk + 1;
    const int n_wanted = t->c->o && t->c->o->n_connection ? t->c->o->n_connection : N_STREAM;
    t->n_stream = n_wanted < N_STREAM_MAX ? n_wanted : N_STREAM_MAX;
    t->state = calloc(n, 1);
    t->have = calloc(n, sizeof *t->have);
    if (!t->state || !t->have) return err_memory(t->e, "chunks", n * sizeof *t->have);
    for (uint32_t i = 0; i < t->part.n_chunk; i++)
        if (t->part.hash[i]) t->state[i] = CHUNK_CLAIMED;
    for (int i = 0; i < N_STREAM_MAX; i++) t->stream[i].t = t;
    return path_put(t->url, t->e, "%s", t->b->url);
}

/* Compare the hash, and give the file its final name. Remove a file with a wrong hash. */
static int finish(struct transfer *t)
{
    if (strcmp(t->hash, t->b->hash) == 0) return partial_keep(&t->part, t->e);
    partial_discard(&t->part);
    return err_set(t->e, ERR_FORMAT,
                   "%s: %s is damaged: expected the hash %s, got %s; the file was removed",
                   t->c->name, t->b->title, t->b->hash, t->hash);
}

static bool is_complete(const struct blob *b)
{
    struct stat st;
    return stat(b->path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == b->n_byte;
}

static int download_locked(struct remote *c, const struct blob *b, struct err *e)
{
    struct transfer *t = calloc(1, sizeof *t);
    if (!t) return err_memory(e, "a download", sizeof *t);
    t->c = c;
    t->b = b;
    t->e = e;
    pthread_mutex_init(&t->lock, NULL);
    cond_init(&t->changed);
    int rc = partial_open(&t->part, b->path, b->n_byte, e);
    if (rc == 0) rc = begin(t);
    if (rc == 0) rc = transfer(t);
    if (rc == 0) rc = finish(t);
    partial_close(&t->part);
    free(t->state);
    free(t->have);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return rc;
}

int download(struct remote *c, const struct blob *b, struct err *e)
{
    int lock = -1, rc = 0;
    if (!is_complete(b)) rc = lock_open(&lock, b->lock, false, b->title, c->o, e);
    if (rc == 0 && !is_complete(b)) rc = download_locked(c, b, e);
    lock_close(lock);
    if (rc == 0) report(c, b, b->n_byte);
    return rc;
}
