/* explain.c - quoth inspect --explain: the use of each key and each tensor of a model file.
 *
 *   model_explain --> struct explain_table of rows --> two tables, or JSON
 *
 * Equal tensors of several layers or experts share one row unless --all is given, with * for their
 * numbers. A row is found by its text, so the time is linear in the number of tensors.
 *
 * The columns of a row are one string with a NUL after each column. The string is the key of the
 * map (by_text), so two tensors share a row only if all four columns are equal. */
#include "explain.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "cli.h"
#include "sample/sample.h"
#include "session/session.h"
#include "token/token.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* VALUE_ITEMS, VALUE_BYTES: part of a long list or text that is shown. VALUE_WIDTH, COLUMN_MAX:
 * widest columns, so that rows fit into a wide terminal */
enum {
    N_COLUMN = 4,
    NAME_BYTES = 256,
    VALUE_ITEMS = 4,
    VALUE_BYTES = 24,
    VALUE_WIDTH = 40,
    COLUMN_MAX = 60
};

struct explain_row {
    char *text; /* N_COLUMN strings, each with its NUL; owned */
    int n;      /* number of tensors of the row */
    int64_t n_byte;
};

struct explain_table {
    VEC(struct explain_row) row;
    struct strmap by_text;
    int n_fate[FATE_REFUSED + 1];
};

struct explanation {
    const struct checkpoint *c; /* borrowed */
    struct explain_options o;
    struct explain_table key, tensor;
    struct buf ends; /* report of the ends of a text; empty if there is no tokenizer */
    struct buf json; /* JSON without its end: "keys":[...],"tensors":[... */
    /* bytes in memory; by_arith: bytes of matrices by arithmetic */
    int64_t by_arith[N_ARITH], n_byte;
    bool failed; /* true if memory is exhausted */
};

static const char *const fate_name[] = {"used", "checked", "ignored", "unknown", "refused"},
                         *const compute_name[] = {"int8", "bf16", "f32"}; /* by enum arith */

/* ---- rows ---- */

/* Copy a name, with * for each number between dots. */
static void fold(char to[NAME_BYTES], const char *name, bool keep)
{
    size_t n = 0;
    for (const char *p = name; *p && n + 1 < NAME_BYTES;) {
        const size_t digits = strspn(p, "0123456789");
        const bool whole = digits && p > name && p[-1] == '.' && (p[digits] == '.' || !p[digits]);
        if (whole && !keep)
            to[n++] = '*', p += digits;
        else
            to[n++] = *p++;
    }
    to[n] = 0;
}

/* Add a row, or count it in an equal row. */
static void add_row(struct explanation *x, struct explain_table *t,
                    const char *const column[N_COLUMN], int64_t n_byte)
{
    struct buf b = {0};
    for (int i = 0; i < N_COLUMN; i++) buf_add(&b, column[i], strlen(column[i]) + 1);
    const size_t n = b.n;
    const uint32_t *at = b.failed ? NULL : strmap_get(&t->by_text, b.data, n);
    if (at) {
        t->row.v[*at].n++;
        t->row.v[*at].n_byte += n_byte;
        buf_deinit(&b);
        return;
    }
    char *text = buf_detach(&b);
    if (text && vec_push(&t->row, ((struct explain_row){text, 1, n_byte})))
        x->failed |= !strmap_put(&t->by_text, text, n, (uint32_t)t->row.n - 1);
    else {
        free(text);
        x->failed = true;
    }
}

/* Free the rows. The keys of the map point to the texts of the rows. */
static void close_table(struct explain_table *t)
{
    for (size_t i = 0; i < t->row.n; i++) free(t->row.v[i].text);
    vec_deinit(&t->row);
    strmap_deinit(&t->by_text);
}

/* Append a member of an object, whose value is a text. */
static void put_member(struct buf *b, const char *name, const char *text)
{
    buf_addf(b, ",\"%s\":", name);
    json_put_text(b, text, strlen(text));
}

/* ---- keys ---- */

