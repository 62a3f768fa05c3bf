/* talk.c - quoth run at a terminal: messages and commands.
 *
 * A line that begins with / is a command, and every other line is a message to the model. Each
 * message is completed as a separate prompt if there is no chat template. The prompt, the output of
 * commands and reports are written to standard error. Standard output therefore contains only the
 * answers.
 *
 *    line_read --"/word arg"--> command --> verbs[].run --> dialog_...
 *              --any other----> send_message --> dialog_send --> view (view.c), report
 *
 * A failed command or answer does not change the conversation (dialog.c). */
#include "answer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A chat at the terminal. dialog and line are borrowed from and owned by talk(). */
struct talk {
    struct dialog *dialog;
    struct line *line;
    struct arena values; /* values of /set, borrowed by the options */
    bool quiet, leaving;
    bool editing; /* true if the next message replaces the last message */
};

/* ---- commands ---- */

/* columns of the texts of /help and of the values of /set */
enum { HELP_COLUMN = 27, VALUE_COLUMN = 31 };

/* A command. help: NULL for a second name of a command. Rows of second names are last.
 * needs_template: the command concerns a conversation. run: arg is the text after the name, without
 * blanks around it. The function may modify it. */
struct verb {
    const char *name, *arg, *help; /* static */
    bool needs_template;
    int (*run)(struct talk *t, char *arg, struct err *e);
};

static int do_help(struct talk *t, char *arg, struct err *e);

/* Show the system prompt without TEXT; "" removes it. Each function do_ is a verb.run. */
static int do_system(struct talk *t, char *arg, struct err *e)
{
    struct dialog *d = t->dialog;
    if (!*arg) {
        view_note(0, "%s\n",
                  d->system ? d->system : "No system prompt is set. /system TEXT sets one.");
        return 0;
    }
    int rc = dialog_system(d, strcmp(arg, "\"\"") == 0 ? "" : arg, e);
    if (rc == 0) view_note(0, "The system prompt is %s.\n", d->system ? "set" : "gone");
    return rc;
}

/* Begin a new conversation with the current system prompt. */
static int do_clear(struct talk *t, char *arg, struct err *e)
{
    (void)arg, (void)e;
    dialog_clear(t->dialog);
    view_note(0, "A new conversation%s.\n",
              t->dialog->system ? ", with the same system prompt" : "");
    return 0;
}

/* Expand ~/x to $HOME/x. */
static int home_path(struct buf *b, const char *path, struct err *e)
{
    const char *home = getenv("HOME");
    bool at_home = path[0] == '~' && path[1] == '/' && home;
    if (!*path) return err_set(e, ERR_ARG, "expected a file's name, got none");
    if (at_home) buf_add_text(b, home);
    buf_add_text(b, path + at_home);
    return b->failed ? err_memory(e, "a path", strlen(path)) : 0;
}

/* Write the conversation as OpenAI's messages, so that other programs can read it. */
static int do_save(struct talk *t, char *arg, struct err *e)
{
    struct buf path = {0};
    int rc = home_path(&path, arg, e);
    if (rc == 0) rc = dialog_save(t->dialog, path.data, e);
    if (rc == 0) view_note(0, "Saved to %s.\n", path.data);
    buf_deinit(&path);
    return rc;
}

/* Replace the conversation by that of a file. quoth template reads the same form. */
static int do_load(struct talk *t, char *arg, struct err *e)
{
    struct buf path = {0};
    size_t n = 0;
    int rc = home_path(&path, arg, e);
    if (rc == 0) rc = dialog_load(t->dialog, path.data, &n, e);
    if (rc == 0) view_note(0, "Loaded %zu message%s from %s.\n", n, n == 1 ? "" : "s", path.data);
    buf_deinit(&path);
    return rc;
}

/* Return the next word of *text, and advance *text past it. */
static char *next_word(char **text)
{
    char *word = *text;
    while (**text && !isspace((unsigned char)**text)) (*text)++;
    if (**text) *(*text)++ = 0;
    while (isspace((unsigned char)**text)) (*text)++;
    return word;
}

/* Print the current options, through memory: view_note wraps the lines, and needs the whole
 * text. */
static int show_values(const struct session *s, struct err *e)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (!to) return err_memory(e, "a list of options", 0);
    sample_show(s, to);
    const bool whole = fclose(to) == 0;
    if (whole) view_note(VALUE_COLUMN, "%s", text);
    free(text);
    return whole ? 0 : err_memory(e, "a list of options", n);
}

