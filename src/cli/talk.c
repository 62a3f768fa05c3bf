/* talk.c - quoth run at a terminal: messages and commands in turn.
 *
 * A line that begins with / is a command, everything else goes to the model; without a chat
 * template each message is a prompt that is completed by itself. The prompt, commands' answers and
 * reports go to the terminal's standard error, so that standard output holds the answers alone. */
#include "answer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct talk {
    struct dialog *dialog;
    struct line *line;
    struct arena values; /* of /set, which options borrow */
    bool quiet, leaving;
};

/* ---- commands ---- */

struct verb {
    const char *name, *arg, *help;
    bool needs_template;
    int (*run)(struct talk *t, char *arg, struct err *e);
};

static int do_help(struct talk *t, char *arg, struct err *e);

static int do_system(struct talk *t, char *arg, struct err *e)
{
    struct dialog *d = t->dialog;
    if (!*arg) {
        fprintf(stderr, "%s\n",
                d->system ? d->system : "There is no system prompt. /system TEXT sets one.");
        return 0;
    }
    int rc = dialog_system(d, strcmp(arg, "\"\"") == 0 ? "" : arg, e);
    if (rc == 0) fprintf(stderr, "The system prompt is %s.\n", d->system ? "set" : "gone");
    return rc;
}

static int do_clear(struct talk *t, char *arg, struct err *e)
{
    (void)arg, (void)e;
    dialog_clear(t->dialog);
    fprintf(stderr, "A new conversation%s.\n",
            t->dialog->system ? ", with the same system prompt" : "");
    return 0;
}

/* ~/x -> $HOME/x */
static int home_path(struct buf *b, const char *path, struct err *e)
{
    const char *home = getenv("HOME");
    bool at_home = path[0] == '~' && path[1] == '/' && home;
    if (!*path) return err_set(e, ERR_ARG, "which file?");
    if (at_home) buf_add_text(b, home);
    buf_add_text(b, path + at_home);
    return b->failed ? err_memory(e, "a path", strlen(path)) : 0;
}

static int do_save(struct talk *t, char *arg, struct err *e)
{
    struct buf path = {0};
    int rc = home_path(&path, arg, e);
    if (rc == 0) rc = dialog_save(t->dialog, path.data, e);
    if (rc == 0) fprintf(stderr, "Saved to %s.\n", path.data);
    buf_deinit(&path);
    return rc;
}

static int do_load(struct talk *t, char *arg, struct err *e)
{
    struct buf path = {0};
    size_t n = 0;
    int rc = home_path(&path, arg, e);
    if (rc == 0) rc = dialog_load(t->dialog, path.data, &n, e);
    if (rc == 0)
        fprintf(stderr, "Loaded %zu message%s from %s.\n", n, n == 1 ? "" : "s", path.data);
    buf_deinit(&path);
    return rc;
}

/* The next word of *text, which moves behind it. */
static char *next_word(char **text)
{
    char *word = *text;
    while (**text && !isspace((unsigned char)**text)) (*text)++;
    if (**text) *(*text)++ = 0;
    while (isspace((unsigned char)**text)) (*text)++;
    return word;
}

static int do_set(struct talk *t, char *arg, struct err *e)
{
    if (!*arg) {
        options_show(answer_options, stderr);
        return 0;
    }
    char *name = next_word(&arg), *value = *arg ? arena_text(&t->values, arg, strlen(arg)) : NULL;
    while (*name == '-') name++;
    if (*arg && !value) return err_memory(e, "a value", strlen(arg));
    return options_set(answer_options, name, value, e);
}

static int do_think(struct talk *t, char *arg, struct err *e)
{
    bool on = strcmp(arg, "on") == 0;
    if (!on && strcmp(arg, "off") != 0) return err_set(e, ERR_ARG, "on or off?");
    int rc = dialog_think(t->dialog, on, e);
    if (rc == 0 && !template_caps(t->dialog->chat.t)->reasoning)
        fprintf(stderr, "This model's template knows no thinking; it will not heed that.\n");
    return rc;
}

static int do_quit(struct talk *t, char *arg, struct err *e)
{
    (void)arg, (void)e;
    t->leaving = true;
    return 0;
}

