/* packed.c - a model's panels in a cache file. Later starts map the file instead of repacking.
 *
 *   head | hash of each piece, u64 [n_piece] | zeros | region, from a multiple of 4 KiB on
 *
 * The file's name is the key: identity of the published bytes, layout of panels, and list of
 * tensors. Therefore any difference gives another file name, and a name has exactly one valid
 * content. Every field of the head is compared with the expected value. A hash protects the head
 * and the hashes of the pieces. The program interprets no other number of the file. weights_verify
 * compares the hashes of the pieces. These hashes are also compared if a power failure may have
 * damaged the file (filecache.h).
 *
 * Pieces are packed in a thread's scratch and written from there. Packing in scratch is twice as
 * fast as packing into a map of the file. Packing with hashes takes 0.27 s of processor time per GB
 * instead of 0.5 s (Linux 6.18, ext4). A full disk causes an error number instead of a signal.
 * Whole pieces are written, so the file's pages are large. Reading the weights from large pages of
 * a file is as fast as from huge pages. */
#include "cpu_impl.h"

#include "base/hash.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, REGION_ALIGN = 4096, KEY_TEXT = 2 * 16 + 1 };
static const char magic[8] = "quothpnl";

struct packed_head {
    char magic[8];
    uint64_t version, key[2], n_piece, region_at, region_bytes; /* region_at: offset in the file */
    uint64_t check; /* hash of all earlier fields and of the pieces' hashes */
};

/* ---- expected content ---- */

/* The file of a layout. c, l and o are borrowed for the call. */
struct packed {
    struct cpu_backend *c;
    const struct layout *l;
    const struct weights_options *o;
    char name[KEY_TEXT];     /* the key in hexadecimal, the file's name */
    struct packed_head head; /* all fields except check */
    uint64_t n_byte;         /* size of the file */
};

/* Add a place to the key. The key contains the names of formats, because a later version may change
 * the numbers of formats. */
static void mix_place(uint64_t *key, const struct weight_place *p)
{
    const char *type = qtype_info[p->to.type].name;
    int64_t shape[2] = {p->to.n_out, p->to.k};
    *key = hash_bytes(p->name, strlen(p->name), *key);
    *key = hash_bytes(type, strlen(type), *key);
    *key = hash_bytes(shape, sizeof shape, *key);
    if (p->n_matrix > 1) *key = hash_bytes(&p->n_matrix, sizeof p->n_matrix, *key);
    for (int i = 0; i < p->n_matrix && p->from; i++)
        if (p->from[i].form != FORM_ROWS) *key = published_hash(&p->from[i], *key);
}

/* Compute the name and the head that a file of this layout must have. */
static struct packed packed_of(struct cpu_backend *c, const struct layout *l,
                               const struct weights_options *o)
{
    struct packed p = {
        .c = c, .l = l, .o = o, .head = {.version = VERSION, .n_piece = (uint64_t)l->n_piece}};
    struct packed_head *h = &p.head;
    uint64_t layout[2] = {PANEL_LAYOUT, (uint64_t)l->n_place};
    memcpy(h->magic, magic, sizeof magic);
    for (int k = 0; k < 2; k++) {
        h->key[k] = hash_bytes(layout, sizeof layout, o->key[k]);
        for (int i = 0; i < l->n_place; i++) mix_place(&h->key[k], &l->place[i]);
    }
    h->region_at = sizeof *h + h->n_piece * sizeof(uint64_t);
    h->region_at = (h->region_at + REGION_ALIGN - 1) / REGION_ALIGN * REGION_ALIGN;
    h->region_bytes = l->n_byte;
    p.n_byte = h->region_at + l->n_byte;
    snprintf(p.name, sizeof p.name, "%016llx%016llx", (unsigned long long)h->key[0],
             (unsigned long long)h->key[1]);
    return p;
}

/* Return the hash of the head and of the pieces' hashes. The fields of the head are hashed first,
 * then the pieces' hashes. */
static uint64_t check_of(const struct packed_head *h, const uint64_t *hash)
{
    return hash_bytes(hash, h->n_piece * sizeof *hash,
                      hash_bytes(h, offsetof(struct packed_head, check), 0));
}

/* ---- verifying pieces ---- */

