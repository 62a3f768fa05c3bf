/* top_page.c - a server's figures on a screen: queues, curves of the last minutes, latencies and
 * results of requests; see top.h. Rows are built in full and then truncated at the screen's edge,
 * so only the curves depend on its width.
 *
 * A page has a fixed layout. A missing figure keeps its place as "-", and the row of the error is
 * empty without an error. A figure is at the same place in each page. The same rows are the report
 * of --once, without curves and without limits of the screen. */
#include "top.h"

#include "base/json.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* Columns of the names and of the figures. */
enum { LABEL = 14, FIGURE = 9 };

/* A page that is being built. row: current row, owned. out: finished rows, borrowed. n_row: number
 * of finished rows. */
struct screen {
    const struct top *t;
    const struct top_look *look;
    struct top_figures f;
    struct buf row, *out;
    int n_row;
};

/* ---- rows ---- */

/* Return the number of bytes of s [n] that take at most n_column columns. Escape sequences take no
 * column. */
static size_t cut_columns(const char *s, size_t n, int n_column)
{
    size_t i = 0;
    for (int column = 0; i < n;) {
        uint32_t cp = 0;
        if (s[i] == '\033') {
            while (i < n && s[i] != 'm') i++;
            i += i < n;
            continue;
        }
        int len = utf8_decode(s + i, n - i, &cp);
        if (len <= 0) len = 1, cp = '?';
        int width = utf8_width(cp);
        if (column + width > n_column) break;
        column += width;
        i += (size_t)len;
    }
    return i;
}

/* Finish the row and append it to the page, unless the screen is full. A size of 0 rows has no
 * limit. */
static void end_row(struct screen *p)
{
    int max = p->look->size.n_row;
    while (p->row.n > 0 && p->row.data[p->row.n - 1] == ' ') p->row.n--;
    if (max == 0 || p->n_row < max) {
        buf_add(p->out, p->row.data ? p->row.data : "",
                cut_columns(p->row.data, p->row.n, p->look->size.n_column));
        if (p->look->colour) buf_add_text(p->out, "\033[m");
        buf_add_char(p->out, '\n');
        p->n_row++;
    }
    buf_clear(&p->row);
}

/* Append a style if colours are used. The code "" ends all styles. */
static void style(struct screen *p, const char *code)
{
    if (p->look->colour) buf_addf(&p->row, "\033[%sm", code);
}

/* Append the dim name of a row. */
static void put_label(struct screen *p, const char *label)
{
    style(p, "2");
    buf_addf(&p->row, "%-*s", LABEL, label);
    style(p, "");
}

/* ---- figures ---- */

/* Write a count in at most 6 columns. Write "-" for NAN, a figure that the server does not
 * report. */
static const char *count_text(double x, char out[24])
{
    if (isnan(x))
        snprintf(out, 24, "-");
    else if (fabs(x) >= 1e6)
        snprintf(out, 24, "%.2fM", x * 1e-6);
    else if (fabs(x) >= 1e5)
        snprintf(out, 24, "%.0fk", x * 1e-3);
    else if (fabs(x) < 99.95 && x != floor(x))
        snprintf(out, 24, "%.1f", x);
    else
        snprintf(out, 24, "%.0f", x);
    return out;
}

/* Write a share as a percentage; "-" for NAN. */
static const char *percent_text(double x, char out[24])
{
    if (isnan(x))
        snprintf(out, 24, "-");
    else
        snprintf(out, 24, "%.1f %%", x * 100);
    return out;
}

/* Write a time with three digits, in µs, ms, s or longer units. */
static const char *time_text(double us, char out[24])
{
    if (us < 1000)
        snprintf(out, 24, "%.0f us", us);
    else if (us < 99500)
        snprintf(out, 24, "%.1f ms", us * 1e-3);
    else if (us < 999500)
        snprintf(out, 24, "%.0f ms", us * 1e-3);
    else
        snprintf(out, 24, us < 99.5e6 ? "%.2f s" : "%.0f s", us * 1e-6);
    return out;
}

/* Write a size in MiB, or in GiB from 10^10 bytes on; "-" for NAN. */
static const char *bytes_text(double x, char out[24])
{
    if (isnan(x))
        snprintf(out, 24, "-");
    else
        snprintf(out, 24, x < 10e9 ? "%.0f MiB" : "%.1f GiB",
                 x / (x < 10e9 ? 1048576.0 : 1073741824.0));
    return out;
}