static const struct verb verbs[] = {
    {"help", "", "this list", false, do_help},
    {"system", "TEXT", "set the system prompt (\"\": none; without TEXT: show it)", true,
     do_system},
    {"clear", "", "begin a new conversation", true, do_clear},
    {"save", "FILE", "write the conversation as JSON messages", true, do_save},
    {"load", "FILE", "go on with a saved conversation", true, do_load},
    {"set", "NAME VALUE", "change a sampling option (without: show them all)", false, do_set},
    {"think", "on|off", "let the model think before it answers", true, do_think},
    {"quit", "", "leave (so does Ctrl-D)", false, do_quit},
};

enum { N_VERB = sizeof verbs / sizeof *verbs };

static int do_help(struct talk *t, char *arg, struct err *e)
{
    (void)t, (void)arg, (void)e;
    for (int i = 0; i < N_VERB; i++)
        fprintf(stderr, "  /%-7s%-12s%s\n", verbs[i].name, verbs[i].arg, verbs[i].help);
    fprintf(
        stderr,
        "A line that ends in \\ goes on in the next; \"\"\" opens and closes a block of lines.\n"
        "Ctrl-C stops an answer. A message that begins with / needs a blank before it.\n");
    return 0;
}

static int find_verb(const struct verb **v, const char *name, struct err *e)
{
    const char *names[N_VERB];
    for (int i = 0; i < N_VERB; i++) {
        names[i] = verbs[i].name;
        *v = &verbs[i];
        if (strcmp(name, names[i]) == 0) return 0;
    }
    const char *near = nearest_name(name, names, N_VERB);
    if (near) return err_set(e, ERR_ARG, "unknown command; did you mean /%s?", near);
    return err_set(e, ERR_ARG, "unknown command; /help lists them");
}

static void command(struct talk *t, char *text)
{
    struct err e = {0};
    const struct verb *v;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) text[--n] = 0;
    char *name = next_word(&text);
    int rc = find_verb(&v, name, &e);
    if (rc == 0 && v->needs_template && !t->dialog->chat.t)
        rc = err_set(
            &e, ERR_ARG,
            "there is no conversation without a chat template; --chat-template FILE gives one");
    if (rc == 0) rc = v->run(t, text, &e);
    if (rc != 0) fprintf(stderr, "/%s: %s\n", name, e.text);
}

/* ---- messages ---- */

static void say(struct talk *t, const struct buf *message)
{
    struct answer a = {0};
    struct err e = {0};
    int rc = dialog_say(t->dialog, "user", message->data, message->n, &a, &e);
    if (rc == 0 && !isatty(STDOUT_FILENO) && !t->dialog->as_json) putchar('\n');
    fflush(stdout);
    if (rc != 0)
        fprintf(stderr, "%s%s\n", e.text,
                rc == ERR_LIMIT ? ". /clear begins a new conversation" : "");
    if (rc == 0 && a.reply.finish == FINISH_ABORT)
        fprintf(stderr, a.text.n ? "[stopped]\n"
                                 : "[stopped before it began; your message is taken back]\n");
    if (rc == 0 && !t->quiet) answer_report(&a, t->dialog->s);
    answer_deinit(&a);
}

static bool is_command(const struct buf *m)
{
    return m->data[0] == '/' && !memchr(m->data, '\n', m->n);
}

static void greet(const struct dialog *d)
{
    fprintf(stderr, "%s. %s /help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.\n",
            model_info(d->s->model)->name,
            d->chat.t ? "Talk to it." : "Without a chat template, each message is completed by itself.");
}

int talk(struct dialog *d, bool quiet)
{
    struct talk t = {.dialog = d, .quiet = quiet};
    struct buf message = {0};
    struct err e = {0};
    if (line_open(&t.line, &e) != 0) return fail("run", &e);
    greet(d);
    while (!t.leaving) {
        enum line_result r = line_read(t.line, &message);
        if (r == LINE_END) break;
        if (r == LINE_INTERRUPTED) fprintf(stderr, "Ctrl-D or /quit leaves.\n");
        if (r != LINE_MESSAGE || message.n == 0) continue;
        if (is_command(&message))
            command(&t, message.data + 1);
        else
            say(&t, &message);
    }
    line_close(t.line);
    buf_deinit(&message);
    arena_deinit(&t.values);
    return 0;
}