/* Arguments of look, which owns scratch and verdict. All pointers are borrowed here. */
struct look_job {
    const struct layout *l;
    const uint64_t *hash;  /* [n_piece], as stored in the file */
    const uint8_t *region; /* panels, in the mapped file */
    uint8_t *scratch;      /* [n_thread, piece_bytes_max]; NULL: compare only hashes */
    _Atomic char *verdict; /* [n_place] worst verdict of its pieces */
};

/* Check one piece. Several threads may check pieces of one place, so compare-and-swap keeps the
 * worst verdict. */
static void look_at_piece(void *ctx, int i, int worker)
{
    struct look_job *j = ctx;
    struct pack_piece p = layout_piece(j->l, i);
    const uint8_t *stored = j->region + p.at;
    enum weights_verdict v =
        hash_bytes(stored, p.n_byte, 0) == j->hash[i] ? WEIGHTS_SAME : WEIGHTS_DAMAGED;
    if (v == WEIGHTS_SAME && j->scratch) {
        uint8_t *again = j->scratch + (size_t)worker * j->l->piece_bytes_max;
        piece_pack(again, j->l, &p, worker);
        if (memcmp(stored, again, p.n_byte) != 0) v = WEIGHTS_DIFFERENT;
    }
    _Atomic char *worst = &j->verdict[p.place - j->l->place];
    for (char is = atomic_load(worst); is < (char)v;)
        if (atomic_compare_exchange_weak(worst, &is, (char)v)) break;
}

/* Verify all pieces of the mapped file. again: repack the pieces and compare them. verdict
 * [n_place] may be NULL. Return the number of tensors that differ or are damaged, ERR_BUSY if
 * the work is cancelled, or ERR_MEMORY. */
static int verify_pieces(const struct packed *p, const struct file_map *m, bool again,
                         enum weights_verdict *verdict, struct err *e)
{
    struct backend *b = &p->c->base;
    size_t n_scratch = again ? (size_t)pool_n_thread(p->c->pool) * p->l->piece_bytes_max : 0;
    struct look_job j = {
        .l = p->l,
        .hash = (const uint64_t *)(m->data + sizeof(struct packed_head)),
        .region = m->data + p->head.region_at,
        .scratch = again ? b->op->alloc(b, n_scratch) : NULL,
        .verdict = calloc((size_t)p->l->n_place + 1, sizeof *j.verdict),
    };
    int n_bad = 0;
    if (!j.verdict || (again && !j.scratch))
        n_bad = err_memory(e, "looking at packed weights", n_scratch);
    else
        n_bad = pieces_run(p->c, p->l, look_at_piece, &j, p->o, e);
    for (int i = 0; i < p->l->n_place && n_bad >= 0; i++) {
        enum weights_verdict v = (enum weights_verdict)j.verdict[i];
        if (verdict) verdict[i] = v;
        n_bad += v != WEIGHTS_SAME;
    }
    b->op->release(b, j.scratch, n_scratch);
    free(j.verdict);
    return n_bad;
}

/* ---- opening ---- */

/* Compare the head with the expected head. Return ERR_FORMAT if the file is damaged or has another
 * layout. */
static int check_head(const struct packed *p, const struct file_map *m, struct err *e)
{
    const char *dir = p->o->cache->dir;
    if (m->n_byte != p->n_byte)
        return err_set(e, ERR_FORMAT, "%s/%s is damaged: expected %llu bytes, got %zu", dir,
                       p->name, (unsigned long long)p->n_byte, m->n_byte);
    const struct packed_head *h = (const struct packed_head *)m->data;
    if (memcmp(h, &p->head, offsetof(struct packed_head, check)) != 0)
        return err_set(e, ERR_FORMAT,
                       "%s/%s is damaged: expected the head of this model, got another of "
                       "check sum %016llx",
                       dir, p->name, (unsigned long long)h->check);
    const uint64_t sum = check_of(h, (const uint64_t *)(h + 1));
    if (h->check != sum)
        return err_set(e, ERR_FORMAT, "%s/%s is damaged: expected check sum %016llx, got %016llx",
                       dir, p->name, (unsigned long long)h->check, (unsigned long long)sum);
    return 0;
}

/* Read the whole region once, at the speed of the disk. */
static int check_pieces(const struct packed *p, const struct file_map *m, struct err *e)
{
    int n_bad = verify_pieces(p, m, false, NULL, e);
    if (n_bad <= 0) return n_bad;
    return err_set(e, ERR_FORMAT,
                   "%s/%s is damaged: expected equal hashes, got %d of %d tensors with others",
                   p->o->cache->dir, p->name, n_bad, p->l->n_place);
}