/* Add a key (callback of model_explain). */
static void take_key(void *ctx, const struct explained_key *k)
{
    struct explanation *x = ctx;
    struct buf value = {0};
    if (k->i >= 0)
        put_meta(&value, checkpoint_meta_at(x->c, k->i, NULL), x->o.all ? SIZE_MAX : VALUE_ITEMS,
                 x->o.all ? SIZE_MAX : VALUE_BYTES);
    else
        buf_add_text(&value, "(absent)");
    x->failed |= value.failed;
    if (!x->o.all && value.n > VALUE_WIDTH) memcpy(value.data + VALUE_WIDTH - 4, " ...", 5);
    const char *column[N_COLUMN] = {k->name, value.failed ? "" : value.data, fate_name[k->fate],
                                    k->why};
    if (!x->o.as_json) add_row(x, &x->key, column, 0);
    buf_addf(&x->json, "%s{\"name\":", x->json.n ? "," : "\"keys\":[");
    json_put_text(&x->json, k->name, strlen(k->name));
    put_member(&x->json, "use", fate_name[k->fate]);
    put_member(&x->json, "by", k->why);
    buf_add_char(&x->json, '}');
    x->key.n_fate[k->fate]++;
    buf_deinit(&value);
}

/* ---- tensors ---- */

/* Write the form of a used tensor. */
static void put_form(char out[NAME_BYTES], const struct explained_tensor *t, bool keep)
{
    static const char *const word[] = {"matrix ", "expert of ", "table ",
                                       "vector",  "part of ",   "equals other weights"};
    char name[NAME_BYTES];
    fold(name, t->why, keep);
    snprintf(out, NAME_BYTES, "%s%.150s%s%s",
             t->form == TENSOR_MATRIX && t->n_matrix > 1 ? "matrices " : word[t->form], name,
             t->form == TENSOR_TABLE && t->n_matrix > 1 ? ", and the head" : "",
             t->is_codes     ? ", from codes and scales"
             : t->is_encoded ? ", encoded at load"
                             : "");
}

/* Return the arithmetic of a used tensor. */
static const char *arith_of(const struct explained_tensor *t)
{
    const enum arith a = session_arith(&session_flags, t->type);
    switch (t->form) {
    case TENSOR_MATRIX:
    case TENSOR_EXPERT:
        return compute_name[a];
    case TENSOR_TABLE:
        return t->n_matrix == 1  ? "looked up"
               : a == ARITH_INT8 ? "looked up, int8"
               : a == ARITH_BF16 ? "looked up, bf16"
                                 : "looked up, f32";
    case TENSOR_VECTOR:
        return "f32";
    default:
        return "";
    }
}

/* Add a tensor (callback of model_explain). */
static void take_tensor(void *ctx, const struct explained_tensor *t)
{
    struct explanation *x = ctx;
    const struct tensor_info *info = checkpoint_tensor_at(x->c, t->i);
    const bool used = t->fate == FATE_USED, keep = x->o.all || x->o.as_json;
    char name[NAME_BYTES], form[NAME_BYTES], types[64];
    const char *arith = used ? arith_of(t) : "";
    fold(name, info->name_raw, keep);
    put_form(form, t, keep);
    if (!used) snprintf(form, sizeof form, "%s: %.200s", fate_name[t->fate], t->why);
    const bool other = used && t->form != TENSOR_PART && t->type != info->type;
    snprintf(types, sizeof types, "%s%s%s", qtype_info[info->type].name, other ? " -> " : "",
             other ? qtype_info[t->type].name : "");
    const char *column[N_COLUMN] = {name, types, form, arith};
    if (!x->o.as_json) add_row(x, &x->tensor, column, t->n_byte);
    buf_addf(&x->json, "%s{\"name\":",
             x->tensor.n_fate[0] + x->tensor.n_fate[2] + x->tensor.n_fate[3] + x->tensor.n_fate[4]
                 ? ","
                 : "],\"tensors\":[");
    json_put_text(&x->json, info->name_raw, strlen(info->name_raw));
    put_member(&x->json, "use", fate_name[t->fate]);
    put_member(&x->json, used ? "form" : "by", used ? form : t->why);
    put_member(&x->json, "type", qtype_info[used ? t->type : info->type].name);
    if (*arith) put_member(&x->json, "arithmetic", arith);
    buf_addf(&x->json, ",\"bytes\":%lld}", (long long)t->n_byte);
    x->tensor.n_fate[t->fate]++;
    x->n_byte += t->n_byte;
    if (used && (t->form == TENSOR_MATRIX || t->form == TENSOR_EXPERT || t->n_matrix > 1))
        x->by_arith[session_arith(&session_flags, t->type)] += t->n_byte;
}