/* Append a dim label and its figure. */
static void put_count(struct screen *p, const char *label, double x)
{
    char text[24];
    style(p, "2");
    buf_addf(&p->row, "%s ", label);
    style(p, "");
    buf_addf(&p->row, "%s   ", count_text(x, text));
}

/* ---- curves ---- */

/* Return the mark of a share of the full height, one of eight. */
static const char *level_text(const struct screen *p, double x)
{
    static const char *const high[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {"_", ".", "-", "~", "+", "=", "*", "#"};
    int i = x >= 1 ? 7 : x > 0 ? (int)(x * 8) : 0; /* draw NAN as the lowest mark */
    return p->look->utf8 ? high[i] : plain[i];
}

/* Append the last points, with the newest point at the right end. full is the value of a full
 * column. NAN: a full column is the points' maximum, which is printed after the curve. */
static void put_curve(struct screen *p, enum top_curve c, double full, const char *unit)
{
    enum { TAIL = 18 }; /* "  max 10929 tok/s" */
    char text[24];
    int room = p->look->size.n_column - LABEL - FIGURE - 8 - TAIL;
    int n = p->t->n_point < room ? p->t->n_point : room;
    double max = isnan(full) ? 0 : full;
    for (int i = p->t->n_point - n; i < p->t->n_point && isnan(full); i++)
        if (p->t->point[i][c] > max) max = p->t->point[i][c];
    buf_addf(&p->row, "%*s", room > n ? room - n : 0, "");
    style(p, "36");
    for (int i = p->t->n_point - n; i < p->t->n_point; i++) {
        double x = p->t->point[i][c];
        buf_add_text(&p->row, isnan(x) ? " " : level_text(p, max > 0 ? x / max : 0));
    }
    style(p, "");
    if (isnan(full) && n > 0) {
        style(p, "2");
        buf_addf(&p->row, "  max %s%s", count_text(max, text), unit);
    }
}

/* Append a row: name, current figure, curve. A report has no curve, because it has two points. */
static void put_line(struct screen *p, const char *label, const char *figure, const char *unit,
                     enum top_curve c, double full)
{
    put_label(p, label);
    buf_addf(&p->row, "%*s%-6s", FIGURE, figure, unit);
    if (p->look->size.n_row > 0) {
        buf_add_text(&p->row, "  ");
        put_curve(p, c, full, unit);
    }
    end_row(p);
}

/* Append the rows with curves. Rates are means of the window, gauges are current values. */
static void put_lines(struct screen *p)
{
    const double *v = p->f.now->v;
    char text[24];
    put_line(p, "generation", count_text(p->f.per_s[TOP_generation], text), " tok/s",
             TOP_CURVE_GENERATION, NAN);
    put_line(p, "prompts", count_text(p->f.per_s[TOP_prompt], text), " tok/s", TOP_CURVE_PROMPT,
             NAN);
    put_line(p, "running", count_text(v[TOP_running], text), "", TOP_CURVE_RUNNING, NAN);
    put_line(p, "waiting", count_text(v[TOP_waiting], text), "", TOP_CURVE_WAITING, NAN);
    put_line(p, "KV in use", percent_text(v[TOP_kv], text), "", TOP_CURVE_KV, 1);
    put_line(p, "cache hits", percent_text(p->f.hit_rate, text), "", TOP_CURVE_HITS, 1);
}

/* ---- latencies ---- */

/* Append a quantile. Only the upper bound of the first bucket is known. */
static void put_quantile(struct screen *p, const struct histogram *h, double q)
{
    char text[24], less[32];
    if (h->n == 0) {
        buf_addf(&p->row, "%*s", FIGURE, "-");
        return;
    }
    double x = histogram_quantile(h, q), first = (double)h->bound[0];
    bool below = q * (double)h->n <= (double)h->count[0];
    snprintf(less, sizeof less, "%s%s", below ? "<" : "", time_text(below ? first : x, text));
    buf_addf(&p->row, "%*s", FIGURE, less);
}

/* Append a row of one latency: the window's figures, a bar, all figures. p90 is omitted after the
 * bar to fit into 80 columns. */
static void put_times(struct screen *p, const char *label, enum top_times i)
{
    struct histogram recent = scrape_histogram(&p->f.recent[i]),
                     all = scrape_histogram(&p->f.now->times[i]);
    char text[24];
    put_label(p, label);
    for (int k = 0; k < 2; k++) {
        const struct histogram *h = k ? &all : &recent;
        buf_addf(&p->row, "%s%*s", k ? " |" : "", k ? FIGURE - 1 : FIGURE,
                 h->n ? time_text(histogram_mean(h), text) : "-");
        put_quantile(p, h, 0.5);
        if (k == 0) put_quantile(p, h, 0.9);
        put_quantile(p, h, 0.99);
    }
    end_row(p);
}

/* Append the latencies of the window, a bar, and the latencies since the server's start. */
static void put_latencies(struct screen *p)
{
    char window[40];
    end_row(p);
    snprintf(window, sizeof window, p->f.seconds > 0 ? "last %.0f s" : "all", p->f.seconds);
    style(p, "2");
    buf_addf(&p->row, "%-*s%*s%*s%*s%*s |%*s%*s%*s", LABEL, window, FIGURE, "mean", FIGURE, "p50",
             FIGURE, "p90", FIGURE, "p99", FIGURE - 1, "mean", FIGURE, "p50", FIGURE, "p99");
    end_row(p);
    put_times(p, "first token", TOP_TTFT);
    put_times(p, "between tokens", TOP_ITL);
    put_times(p, "in the queue", TOP_QUEUE);
    put_times(p, "whole answers", TOP_E2EL);
}

/* ---- title, requests and machine ---- */

/* Append the title. TOP_start is the server's start in seconds since 1970; NAN if it is unknown. */
static void put_title(struct screen *p)
{
    char clock[16];
    time_t now = (time_t)p->look->wall_s;
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    style(p, "1");
    buf_add_text(&p->row, "quoth top");
    style(p, "");
    buf_addf(&p->row, "  %s  %s", p->t->url, p->f.now ? p->f.now->model : "");
    double up = p->f.now ? (double)p->look->wall_s - p->f.now->v[TOP_start] : NAN;
    if (up >= 0)
        buf_addf(&p->row, "  up %.0f:%02d:%02d", floor(up / 3600), (int)fmod(up / 60, 60),
                 (int)fmod(up, 60));
    buf_addf(&p->row, "  %s", clock);
    end_row(p);
}

/* Append the error, or an empty row, so that the layout does not change. */
static void put_error_row(struct screen *p)
{
    if (p->t->trouble[0]) {
        style(p, "1;31");
        buf_addf(&p->row, "not reachable, retrying: %s", p->t->trouble);
    } else if (p->t->restarted) {
        buf_add_text(&p->row, "the server was restarted");
    }
    end_row(p);
}

/* Append the totals since the server's start. */
static void put_ends(struct screen *p)
{
    const double *v = p->f.now->v;
    char text[24];
    end_row(p);
    put_label(p, "answers");
    put_count(p, "stop", v[TOP_stopped]);
    put_count(p, "length", v[TOP_length]);
    put_count(p, "abort", v[TOP_aborted]);
    put_count(p, "timeout", v[TOP_late]);
    put_count(p, "error", v[TOP_failed]);
    end_row(p);
    put_label(p, "HTTP");
    put_count(p, "requests/s", p->f.per_s[TOP_answers]);
    /* a counter with labels is absent before its first event, so absence means 0 */
    put_count(p, "4xx", isnan(v[TOP_refusals]) && v[TOP_answers] >= 0 ? 0 : v[TOP_refusals]);
    put_count(p, "5xx", isnan(v[TOP_faults]) && v[TOP_answers] >= 0 ? 0 : v[TOP_faults]);
    put_count(p, "hang-ups", v[TOP_hangups]);
    put_count(p, "connections", v[TOP_connections]);
    end_row(p);
    put_label(p, "scheduler");
    put_count(p, "preempted", v[TOP_preempted]);
    put_count(p, "refused", v[TOP_refused]);
    if (v[TOP_swapped] > 0) put_count(p, "swapped", v[TOP_swapped]);
    put_count(p, "pages", v[TOP_pages]);
    put_count(p, "of them cached", v[TOP_cached]);
    if (!isnan(p->f.accept_rate))
        buf_addf(&p->row, "drafts accepted %s", percent_text(p->f.accept_rate, text));
    end_row(p);
}

/* Append a share of the machine's peak. Append nothing if the server does not report the share. */
static void put_use(struct screen *p, const char *label, double x)
{
    char text[24];
    if (isnan(x)) return;
    buf_addf(&p->row, "   %s %s", label, x > 1 ? "in cache" : percent_text(x, text));
}

/* Append the figures of steps and of the process. */
static void put_machine(struct screen *p)
{
    char text[24];
    put_label(p, "steps");
    put_count(p, "per s", p->f.per_s[TOP_steps]);
    put_count(p, "rows each", p->f.rows_per_step);
    buf_addf(&p->row, "model %s   ", percent_text(p->f.forward, text));
    buf_addf(&p->row, "sampling %s", percent_text(p->f.sample, text));
    end_row(p);
    put_label(p, "process");
    buf_addf(&p->row, "%s   ", bytes_text(p->f.now->v[TOP_memory], text));
    buf_addf(&p->row, "CPU %s", percent_text(p->f.cpu, text));
    put_use(p, "FLOPs", p->f.now->v[TOP_mfu]);
    put_use(p, "bandwidth", p->f.now->v[TOP_mbu]);
    end_row(p);
}

/* Before the first reading, the page consists of the title and the error. */
void top_page(const struct top *t, const struct top_look *look, struct buf *out)
{
    struct screen p = {.t = t, .look = look, .out = out};
    top_figures(t, &p.f);
    put_title(&p);
    put_error_row(&p);
    if (p.f.now) {
        put_lines(&p);
        put_latencies(&p);
        put_ends(&p);
        put_machine(&p);
    }
    buf_deinit(&p.row);
}

/* ---- JSON ---- */

/* Append times as JSON, in seconds, as in the server's metrics. */
static void json_times(struct buf *out, const char *name, const struct scrape_times *t)
{
    static const int percent[] = {50, 90, 99};
    struct histogram h = scrape_histogram(t);
    buf_addf(out, ",\"%s\":{\"count\":%llu", name, (unsigned long long)h.n);
    json_member_real(out, "mean", h.n ? histogram_mean(&h) * 1e-6 : NAN);
    for (int i = 0; i < 3; i++) {
        char key[8];
        snprintf(key, sizeof key, "p%d", percent[i]);
        json_member_real(out, key, h.n ? histogram_quantile(&h, percent[i] / 100.0) * 1e-6 : NAN);
    }
    buf_add_char(out, '}');
}

/* The names are those of vLLM's metrics without the prefix. */
void top_json(const struct top *t, struct buf *out)
{
    static const char *const times[TOP_TIMES] = {
        "time_to_first_token_seconds", "inter_token_latency_seconds", "request_queue_time_seconds",
        "e2e_request_latency_seconds"};
    struct top_figures f;
    top_figures(t, &f);
    buf_add_text(out, "{\"url\":");
    json_put_text(out, t->url, strlen(t->url));
    if (f.now) {
        json_member_text(out, "model", f.now->model);
        json_member_real(out, "seconds", f.seconds);
        json_member_real(out, "num_requests_running", f.now->v[TOP_running]);
        json_member_real(out, "num_requests_waiting", f.now->v[TOP_waiting]);
        json_member_real(out, "kv_cache_usage_perc", f.now->v[TOP_kv]);
        json_member_real(out, "prompt_tokens_per_second", f.per_s[TOP_prompt]);
        json_member_real(out, "generation_tokens_per_second", f.per_s[TOP_generation]);
        json_member_real(out, "requests_per_second", f.per_s[TOP_answers]);
        json_member_real(out, "prefix_cache_hit_rate", f.hit_rate);
        json_member_real(out, "spec_decode_acceptance_rate", f.accept_rate);
        json_member_real(out, "model_flops_utilization", f.now->v[TOP_mfu]);
        json_member_real(out, "memory_bandwidth_utilization", f.now->v[TOP_mbu]);
        for (int i = 0; i < TOP_TIMES; i++) json_times(out, times[i], &f.recent[i]);
    }
    buf_add_text(out, "}\n");
}