/* Set an option. Its value is copied, because the option borrows the copy until the chat ends. */
static int do_set(struct talk *t, char *arg, struct err *e)
{
    if (!*arg) return show_values(t->dialog->s, e);
    char *name = next_word(&arg), *value = *arg ? arena_text(&t->values, arg, strlen(arg)) : NULL;
    while (*name == '-') name++;
    if (*arg && !value) return err_memory(e, "a value", strlen(arg));
    int rc = options_set(answer_options, name, value, e);
    return rc == ERR_MISSING ? err_set(e, ERR_ARG, "option %s not found; available: see /set", name)
                             : rc;
}

/* Set the template's variable for thinking. A template without the variable only gets a note. */
static int do_think(struct talk *t, char *arg, struct err *e)
{
    bool on = strcmp(arg, "on") == 0;
    if (!on && strcmp(arg, "off") != 0)
        return err_set(e, ERR_ARG, "expected on or off, got \"%.60s\"", arg);
    int rc = dialog_think(t->dialog, on, e);
    if (rc == 0 && !template_caps(t->dialog->chat.t)->reasoning)
        view_note(0,
                  "This model's template has no variable for thinking and ignores the setting.\n");
    return rc;
}

static int do_regenerate(struct talk *t, char *arg, struct err *e);

/* Remove the last message of the user and all messages after it. */
static int do_undo(struct talk *t, char *arg, struct err *e)
{
    (void)arg;
    int rc = dialog_undo(t->dialog, NULL, false, e);
    if (rc == 0) view_note(0, "Your last message and its answer were removed.\n");
    return rc;
}

/* Edit the last message. The old message and its answer remain until the new message is sent, so
 * Ctrl-C leaves the conversation unchanged. */
static int do_edit(struct talk *t, char *arg, struct err *e)
{
    (void)arg;
    struct buf text = {0};
    int rc = dialog_undo(t->dialog, &text, true, e);
    if (rc == 0) rc = line_begin_with(t->line, text.data ? text.data : "", e);
    t->editing = rc == 0;
    buf_deinit(&text);
    return rc;
}

/* End the chat after this command. */
static int do_quit(struct talk *t, char *arg, struct err *e)
{
    (void)arg, (void)e;
    t->leaving = true;
    return 0;
}

/* The commands, in the order of /help. Some of the names are those of Ollama and llama.cpp. */
static const struct verb verbs[] = {
    {"help", "", "this list", false, do_help},
    {"system", "TEXT", "set the system prompt (\"\": none; without TEXT: show it)", true,
     do_system},
    {"clear", "", "begin a new conversation", true, do_clear},
    {"regenerate", "", "generate another answer to the last message", true, do_regenerate},
    {"edit", "", "change the last message and send it again", true, do_edit},
    {"undo", "", "remove the last message and its answer", true, do_undo},
    {"save", "FILE", "write the conversation as JSON messages", true, do_save},
    {"load", "FILE", "continue a saved conversation", true, do_load},
    {"set", "NAME VALUE", "change a sampling option (without NAME: show the current values)", false,
     do_set},
    {"think", "on|off", "enable the model's thinking", true, do_think},
    {"quit", "", "quit, like Ctrl-D", false, do_quit},
    {"exit", "", NULL, false, do_quit},
    {"bye", "", NULL, false, do_quit},
};

enum { N_VERB = sizeof verbs / sizeof *verbs };

/* Print the table of commands, which is defined after this declaration. */
static int do_help(struct talk *t, char *arg, struct err *e)
{
    (void)t, (void)arg, (void)e;
    for (int i = 0; i < N_VERB && verbs[i].help; i++)
        view_note(HELP_COLUMN, "  /%-12s%-12s%s\n", verbs[i].name, verbs[i].arg, verbs[i].help);
    view_note(0, "A line that ends in \\ continues in the next; \"\"\" opens and closes a block of "
                 "lines.\n"
                 "Ctrl-C stops an answer, Tab completes a command. A message that begins with / "
                 "needs a blank before it.\n");
    return 0;
}

/* Set *v to the command with the name. ERR_ARG with a suggestion if there is no command with this
 * name. */
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