/* ---- printing ---- */

/* Return the widest text of a column. */
static int width(const struct explain_table *t, int column, int least)
{
    size_t max = (size_t)least;
    for (size_t i = 0; i < t->row.n; i++) {
        const char *text = t->row.v[i].text;
        for (int k = 0; k < column; k++) text += strlen(text) + 1;
        if (strlen(text) > max) max = strlen(text);
    }
    return max < COLUMN_MAX ? (int)max : COLUMN_MAX;
}

/* Append the table of keys, with a row per key. */
static void put_keys(struct buf *b, const struct explain_table *t)
{
    const int w[] = {width(t, 0, 3), width(t, 1, 5)};
    buf_addf(b, "%-*s  %-*s  %-7s  %s\n", w[0], "key", w[1], "value", "use", "by, or why");
    for (size_t i = 0; i < t->row.n; i++) {
        const char *c[N_COLUMN] = {t->row.v[i].text};
        for (int k = 1; k < N_COLUMN; k++) c[k] = c[k - 1] + strlen(c[k - 1]) + 1;
        buf_addf(b, "%-*s  %-*s  %-7s  %s\n", w[0], c[0], w[1], c[1], c[2], c[3]);
    }
}

/* Append the table of tensors, with the number and the bytes of the tensors that share a row. */
static void put_tensors(struct buf *b, const struct explain_table *t)
{
    const int w[] = {width(t, 0, 6), width(t, 1, 4), width(t, 3, 10)};
    buf_addf(b, "\n%-*s  %5s  %-*s  %14s  %-*s  %s\n", w[0], "tensor", "count", w[1], "type",
             "bytes", w[2], "arithmetic", "form in memory");
    for (size_t i = 0; i < t->row.n; i++) {
        const struct explain_row *r = &t->row.v[i];
        const char *c[N_COLUMN] = {r->text};
        for (int k = 1; k < N_COLUMN; k++) c[k] = c[k - 1] + strlen(c[k - 1]) + 1;
        buf_addf(b, "%-*s  %5d  %-*s  %14lld  %-*s  %s\n", w[0], c[0], r->n, w[1], c[1],
                 (long long)r->n_byte, w[2], c[3], c[2]);
    }
}

/* Append the number of rows of each fate, also of rows that are merged in the table. */
static void put_counts(struct buf *b, const char *what, const struct explain_table *t)
{
    buf_addf(b, "%s:", what);
    for (int i = 0, n = 0; i <= FATE_REFUSED; i++)
        if (t->n_fate[i]) buf_addf(b, "%s %d %s", n++ ? "," : "", t->n_fate[i], fate_name[i]);
    buf_add_char(b, '\n');
}

/* Append the report as text. A model that does not load has the rows that were made before the
 * error. */
static void put_text(struct buf *b, const struct explanation *x, int rc, const struct err *e)
{
    const char *arch = meta_text(checkpoint_meta(x->c, "general.architecture"), NULL);
    buf_addf(b, "%s\narchitecture %s, ", checkpoint_path(x->c), arch ? arch : "unknown");
    buf_addf(b, rc ? "does not load: %s\n\n" : "loads%s\n\n", rc ? e->text : "");
    if (x->key.row.n) put_keys(b, &x->key);
    if (x->tensor.row.n) put_tensors(b, &x->tensor);
    buf_add_char(b, '\n');
    if (x->ends.n) buf_add(b, x->ends.data, x->ends.n), buf_add_char(b, '\n');
    if (x->key.row.n) put_counts(b, "keys", &x->key);
    if (!x->tensor.row.n) return;
    put_counts(b, "tensors", &x->tensor);
    buf_addf(b, "weights in memory: %lld bytes; matrices by arithmetic:", (long long)x->n_byte);
    for (int i = 0, n = 0; i < N_ARITH; i++)
        if (x->by_arith[i])
            buf_addf(b, "%s %s %lld", n++ ? "," : "", compute_name[i], (long long)x->by_arith[i]);
    buf_add_char(b, '\n');
}

