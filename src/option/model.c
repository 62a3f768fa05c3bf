/* model.c - open a model by the flags that all computing commands share; see option.h. */
#include "option.h"

#include "base/log.h"
#include "session/session.h"

/* The options of the current command line. */
struct session_options session_flags = {
#include "session/defaults.def"
};
static bool verbose, pulls;

/* Rows of session's .def files become options of the command line, and keys of the library
 * (session/options.c). */
#define SESSION_INT(field, flag, char_, what, low, high, fallback, text)                           \
    INT_OPTION(flag, what, &session_flags.field, low, high, text, .letter = char_),
#define SESSION_REAL(field, flag, what, low, high, fallback, text)                                 \
    REAL_OPTION(flag, what, &session_flags.field, low, high, text),
#define SESSION_TEXT(field, flag, what, fallback, text)                                            \
    TEXT_OPTION(flag, what, &session_flags.field, text),
#define SESSION_NAME(field, flag, what, fallback, list, text)                                      \
    NAME_OPTION(flag, what, &session_flags.field, list, text),
#define SESSION_FORM(field, flag, what, fallback, judge, text)                                     \
    FORM_OPTION(flag, what, &session_flags.field, judge, text),
#define SESSION_POWER(field, flag, what, low, high, fallback, text)                                \
    INT_OPTION(flag, what, &session_flags.field, low, high, text, .form = session_power_form),
#define SESSION_WORDS(field, flag, what, judge, text)                                              \
    WORDS_OPTION(flag, what, &session_flags.field, text, .form = judge),
#define SESSION_FLAG(field, flag, fallback, text) FLAG_OPTION(flag, &session_flags.field, text),

const struct option load_options[] = {
#include "session/load.def"
    FLAG_OPTION("pull", &pulls, "download a missing hf:... or ollama:... without a question"),
    OPTIONS_END,
};

static const struct option pack_cache_options[] = {
#include "session/pack_cache.def"
    OPTIONS_END,
};

const struct option model_options[] = {
#include "session/model.def"
    FLAG_OPTION("verbose", &verbose, "report the loaded parts and the use of memory",
                .letter = 'v'),
    OPTIONS_OF(pack_cache_options),
    OPTIONS_OF(load_options),
    OPTIONS_END,
};

const struct option chat_options[] = {
#include "session/chat.def"
    OPTIONS_END,
};

const struct option chat_parser_options[] = {
#include "session/parser.def"
    OPTIONS_END,
};

bool model_pulls(void)
{
    return pulls;
}

const char *chat_system(void)
{
    return session_flags.system;
}

/* Return --shape, or the model in this program; NULL with an error if the flag and the model are
 * absent. typed: a word that the user may have meant as a model. */
const char *session_bundled(const char *typed, struct err *e)
{
    if (session_flags.shape) return session_flags.shape;
    if (session_packed()) return session_packed();
    if (typed)
        err_set(e, ERR_MISSING,
                "model not found: this program contains none, and \"%.100s\" is not a model file "
                "or folder. Give one: quoth run "
                "MODEL.gguf \"your prompt\"",
                typed);
    else
        err_set(e, ERR_MISSING,
                "MODEL not found: this program contains none. Give one: quoth run MODEL.gguf");
    return NULL;
}

int session_page_rows(void)
{
    return (int)session_flags.block_size;
}

const char *session_act_name(void)
{
    return session_flags.activation_dtype;
}

/* Open a session for commands with one size of a batch. */
int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e)
{
    struct session_size size = {
        .n_seq = n_seq, .n_out = n_out, .context = context, .trained = true};
    return session_open_sized(s, path, &size, e);
}

/* Show a progress bar if packing takes long. */
static void show_packing(void *what, uint64_t done, uint64_t n_byte)
{
    enum { BYTES_SHOWN_MIN = 256 << 20 };
    if (n_byte >= BYTES_SHOWN_MIN) progress_bar(what, done, n_byte);
}

/* The progress of packing weights is shown only for large models, which take seconds. */
int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e)
{
    /* --verbose also shows the log lines of opening */
    if (verbose) log_level_max = LOG_INFO;
    session_flags.progress = show_packing;
    session_flags.progress_ctx = (void *)"preparing weights";
    int rc = session_open_as(s, path, &session_flags, size, e);
    if (rc == 0 && verbose) session_report(s);
    return rc;
}

/* Open only the backend, for measurements without a model. */
int session_backend(struct session *s, struct err *e)
{
    return session_open_backend(s, &session_flags, e);
}

int session_engine(struct session *s, struct err *e)
{
    return session_start(s, &session_flags, NULL, 0, e);
}
