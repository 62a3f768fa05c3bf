/* run.c - quoth run: answer one prompt (an argument, or standard input), or chat at the terminal.
 *
 * The prompt is a user's message if there is a chat template. With --raw, or without a template,
 * the prompt is completed unchanged. Standard output is then the completion, byte for byte. */
#include "answer.h"

#include "base/os.h"
#include "base/text.h"

#include <string.h>
#include <unistd.h>

enum { PROMPT_BYTES_MAX = 64 << 20 };

static bool raw, as_json, quiet;

static const struct option options[] = {
    FLAG_OPTION("raw", &raw, "complete the prompt unchanged, without a chat template"),
    FLAG_OPTION("json", &as_json, "print a JSON object with text, tokens and timings"),
    FLAG_OPTION("quiet", &quiet, "no speed report", .letter = 'q'),
    OPTIONS_OF(constraint_options),
    OPTIONS_OF(answer_options),
    OPTIONS_OF(chat_options),
    OPTIONS_OF(chat_parser_options),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

/* Answer one prompt. Return the exit status. Ctrl-C keeps the text so far, but the status is 1. */
static int run_once(struct dialog *d, const char *prompt, size_t n)
{
    if (n == 0 && !raw)
        return fprintf(stderr,
                       "quoth run: the prompt is empty; --raw generates without a prompt\n"),
               2;
    struct answer a = {0};
    struct err e = {0};
    answer_catch_interrupt();
    int rc = dialog_send(d, "user", prompt, n, &a, &e);
    bool stopped = rc == 0 && a.reply.finish == FINISH_ABORT;
    /* standard output has the answer only, standard error the report */
    if (rc == 0 && !quiet && !as_json) {
        fprintf(stderr, "\n");
        answer_report(&a, d->s, false);
    }
    answer_deinit(&a);
    if (stopped) err_set(&e, ERR_BUSY, "stopped by Ctrl-C");
    return rc || stopped ? fail("run", &e) : 0;
}

/* Answer the text of standard input, without the newline that editors add at the end of a file. */
static int run_stdin(struct dialog *d)
{
    struct buf text = {0};
    struct err e = {0};
    int rc = file_read(&text, "-", PROMPT_BYTES_MAX, &e);
    if (d->chat.t && text.n && text.data[text.n - 1] == '\n') text.n--;
    int status = rc ? fail("run", &e) : run_once(d, text.data ? text.data : "", text.n);
    buf_deinit(&text);
    return status;
}

/* Report a constraint that cannot be enforced, before the first message. */
static int check_constraint(const struct session *s)
{
    struct err e = {0};
    struct chat_parser_options parser;
    struct constraint *c;
    int rc = flags_constrain(&c, s, NULL, NULL, 0, &parser, &e);
    flags_close_constraint(c);
    return rc ? fail("run", &e) : 0;
}

/* Chat at the terminal. An interrupt ends the current answer only. */
static int run_talk(struct dialog *d)
{
    if (check_constraint(d->s) != 0) return 1;
    answer_catch_interrupt();
    return talk(d, quiet || as_json);
}

/* Chat, or answer a prompt. A chat needs a terminal for input and for output. Standard error is the
 * terminal for output if standard output is redirected. */
static int talk_or_answer(struct dialog *d, const char *prompt)
{
    bool screen = isatty(STDIN_FILENO) && (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO));
    if (prompt) return run_once(d, prompt, strlen(prompt));
    return screen ? run_talk(d) : run_stdin(d);
}

