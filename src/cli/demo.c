/* demo.c - quoth demo: half a minute with the packed model; `./run` without arguments runs it.
 *
 * Six scenes use the functions of quoth run: a raw completion, and five answers through the chat
 * template. The text has pauses for reading on a terminal, but not on other outputs. */
#include "answer.h"

#include "base/os.h"

#include <string.h>
#include <unistd.h>

static const struct option options[] = {
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

struct scene {
    const char *title; /* static */
    const char *tools; /* static; JSON; NULL if none */
    const char *raw;   /* text that the model continues, static; NULL: a conversation */
    /* turns of the conversation, static; a turn that begins with '{' is a tool's result */
    const char *turn[5];
};

static const char weather_tool[] = "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\","
                                   "\"description\":\"Get the weather in a city.\","
                                   "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{"
                                   "\"type\":\"string\"}},\"required\":[\"city\"]}}}]";

static const struct scene scenes[] = {
    {.title = "A story, continued from four words", .raw = "Once upon a time, there"},
    {.title = "A chat that remembers",
     .turn = {"My favorite month is April.", "Do you remember my favorite month?"}},
    {.title = "A sum", .turn = {"What is 47 + 38?"}},
    {.title = "A tool: the call, its result, the answer",
     .tools = weather_tool,
     .turn = {"What is the weather in Paris?", "{\"weather\": \"sunny\", \"temperature\": 21}"}},
    {.title = "A JSON form, filled in from a sentence",
     .turn = {"Extract the fields name, age, city and job as JSON.\n\nMy name is Oliver Field. I "
              "am 42 years old. I live in "
              "Nairobi, where I work as a farmer."}},
};
enum { N_SCENE = sizeof scenes / sizeof scenes[0] };

/* Pauses on a terminal: after each piece of text, and before each answer; microseconds. */
enum { READING_US = 90000, THINKING_US = 1200000 };

/* Sums over all answers, for the report at the end. */
struct demo_totals {
    int n_prompt, n_output;
    int64_t prefill_us, decode_us;
};

/* Add the usage of an answer. Cached tokens of the prompt are not counted, because they took no
 * time. */
static void add_usage(struct demo_totals *t, const struct usage *u)
{
    t->n_prompt += u->n_prompt - u->n_cached;
    t->n_output += u->n_output;
    t->prefill_us += u->prefill_us;
    t->decode_us += u->decode_us;
}

/* Return true if the output is a terminal. The demo has no flag for colours. */
static bool colour(void)
{
    return isatty(STDOUT_FILENO);
}

/* Print the title of a scene. */
static void print_title(const char *title)
{
    printf(colour() ? "\n\033[1m%s\033[0m\n" : "\n%s\n", title);
}

/* Print a user's message or a tool's result with a mark. The answer follows on separate lines. */
static void print_turn(const char *text)
{
    const char *label = text[0] == '{' ? "tool: " : "> ";
    printf(colour() ? "\033[36m%s%s\033[0m\n" : "%s%s\n", label, text);
    fflush(stdout);
    if (view_pace_us) usleep(THINKING_US);
}

/* Send a text as the next turn and print the answer. A raw scene prints the text itself, because
 * the answer continues it. */
static int send_message(struct dialog *d, const char *text, struct demo_totals *t, struct err *e)
{
    struct answer a = {0};
    const char *role = text[0] == '{' ? "tool" : "user";
    if (d->chat.t) print_turn(text);
    if (!d->chat.t) printf("%s", text);
    int rc = dialog_send(d, role, text, strlen(text), &a, e);
    if (rc == 0) add_usage(t, &a.reply.usage);
    if (rc == 0 && a.reply.finish == FINISH_ABORT) rc = err_set(e, ERR_BUSY, "stopped by Ctrl-C");
    if (rc == 0 && !isatty(STDOUT_FILENO)) /* at a terminal, the view ends its last line */
        printf("\n");
    answer_deinit(&a);
    return rc;
}

/* Play a scene. A raw scene completes a text; each other scene is a separate conversation. */
static int play_scene(struct session *s, const struct scene *scene, struct demo_totals *t,
                      struct err *e)
{
    struct dialog d = {0};
    /* a story needs variety; the answers of other scenes are equal in each run */
    int rc = options_set(answer_options, "temperature", scene->raw ? "0.7" : "0", e);
    if (rc == 0) rc = dialog_open(&d, s, scene->raw != NULL, e);
    if (rc == 0 && !scene->raw && !d.chat.t)
        rc = err_set(e, ERR_UNSUPPORTED, "the model has no chat template, which the demo needs");
    if (rc == 0 && scene->tools) rc = dialog_tools(&d, scene->tools, e);
    print_title(scene->title);
    if (rc == 0 && scene->raw) rc = send_message(&d, scene->raw, t, e);
    for (int i = 0; rc == 0 && i < 5 && scene->turn[i]; i++)
        rc = send_message(&d, scene->turn[i], t, e);
    dialog_close(&d);
    return rc;
}

/* Return n per second; 0 for a time that is too short to measure. */
static double rate(int n, int64_t us)
{
    return us > 0 ? (double)n * 1e6 / (double)us : 0;
}

/* Print the size of the model and the time of its start. */
static void print_opening(const struct session *s)
{
    const struct model_info *i = model_info(s->model);
    printf("quoth %s: %s, %.1f million parameters, %.1f MB, ready after %.0f ms. No network, no "
           "other files.\n",
           QUOTH_VERSION, i->name, (double)i->n_param * 1e-6, (double)i->weight_bytes * 1e-6,
           (double)s->open_us * 1e-3);
}

/* Print the rates of all answers together, and the next commands to try. */
static void print_report(const struct session *s, const struct demo_totals *t)
{
    print_title("Speed");
    printf("%d prompt tokens at %.0f/s, %d generated at %.0f/s (%s)\n", t->n_prompt,
           rate(t->n_prompt, t->prefill_us), t->n_output, rate(t->n_output, t->decode_us),
           s->backend->description);
    printf("\nTalk to it: ./run run      Your own model: ./run run MODEL.gguf      More: ./run "
           "help\n");
}

/* Play all scenes. A fixed seed gives equal answers in each run. */
static int demo(struct session *s, struct err *e)
{
    struct demo_totals t = {0};
    int rc = options_set(answer_options, "seed", "11", e);
    if (rc == 0) rc = options_set(answer_options, "max-tokens", "220", e);
    print_opening(s);
    view_pace_us = isatty(STDOUT_FILENO) ? READING_US : 0;
    for (int i = 0; rc == 0 && i < N_SCENE; i++) rc = play_scene(s, &scenes[i], &t, e);
    if (rc == 0) print_report(s, &t);
    return rc;
}

/* Run the command. Ctrl-C stops the answer and ends the demo. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct session s = {0};
    const char *model = n_arg ? arg[0] : session_bundled(NULL, &e);
    int rc = model ? session_open(&s, model, 1, 64, 0, &e) : ERR_MISSING;
    if (rc == 0) rc = session_engine(&s, &e);
    answer_catch_interrupt();
    if (rc == 0) rc = demo(&s, &e);
    session_close(&s);
    return rc ? fail("demo", &e) : 0;
}

const struct command command_demo = {
    .name = "demo",
    .summary = "show the packed model for half a minute: a story, a chat, a sum, a tool, a form",
    .usage = "[MODEL] [OPTIONS]",
    .options = options,
    .arg_max = 1,
    .run = run,
};
