/* scrape.c - parser of pages of metrics (scrape.h). A sorted array and binary search are
 * sufficient, because a page has some hundreds of lines and is read once a second.
 *
 *    vllm:num_requests_running{model_name="m",engine="0"} 3.0
 *    \______ name ___________/ \______ labels _________/  value
 *
 * Names and labels are borrowed from the page and are not decoded. */
#include "scrape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

/* Return the length of the name at the beginning of a line. */
static size_t n_name(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] != '{' && s[i] != ' ' && s[i] != '\t') i++;
    return i;
}

/* Return the number of bytes before the first closing brace outside of quoted text. */
static size_t n_labels(const char *s, size_t n)
{
    bool quoted = false;
    size_t i = 0;
    for (; i < n && (quoted || s[i] != '}'); i++) {
        if (quoted && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            quoted = !quoted;
    }
    return i < n ? i : n;
}

/* Return the number in s[0, n); NAN if the bytes are not a number. */
static double number_of(const char *s, size_t n)
{
    char text[64], *end;
    if (n == 0 || n >= sizeof text) return NAN;
    memcpy(text, s, n);
    text[n] = 0;
    double x = strtod(text, &end);
    return end == text ? NAN : x;
}

/* Parse one line of n bytes. Return false if the line is not a sample. */
static bool read_row(struct scrape_row *r, const char *line, size_t n)
{
    *r = (struct scrape_row){.name = line, .n_name = n_name(line, n), .labels = ""};
    size_t at = r->n_name;
    if (at == 0 || line[0] == '#') return false;
    if (at < n && line[at] == '{') {
        r->labels = line + at + 1;
        r->n_labels = n_labels(r->labels, n - at - 1);
        at += r->n_labels + 2;
    }
    while (at < n && (line[at] == ' ' || line[at] == '\t')) at++;
    size_t n_number = 0;
    while (at + n_number < n && !strchr(" \t\r", line[at + n_number])) n_number++;
    r->value = number_of(line + at, n_number);
    return n_number > 0;
}

/* Compare two texts in the order of strcmp. */
static int compare(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int c = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return c ? c : (n_a > n_b) - (n_a < n_b);
}

/* Compare two rows for qsort. Rows of one name keep the order of the page, because qsort is not
 * stable. */
static int by_name(const void *a, const void *b)
{
    const struct scrape_row *x = a, *y = b;
    int c = compare(x->name, x->n_name, y->name, y->n_name);
    return c ? c : (x->name > y->name) - (x->name < y->name);
}

/* Replace the previous rows, and reuse their memory. */
bool scrape_read(struct scrape *s, const char *page, size_t n)
{
    bool ok = true;
    s->row.n = 0;
    for (size_t at = 0; at < n && ok;) {
        const char *end = memchr(page + at, '\n', n - at);
        size_t n_line = end ? (size_t)(end - page) - at : n - at;
        struct scrape_row r;
        if (read_row(&r, page + at, n_line)) ok = vec_push(&s->row, r);
        at += n_line + 1;
    }
    if (s->row.n) qsort(s->row.v, s->row.n, sizeof *s->row.v, by_name);
    return ok;
}

void scrape_deinit(struct scrape *s)
{
    vec_deinit(&s->row);
}

/* ---- series ---- */

/* Return the first row with that name, and set *n to the number of rows with the name. */
static const struct scrape_row *find(const struct scrape *s, const char *name, size_t *n)
{
    size_t lo = 0, hi = s->row.n, len = strlen(name);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (compare(s->row.v[mid].name, s->row.v[mid].n_name, name, len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*n = 0; lo + *n < s->row.n; ++*n) {
        const struct scrape_row *r = &s->row.v[lo + *n];
        if (compare(r->name, r->n_name, name, len) != 0) break;
    }
    return s->row.v ? s->row.v + lo : NULL;
}

/* Return true if the labels contain the text; NULL: any labels. */
static bool has(const struct scrape_row *r, const char *label)
{
    return !label || memmem(r->labels, r->n_labels, label, strlen(label));
}

double scrape_sum(const struct scrape *s, const char *name, const char *label)
{
    size_t n;
    double sum = NAN;
    const struct scrape_row *r = find(s, name, &n);
    for (size_t i = 0; i < n; i++)
        if (has(&r[i], label)) sum = (isnan(sum) ? 0 : sum) + r[i].value;
    return sum;
}

/* Return the beginning of a label's value, after its quote; NULL if the row does not have the
 * label. */
static const char *value_of(const struct scrape_row *r, const char *key, size_t *n)
{
    char begin[64];
    size_t len = (size_t)snprintf(begin, sizeof begin, "%s=\"", key);
    const char *end = r->labels + r->n_labels, *at = r->labels;
    while (at < end && (at = memmem(at, (size_t)(end - at), begin, len)) && at > r->labels &&
           at[-1] != ',' && at[-1] != ' ')
        at += len; /* the match is the end of another label's name */
    if (!at || at >= end) return NULL;
    at += len;
    for (*n = 0; at + *n < end && at[*n] != '"'; ++*n)
        if (at[*n] == '\\' && at + *n + 1 < end) ++*n;
    return at;
}

bool scrape_label(const struct scrape *s, const char *name, const char *key, char *out,
                  size_t n_out)
{
    size_t n, len;
    const struct scrape_row *r = find(s, name, &n);
    const char *value = n ? value_of(r, key, &len) : NULL;
    if (value) snprintf(out, n_out, "%.*s", (int)len, value);
    return value;
}

/* ---- histograms ---- */

/* Return seconds as microseconds, rounded: bounds such as 0.3 are not exact in a double. */
static int64_t millionths(double x)
{
    return (int64_t)llround(x * 1e6);
}

/* Add n to the cumulative count at `bound`. Insert `bound` into the sorted bounds if it is new. */
static void add_below(struct scrape_times *t, int64_t bound, uint64_t n)
{
    int i = 0;
    while (i < t->n_bound && t->bound[i] < bound) i++;
    if (i == t->n_bound || t->bound[i] != bound) {
        if (t->n_bound == HISTOGRAM_BOUNDS_MAX) return;
        memmove(t->bound + i + 1, t->bound + i, (size_t)(t->n_bound - i) * sizeof *t->bound);
        memmove(t->count + i + 1, t->count + i, (size_t)(t->n_bound - i) * sizeof *t->count);
        t->bound[i] = bound;
        t->count[i] = 0;
        t->n_bound++;
    }
    t->count[i] += n;
}

/* Add the histograms of series with equal bounds. Insert the bounds of other series. */
bool scrape_times(const struct scrape *s, const char *name, struct scrape_times *t)
{
    char full[128];
    size_t n, len;
    *t = (struct scrape_times){0};
    snprintf(full, sizeof full, "%s_bucket", name);
    const struct scrape_row *r = find(s, full, &n);
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        const char *le = value_of(&r[i], "le", &len);
        double bound = le ? number_of(le, len) : NAN;
        if (!(r[i].value >= 0 && r[i].value < 1e18) || isnan(bound)) continue;
        if (bound == INFINITY)
            all += (uint64_t)r[i].value;
        else if (fabs(bound) < 9e12)
            add_below(t, millionths(bound), (uint64_t)r[i].value);
    }
    t->count[t->n_bound] = all;
    for (int i = t->n_bound; i > 0; i--) /* convert cumulative counts to counts between bounds */
        t->count[i] -= t->count[i - 1] <= t->count[i] ? t->count[i - 1] : t->count[i];
    snprintf(full, sizeof full, "%s_sum", name);
    double sum = scrape_sum(s, full, NULL);
    t->sum = sum >= 0 && sum < 9e12 ? millionths(sum) : 0;
    return t->n_bound > 0;
}

struct histogram scrape_histogram(const struct scrape_times *t)
{
    struct histogram h = {.bound = t->bound, .n_bound = t->n_bound, .sum = t->sum};
    memcpy(h.count, t->count, sizeof h.count);
    for (int i = 0; i <= t->n_bound && t->n_bound > 0; i++) h.n += t->count[i];
    return h;
}

/* Return the increase from a to b. Return b if the bounds differ, because a and b cannot be
 * compared. */
struct scrape_times scrape_since(const struct scrape_times *a, const struct scrape_times *b)
{
    struct scrape_times d = *b;
    if (a->n_bound != b->n_bound || memcmp(a->bound, b->bound, sizeof a->bound) != 0) return d;
    for (int i = 0; i <= d.n_bound; i++)
        d.count[i] -= a->count[i] <= d.count[i] ? a->count[i] : d.count[i];
    d.sum -= a->sum <= d.sum ? a->sum : d.sum;
    return d;
}