/* Return true if a word is a model (a model file, a URL, OWNER/NAME) and not a prompt. */
static bool looks_like_model(const char *text)
{
    static const char part[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (file_exists(text) || dir_exists(text)) return true;
    if (strpbrk(text, " \t\n")) return false;
    size_t n_owner = strspn(text, part);
    bool named = n_owner > 0 && text[n_owner] == '/' && text[n_owner + 1] &&
                 /* OWNER/NAME with exactly one slash */
                 text[n_owner + 1 + strspn(text + n_owner + 1, part)] == 0;
    bool hub = strncmp(text, "hf:", 3) == 0 || strncmp(text, "hf.co/", 6) == 0 ||
               strncmp(text, "huggingface.co/", 15) == 0;
    bool tagged = n_owner > 0 && text[n_owner] == ':' && text[n_owner + 1] && /* llama3.2:1b */
                  text[n_owner + 1 + strspn(text + n_owner + 1, part)] == 0;
    return named || hub || tagged || strstr(text, "://") || text_ends_with(text, ".gguf") ||
           text_ends_with(text, ".safetensors") || text_ends_with(text, "/");
}

/* Reject a model without logits before the first message. */
static int check_text(const struct session *s, struct err *e)
{
    if (!s->info->headless) return 0;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: %s generates no text; quoth serve answers /v1/embeddings, /rerank or "
                   "/classify with it",
                   s->info->name, s->info->encoder ? "an encoder" : "a model without logits");
}

/* Return a command whose name differs from the word by at most one edit; NULL if none. */
static const char *near_command(const char *word)
{
    const struct command *const *list = commands_all();
    for (; *list; list++) {
        const char *name = (*list)->name;
        size_t n = strlen(word), n_name = strlen(name), n_least = n < n_name ? n : n_name, i = 0,
               k = 0;
        while (i < n_least && word[i] == name[i]) i++;
        while (k < n_least - i && word[n - 1 - k] == name[n_name - 1 - k]) k++;
        if (i + k + 1 >= (n > n_name ? n : n_name)) return name;
    }
    return NULL;
}

/* Report that a single word is the prompt, because the user may have meant a model or a command. */
static void note_word(const struct session *s, const char *word)
{
    if (quiet || as_json || session_flags.shape || !*word || strpbrk(word, " \t\n")) return;
    const char *near = near_command(word);
    view_note(0, "using the bundled %s; \"%s\" is the prompt%s%s%s\n", model_info(s->model)->name,
              word, near ? "; did you mean quoth " : "", near ? near : "", near ? "?" : "");
}

/* Reject flags of conversations next to --raw, which have no effect on a raw prompt. */
static int check_raw(struct err *e)
{
    const char *flag = session_flags.system          ? "--system"
                       : session_flags.chat_template ? "--chat-template"
                                                     : NULL;
    return raw && flag ? err_set(e, ERR_ARG, "%s: must not come with --raw", flag) : 0;
}

/* Run with the arguments MODEL PROMPT, MODEL alone, PROMPT alone (for the bundled model), or no
 * argument. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct session s = {0};
    struct dialog d = {0};
    if (check_raw(&e) != 0 || constraint_check(&e) != 0)
        return fprintf(stderr, "quoth run: %s\n", e.text), 2;
    bool named = n_arg == 2 || (n_arg == 1 && looks_like_model(arg[0]));
    const char *prompt = n_arg > named ? arg[named] : NULL,
               *model = named ? arg[0] : session_bundled(prompt, &e);
    int rc = model ? session_open(&s, model, 1, 64, 0, &e) : ERR_MISSING;
    if (rc == 0) rc = check_text(&s, &e);
    if (rc == 0) rc = session_engine(&s, &e);
    if (rc == 0) rc = dialog_open(&d, &s, raw, &e);
    d.as_json = as_json;
    if (rc == 0 && prompt && !named) note_word(&s, prompt);
    int status = rc == 0 ? talk_or_answer(&d, prompt) : 1;
    dialog_close(&d);
    session_close(&s);
    return rc ? fail("run", &e) : status;
}

const struct command command_run = {
    .name = "run",
    .summary = "complete a prompt, or chat with a model at the terminal",
    .usage = "[MODEL] [PROMPT] [OPTIONS]",
    .detail = "Without MODEL, the command uses the model that is packed into this program. MODEL "
              "is a .gguf file, a Hugging Face folder or a llama2.c .bin file. Without PROMPT the "
              "prompt is read from standard input. At a terminal, a chat begins instead (/help "
              "lists its commands). A model without a chat template completes the prompt "
              "unchanged.",
    .options = options,
    .arg_max = 2,
    .run = run,
};
