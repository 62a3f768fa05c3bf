/* pull.c - quoth pull: download a model by its name, and print its path. A terminal shows the rate
 * and the remaining time. Ctrl-C leaves a partial file, which the next pull continues.
 *
 * The progress and the questions of this file are also used by other commands that download a
 * missing model (model_name.c). Standard output has only the path, so that scripts can use it:
 * quoth run "$(quoth pull NAME)". */
#include "pull.h"
#include "cli.h"

#include "base/json_out.h"
#include "base/os.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { N_CONNECTION = 8 };

static int64_t n_connection = N_CONNECTION;
static bool as_json;

static const struct option options[] = {
    INT_OPTION("connections", "N", &n_connection, 1, 64,
               "parallel connections for a file (default 8)"),
    FLAG_OPTION("json", &as_json, "print a JSON object: name, path, size, commit"),
    OPTIONS_END,
};

/* ---- the progress ---- */

/* State of a pull's progress. */
struct pull_progress {
    int64_t begin_us;
    uint64_t n_begin; /* bytes that were on the disk at the first report */
    bool began;
};

/* Show the progress (hub_pull_options.progress). The rate counts only bytes of this run, because an
 * interrupted pull has left a part of the file. */
static void show_progress(void *ctx, const struct hub_progress *p)
{
    struct pull_progress *s = ctx;
    const uint64_t done = p->done, n = p->n_byte;
    char what[48];
    if (!s->began) *s = (struct pull_progress){time_us(), done, true};
    const double seconds = (double)(time_us() - s->begin_us) * 1e-6;
    snprintf(what, sizeof what, "MB %.36s", path_name(p->file));
    /* equals the number of megabytes only at the end */
    const uint64_t all = n / 1000000 + 1, now = done >= n ? all : done / 1000000;
    progress_rate(what, now, all, seconds > 0 ? (double)(done - s->n_begin) * 1e-6 / seconds : 0);
}

/* Show a note of the download (hub_pull_options.note). */
static void show_note(void *ctx, const char *text)
{
    (void)ctx;
    progress_note(text);
}

int pull_shown(struct hub_model *out, const struct hub_name *n, int n_conn, struct err *e)
{
    struct pull_progress s = {0};
    const struct hub_pull_options o = {
        .n_connection = n_conn, .progress = show_progress, .note = show_note, .ctx = &s};
    int rc = hub_pull(out, n, &o, e);
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    return rc;
}

/* ---- sizes and questions, also for other commands ---- */

const char *size_text(char out[static 24], uint64_t n_byte)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    double x = (double)n_byte;
    int i = 0;
    for (; x >= 999.5 && i < 4; i++) x /= 1000;
    snprintf(out, 24, i && x < 9.95 ? "%.1f %s" : "%.0f %s", x, unit[i]);
    return out;
}

bool confirmed(const char *question, bool yes_default)
{
    char line[16] = "";
    /* a script must not wait, because no user can answer */
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return false;
    fprintf(stderr, "%s [%s] ", question, yes_default ? "Y/n" : "y/N");
    if (!fgets(line, sizeof line, stdin)) return false;
    line[strcspn(line, "\r\n")] = 0;
    return *line ? strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0 : yes_default;
}

/* ---- the command ---- */

/* Print the path of the model, or the object of --json. */
static int print_model(const struct hub_model *m, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    char name[HUB_NAME_BYTES];
    hub_name_text(name, &m->name);
    if (as_json) {
        out_object(&o, NULL);
        out_word(&o, "name", name);
        out_word(&o, "path", m->path);
        out_int(&o, "size", (int64_t)m->n_byte);
        out_word(&o, "commit", m->commit);
        out_end(&o);
    } else {
        buf_add_text(&b, m->path);
    }
    buf_add_char(&b, '\n');
    return print_out(&b, e);
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct hub_name n;
    struct hub_model m = {0};
    if (n_arg != 1) return fprintf(stderr, "quoth pull: usage: quoth pull NAME\n"), 2;
    if (hub_name_read(&n, arg[0], &e) != 0) return fprintf(stderr, "quoth pull: %s\n", e.text), 2;
    int rc = pull_shown(&m, &n, (int)n_connection, &e);
    if (rc == 0) rc = print_model(&m, &e);
    hub_model_deinit(&m);
    return rc ? fail("pull", &e) : 0;
}

const struct command command_pull = {
    .name = "pull",
    .summary = "download a model from Hugging Face or Ollama's registry",
    .usage = "NAME [OPTIONS]",
    .detail =
        "NAME is hf:ORG/REPO[:QUANT][@REVISION] or ollama:[[HOST/]NAMESPACE/]NAME[:TAG]. Files of "
        "hf: are in the cache of huggingface_hub (HF_HUB_CACHE, HF_HOME), files of ollama: in "
        "Ollama's store (OLLAMA_MODELS), so these programs can also use them. In a repository with "
        "GGUF files, QUANT selects the number format (default: Q4_K_M, else Q4_K_S, Q4_0, Q5_K_M, "
        "Q6_K, Q8_0, F16, BF16 or F32). Without QUANT a folder of safetensors has precedence. The "
        "command prints the path of the model. An interrupted pull resumes. HF_TOKEN, HF_ENDPOINT "
        "and HF_HUB_OFFLINE have their usual meaning.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