/* Map the file. Remove a damaged file, so that the caller makes a new one. */
int packed_open(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e)
{
    struct packed p = packed_of(c, l, o);
    bool settled;
    int rc = filecache_open(m, &settled, o->cache, p.name, e);
    if (rc != 0) return rc;
    rc = check_head(&p, m, e);
    if (rc == 0 && !settled) {
        rc = check_pieces(&p, m, e);
        if (rc == 0) filecache_settle(o->cache, p.name);
    }
    if (rc == ERR_FORMAT) filecache_remove(o->cache, p.name);
    if (rc == 0)
        *region = m->data + p.head.region_at;
    else
        file_map_close(m);
    return rc;
}

int packed_verify(enum weights_verdict *verdict, struct cpu_backend *c, const struct layout *l,
                  const struct weights_options *o, struct err *e)
{
    struct packed p = packed_of(c, l, o);
    struct file_map m;
    bool settled;
    int rc = filecache_open(&m, &settled, o->cache, p.name, e);
    if (rc != 0) return rc;
    rc = check_head(&p, &m, e);
    int n_bad = rc == 0 ? verify_pieces(&p, &m, true, verdict, e) : rc;
    if (n_bad == 0 && !settled) filecache_settle(o->cache, p.name);
    if (n_bad > 0 || rc == ERR_FORMAT) filecache_remove(o->cache, p.name);
    file_map_close(&m);
    return n_bad < 0 ? n_bad : 0;
}

/* ---- writing ---- */

/* Arguments of packed_make, which owns scratch and hash. All pointers are borrowed here. */
struct packed_job {
    const struct layout *l;
    const struct filecache_file *file;
    uint64_t region_at;
    uint8_t *scratch;  /* [n_thread, piece_bytes_max] a piece of each thread */
    uint64_t *hash;    /* [n_piece] hash of each piece */
    _Atomic int error; /* first errno of a failed write; 0 if none */
};

/* Pack, hash and write one piece. After the first failed write the other pieces do nothing. */
static void make_piece(void *ctx, int i, int worker)
{
    struct packed_job *j = ctx;
    if (atomic_load_explicit(&j->error, memory_order_relaxed)) return;
    struct pack_piece p = layout_piece(j->l, i);
    uint8_t *to = j->scratch + (size_t)worker * j->l->piece_bytes_max;
    piece_pack(to, j->l, &p, worker);
    j->hash[i] = hash_bytes(to, p.n_byte, 0);
    int error = filecache_put(j->file, j->region_at + p.at, to, p.n_byte);
    if (error) atomic_store(&j->error, error);
}

/* Write the file, the head last. A file without a head is never accepted. */
static int make_all(struct packed *p, struct packed_job *j, struct err *e)
{
    const int rc = pieces_run(p->c, p->l, make_piece, j, p->o, e);
    if (rc != 0) return rc;
    p->head.check = check_of(&p->head, j->hash);
    int error = j->error;
    if (!error) error = filecache_put(j->file, 0, &p->head, sizeof p->head);
    if (!error)
        error = filecache_put(j->file, sizeof p->head, j->hash, p->head.n_piece * sizeof *j->hash);
    return error ? err_set(e, ERR_IO, "%s: cannot write: %s", p->o->cache->dir, strerror(error))
                 : 0;
}

int packed_make(struct file_map *m, const uint8_t **region, struct cpu_backend *c,
                const struct layout *l, const struct weights_options *o, struct err *e)
{
    struct packed p = packed_of(c, l, o);
    struct filecache_file f;
    int rc = filecache_begin(&f, o->cache, p.name, p.n_byte, e);
    if (rc != 0) return rc;
    size_t n_scratch = (size_t)pool_n_thread(c->pool) * l->piece_bytes_max;
    struct packed_job j = {.l = l,
                           .file = &f,
                           .region_at = p.head.region_at,
                           .scratch = c->base.op->alloc(&c->base, n_scratch),
                           .hash = calloc((size_t)l->n_piece, sizeof *j.hash)};
    rc = j.scratch && j.hash ? make_all(&p, &j, e) : err_memory(e, "packing weights", n_scratch);
    if (rc == 0)
        rc = filecache_keep(&f, m, e);
    else
        filecache_abandon(&f);
    if (rc == 0) *region = m->data + p.head.region_at;
    c->base.op->release(&c->base, j.scratch, n_scratch);
    free(j.hash);
    return rc;
}