/* Append the report as JSON, with a row per key and tensor. */
static void put_json(struct buf *b, const struct explanation *x, int rc, const struct err *e)
{
    buf_addf(b, "{\"loads\":%s", rc ? "false" : "true");
    if (rc) put_member(b, "error", e->text);
    buf_add_char(b, ',');
    buf_add(b, x->json.data, x->json.n);
    buf_add_text(b, x->json.n ? "]," : "\"keys\":[],");
    if (x->ends.n) buf_addf(b, "%s,", x->ends.data);
    buf_addf(b, "\"bytes\":%lld}\n", (long long)x->n_byte);
}

/* Append the tokens that end a text, each with the places that make it an end. */
static void put_ends(struct buf *b, const struct tokenizer *t, bool as_json)
{
    const char *comma = "";
    buf_add_text(b, as_json ? "\"ends\":[" : "ends of a text:\n");
    for (int32_t id = 0; t && id < tokenizer_n_vocab(t); id++) {
        size_t n;
        struct buf by = {0};
        const char *piece = tokenizer_piece(t, id, &n);
        if (!tokenizer_is_eog(t, id)) continue;
        tokenizer_put_ends(t, id, &by);
        b->failed |= by.failed;
        if (as_json) {
            buf_addf(b, "%s{\"id\":%d,\"token\":", comma, (int)id);
            json_put_text(b, piece, n);
            put_member(b, "by", by.n ? by.data : "");
            buf_add_char(b, '}');
        } else {
            buf_addf(b, "%8d  %.*s  (%s)\n", (int)id, (int)n, piece, by.n ? by.data : "");
        }
        buf_deinit(&by);
        comma = ",";
    }
    if (!*comma && !as_json) buf_add_text(b, "    none\n");
    if (as_json) buf_add_char(b, ']');
}

/* Open the tokenizer and check the sampling values of the file, as a session and its first request
 * do. Set x->ends. */
static int check_session(struct explanation *x, struct err *e)
{
    const struct checkpoint *c = x->c;
    struct tokenizer *t = NULL;
    const struct sample_params p = session_sample_defaults(c, 1);
    int rc = session_tokenizer(&t, c, &session_flags, e);
    if (rc == ERR_MISSING) { /* a folder of weights only: its keys and tensors are complete */
        log_warn("%s; quoth run needs a tokenizer", e->text);
        rc = 0;
    }
    if (t) put_ends(&x->ends, t, x->o.as_json);
    if (rc == 0) rc = sample_params_check(&p, t ? tokenizer_n_vocab(t) : INT_MAX, e);
    tokenizer_close(t);
    return rc;
}

int explain_print(const struct checkpoint *c, const struct explain_options *o, struct err *e)
{
    struct explanation x = {.c = c, .o = *o};
    struct backend *b;
    struct buf out = {0};
    struct err own;
    const char *quantization;
    int rc = session_quantization(&quantization, &session_flags, c, e);
    if (rc != 0) return rc;
    rc = backend_open(&b, session_device_name(&session_flags),
                      &(struct backend_options){.n_thread = 1}, e);
    if (rc != 0) return rc;
    rc = model_explain(c, b, quantization,
                       &(struct explain){.key = take_key, .tensor = take_tensor, .ctx = &x}, e);
    backend_close(b);
    if (rc == 0) rc = check_session(&x, e);
    (o->as_json ? put_json : put_text)(&out, &x, rc, e);
    out.failed |= x.failed | x.json.failed | x.ends.failed;
    const int printed = print_out(&out, &own);
    close_table(&x.key);
    close_table(&x.tensor);
    buf_deinit(&x.json);
    buf_deinit(&x.ends);
    if (printed != 0 && rc == 0) *e = own;
    return rc ? rc : printed;
}
