/* run.c - quoth run: complete a prompt, or talk to a model at the terminal. */
#include "session.h"

#include "base/json.h"
#include "base/os.h"

#include <editline/readline.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t max_tokens = -1;
static bool raw, as_json, quiet;

static const struct option options[] = {
    {.kind = OPTION_INT, .name = "max-tokens", .letter = 'n', .arg = "N", .target = &max_tokens, .lo = -1, .hi = 1 << 30,
     .help = "tokens to generate at most (-1: until the model ends or the context is full)"},
    {.kind = OPTION_FLAG, .name = "raw", .target = &raw, .help = "complete the prompt as it stands, without a chat template"},
    {.kind = OPTION_FLAG, .name = "json", .target = &as_json, .help = "print one JSON object with text, tokens, timings"},
    {.kind = OPTION_FLAG, .name = "quiet", .letter = 'q', .target = &quiet, .help = "no speed report"},
    {.kind = OPTION_GROUP, .include = sample_options},
    {.kind = OPTION_GROUP, .include = model_options},
    {.kind = OPTION_END},
};

/* ---- one answer -------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

struct answer {
    struct buf text;
    struct ids ids;
    struct reply reply;
};

static void print_new(const struct answer *a, size_t from)
{
    if (as_json) return;
    fwrite(a->text.data + from, 1, a->text.n - from, stdout);
    fflush(stdout);
}

/* Read events until the answer is complete; Ctrl-C cancels the request, which then ends by itself. */
static void follow(struct session *s, struct queue *q, struct answer *a)
{
    struct event ev;
    bool done = false, cancelled = false;
    while (!done) {
        bool got = queue_pop(q, &ev, 100000);
        if (interrupted && !cancelled) {
            engine_cancel(s->engine, a->reply.request_id);
            cancelled = true;
        }
        if (!got) continue;
        size_t from = a->text.n;
        if (ev.kind == EVENT_TOKEN && !a->reply.matched) (void)!vec_push(&a->ids, ev.token);
        done = reply_event(&a->reply, &ev, &a->text);
        if (a->text.n > from) print_new(a, from);
    }
}

static int generate(struct session *s, const char *prompt, size_t n, struct answer *a, struct err *e)
{
    struct request *r = request_open(e);
    struct queue *q = engine_reply_queue();
    struct arena arena = {0};
    int rc = r && q ? 0 : err_memory(e, "a request", sizeof *r);
    if (rc == 0) rc = tokenizer_encode(s->tokenizer, prompt, n, ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL, &r->prompt, e);
    if (rc == 0) rc = sample_params_read(&r->params, s, &r->arena, e);
    if (rc == 0) {
        struct reply_options o = reply_options_read(s, &arena);
        r->max_tokens = max_tokens < 0 ? model_info(s->model)->context_max : (int)max_tokens;
        r->reply = q;
        rc = reply_open(&a->reply, s->engine, r->id, &o, e);
    }
    if (rc == 0) rc = engine_submit(s->engine, r, e);
    if (rc == 0)
        follow(s, q, a);
    else
        request_close(r);
    if (rc == 0 && a->reply.finish == FINISH_ERROR) rc = err_set(e, ERR_FORMAT, "the model gave no token that may be picked");
    arena_deinit(&arena);
    queue_close(q);
    return rc;
}

static void answer_deinit(struct answer *a)
{
    reply_close(&a->reply);
    buf_deinit(&a->text);
    vec_deinit(&a->ids);
}

/* ---- reports ----------------------------------------------------------------------------------------- */

static double rate(int n, int64_t us)
{
    return us > 0 ? (double)n * 1e6 / (double)us : 0;
}

static void report(const struct usage *u)
{
    if (quiet || as_json) return;
    int n_decode = u->n_output > 1 ? u->n_output - 1 : 0;
    fprintf(stderr, "\n%d prompt tokens, %.1f tokens/s; %d generated, %.1f tokens/s; first token after %.0f ms\n", u->n_prompt,
            rate(u->n_prompt, u->prefill_us), u->n_output, rate(n_decode, u->decode_us),
            (double)(u->queue_us + u->prefill_us) * 1e-3);
}