/* Return the i-th completion for Tab: commands, then the names of /set and the values of /think. */
static const char *completion(int i)
{
    static char text[80];
    static const char *const other[] = {"/think on", "/think off"};
    if (i < N_VERB) {
        snprintf(text, sizeof text, "/%s%s", verbs[i].name, *verbs[i].arg ? " " : "");
        return text;
    }
    i -= N_VERB;
    if (i < 2) return other[i];
    const char *name = option_name(answer_options, i - 2);
    if (name) snprintf(text, sizeof text, "/set %s ", name);
    return name ? text : NULL;
}

/* Run a command. An error is printed, and the chat continues. */
static void command(struct talk *t, char *text)
{
    struct err e = {0};
    const struct verb *v;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) text[--n] = 0;
    char *name = next_word(&text);
    int rc = find_verb(&v, name, &e);
    if (rc == 0 && v->needs_template && !t->dialog->chat.t) {
        char missing[CHAT_MISSING_BYTES];
        chat_missing(missing, t->dialog->s->checkpoint);
        rc = err_set(&e, ERR_ARG, "%s", missing);
    }
    if (rc == 0) rc = v->run(t, text, &e);
    if (rc != 0) view_note(0, "/%s: %s\n", name, e.text);
}

/* ---- messages ---- */

/* Answer a message. message NULL: regenerate the last answer. */
static void send_message(struct talk *t, const struct buf *message)
{
    struct answer a = {0};
    struct err e = {0};
    bool instead = t->editing;
    t->editing = false;
    int rc = instead ? dialog_undo(t->dialog, NULL, false, &e) : 0;
    if (rc == 0)
        rc = message ? dialog_send(t->dialog, "user", message->data, message->n, &a, &e)
                     : dialog_again(t->dialog, &a, &e);
    if (rc == 0 && !isatty(STDOUT_FILENO) && !t->dialog->as_json) putchar('\n');
    fflush(stdout);
    /* ERR_LIMIT: the conversation, or the message without a template, is longer than the context */
    if (rc != 0)
        view_note(
            0, "%s%s%s\n", e.text, rc == ERR_LIMIT && e.text[strlen(e.text) - 1] != '.' ? "." : "",
            rc != ERR_LIMIT     ? ""
            : t->dialog->chat.t ? " /clear begins a new conversation"
                                : " Each message is completed separately; send a shorter message");
    if (rc == 0 && a.reply.finish == FINISH_ABORT)
        view_note(0, a.text.n  ? "[stopped]\n"
                     : message ? "[stopped before the answer began; your message was removed]\n"
                               : "[stopped before the answer began; the old answer stays]\n");
    if (rc == 0 && !t->quiet) answer_report(&a, t->dialog->s, t->dialog->chat.t != NULL);
    answer_deinit(&a);
}

/* Regenerate the last answer. With keep, dialog_undo only checks that there is a message. */
static int do_regenerate(struct talk *t, char *arg, struct err *e)
{
    (void)arg;
    int rc = dialog_undo(t->dialog, NULL, true, e);
    if (rc == 0) send_message(t, NULL);
    return rc;
}

/* Return true if a line is a command. A pasted text of several lines that begins with a slash, such
 * as a path list, is a message. */
static bool is_command(const struct buf *m)
{
    return m->data[0] == '/' && !memchr(m->data, '\n', m->n);
}

/* Print the first line of the chat, to standard error. */
static void print_banner(const struct dialog *d)
{
    view_note(0, "%s. %s /help lists commands, Ctrl-C stops an answer, Ctrl-D ends the chat.\n",
              model_info(d->s->model)->name,
              d->chat.t ? "Talk to it."
                        : "Without a chat template, each message is completed separately.");
}

/* Return the exit status. The status is also 0 after failed answers, because their errors were
 * printed. */
int talk(struct dialog *d, bool quiet)
{
    struct talk t = {.dialog = d, .quiet = quiet};
    struct buf message = {0};
    struct err e = {0};
    if (line_open(&t.line, &e) != 0) return fail("run", &e);
    line_complete(t.line, completion);
    print_banner(d);
    while (!t.leaving) {
        enum line_result r = line_read(t.line, &message);
        if (r == LINE_END) break;
        if (r == LINE_INTERRUPTED) view_note(0, "Ctrl-D or /quit leaves.\n");
        if (r != LINE_MESSAGE || message.n == 0) {
            if (t.editing) view_note(0, "Nothing was changed.\n");
            t.editing = false;
            continue;
        }
        if (is_command(&message))
            command(&t, message.data + 1);
        else
            send_message(&t, &message);
    }
    line_close(t.line);
    buf_deinit(&message);
    arena_deinit(&t.values);
    return 0;
}