static void print_json(const struct answer *a)
{
    const struct usage *u = &a->reply.usage;
    struct buf b = {0};
    buf_add_text(&b, "{\"text\":");
    json_put_text(&b, a->text.data ? a->text.data : "", a->text.n);
    buf_add_text(&b, ",\"token_ids\":[");
    for (size_t i = 0; i < a->ids.n; i++) buf_addf(&b, "%s%d", i ? "," : "", a->ids.v[i]);
    buf_addf(&b, "],\"finish_reason\":\"%s\",\"prompt_tokens\":%d,\"completion_tokens\":%d,\"time_to_first_token_ms\":",
             finish_name(a->reply.finish), u->n_prompt, u->n_output);
    json_put_real(&b, (double)(u->queue_us + u->prefill_us) * 1e-3);
    buf_add_text(&b, ",\"prompt_tokens_per_second\":");
    json_put_real(&b, rate(u->n_prompt, u->prefill_us));
    buf_add_text(&b, ",\"tokens_per_second\":");
    json_put_real(&b, rate(u->n_output > 1 ? u->n_output - 1 : 0, u->decode_us));
    buf_add_text(&b, "}\n");
    if (!b.failed) fwrite(b.data, 1, b.n, stdout);
    buf_deinit(&b);
}

/* ---- one prompt, or a session ------------------------------------------------------------------------- */

static int run_once(struct session *s, const char *prompt, size_t n)
{
    struct answer a = {0};
    struct err e = {0};
    int rc = generate(s, prompt, n, &a, &e);
    if (rc == 0 && as_json) print_json(&a);
    if (rc == 0 && !as_json && !raw && isatty(STDOUT_FILENO)) printf("\n");
    if (rc == 0 && !raw) report(&a.reply.usage);
    answer_deinit(&a);
    return rc ? fail("run", &e) : 0;
}

static const char *history_path(void)
{
    static char path[1024];
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state)
        snprintf(path, sizeof path, "%s", state);
    else
        snprintf(path, sizeof path, "%s/.local/state", home ? home : "");
    mkdir(path, 0700);
    size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/quoth_history");
    return path;
}

static int run_interactive(struct session *s)
{
    using_history();
    read_history(history_path());
    fprintf(stderr, "%s. Each line is completed by itself; Ctrl-C stops an answer, Ctrl-D ends.\n", model_info(s->model)->name);
    int status = 0;
    for (char *line; (line = readline("> ")); free(line)) {
        if (!*line) continue;
        add_history(line);
        interrupted = 0;
        status = run_once(s, line, strlen(line));
        printf("\n");
    }
    write_history(history_path());
    return status;
}

static int run_stdin(struct session *s)
{
    struct buf text = {0};
    struct err e = {0};
    int rc = file_read(&text, "-", 64u << 20, &e);
    int status = rc ? fail("run", &e) : run_once(s, text.data, text.n);
    buf_deinit(&text);
    return status;
}

static bool is_model(const char *arg)
{
    return file_exists(arg) || dir_exists(arg);
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    if (n_arg == 0 || (n_arg == 1 && !is_model(arg[0]))) {
        err_set(&e, ERR_MISSING, "no model: this binary has none bundled, and %s%s%s is no model file or folder. "
                "Give one: quoth run MODEL.gguf \"your prompt\"", n_arg ? "\"" : "", n_arg ? arg[0] : "nothing", n_arg ? "\"" : "");
        return fail("run", &e);
    }
    struct session s;
    int rc = session_open(&s, arg[0], 1, 64, 0, &e);
    if (rc == 0) rc = session_engine(&s, &e);
    if (rc != 0) return session_close(&s), fail("run", &e);
    signal(SIGINT, on_interrupt);
    int status = n_arg == 2             ? run_once(&s, arg[1], strlen(arg[1]))
                 : isatty(STDIN_FILENO) ? run_interactive(&s)
                                        : run_stdin(&s);
    session_close(&s);
    return status;
}

const struct command command_run = {
    .name = "run",
    .summary = "complete a prompt, or talk to a model at the terminal",
    .usage = "[MODEL] [PROMPT] [OPTIONS]",
    .detail = "MODEL is a .gguf file, a Hugging Face folder or a llama2.c .bin file. Without PROMPT the prompt comes from standard "
              "input, or, at a terminal, line by line.",
    .options = options,
    .n_arg_max = 2,
    .run = run,
};
