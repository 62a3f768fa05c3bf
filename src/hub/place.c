/* place.c - paths of the stores, address and token of the hub, from the environment variables of
 * other programs.
 *
 * The order of the variables is that of huggingface_hub and Ollama, so that quoth finds the models
 * of these programs without settings of its own. An empty variable counts as unset. A program in a
 * container may have no HOME, so each folder can be set alone. */
#include "hub_impl.h"

#include "base/os.h"
#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TOKEN_MAX = 4096 };

/* Return the value of a variable; NULL if it is unset or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

int path_put(char out[static HUB_PATH_BYTES], struct err *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out, HUB_PATH_BYTES, fmt, args);
    va_end(args);
    if (n >= 0 && n < HUB_PATH_BYTES) return 0;
    return err_set(e, ERR_ARG, "%.200s: cannot open: the path is too long", out);
}

int parent_make(const char *path, struct err *e)
{
    char folder[HUB_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return 0;
    int rc = path_put(folder, e, "%.*s", (int)(slash - path), path);
    return rc ? rc : dir_make(folder, DIR_PRIVATE, e);
}

int text_write(const char *path, const char *text, size_t n, struct err *e)
{
    struct buf old = {0};
    bool same = file_exists(path) && file_read(&old, path, n, NULL) == 0 && old.n == n &&
                (n == 0 || memcmp(old.data, text, n) == 0);
    buf_deinit(&old);
    int rc = same ? 0 : parent_make(path, e);
    return rc || same ? rc : file_write(path, text, n, e);
}

/* Write value + end. "~" at the beginning of the value is the user's folder. */
static int put_variable(char out[static HUB_PATH_BYTES], const char *value, const char *end,
                        struct err *e)
{
    const char *home = variable("HOME");
    bool below = home && value[0] == '~' && (value[1] == '/' || !value[1]);
    return path_put(out, e, "%s%s%s", below ? home : "", below ? value + 1 : value, end);
}

/* Write the first variable that is set, with its end. ERR_MISSING if no variable is set. */
static int first_of(char out[static HUB_PATH_BYTES], const char *const pair[][2], size_t n,
                    struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (variable(pair[i][0])) return put_variable(out, variable(pair[i][0]), pair[i][1], e);
    return err_set(e, ERR_MISSING, "a folder for models is missing: set HOME or %s", pair[0][0]);
}

int hf_cache(char out[static HUB_PATH_BYTES], struct err *e)
{
    static const char *const pair[][2] = {{"HF_HUB_CACHE", ""},
                                          {"HUGGINGFACE_HUB_CACHE", ""},
                                          {"HF_HOME", "/hub"},
                                          {"XDG_CACHE_HOME", "/huggingface/hub"},
                                          {"HOME", "/.cache/huggingface/hub"}};
    return first_of(out, pair, sizeof pair / sizeof *pair, e);
}

int ollama_store(char out[static HUB_PATH_BYTES], struct err *e)
{
    static const char *const pair[][2] = {{"OLLAMA_MODELS", ""}, {"HOME", "/.ollama/models"}};
    return first_of(out, pair, sizeof pair / sizeof *pair, e);
}

int hf_folder(char out[static HUB_PATH_BYTES], const char *cache, const struct hub_name *n,
              struct err *e)
{
    const char *slash = strchr(n->repo, '/');
    int n_org = slash ? (int)(slash - n->repo) : 0;
    return path_put(out, e, "%s/models--%.*s%s%s", cache, n_org, n->repo, slash ? "--" : "",
                    slash ? slash + 1 : n->repo);
}

int manifest_path(char out[static HUB_PATH_BYTES], const char *store, const struct hub_name *n,
                  struct err *e)
{
    return path_put(out, e, "%s/manifests/%s/%s/%s/%s", store, n->host, n->space, n->model, n->tag);
}

/* Append the token without blanks at its ends. */
static int put_token(struct buf *out, const char *text, size_t n, struct err *e)
{
    while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
    while (n > 0 && isspace((unsigned char)*text)) text++, n--;
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return err_set(e, ERR_ARG, "HF_TOKEN: must not contain blanks or control characters");
    buf_add(out, text, n);
    return out->failed ? err_memory(e, "HF_TOKEN", n) : 0;
}

/* A missing file is not an error, because public models need no token. */
int hf_token(struct buf *out, struct err *e)
{
    static const char *const pair[][2] = {{"HF_TOKEN_PATH", ""},
                                          {"HF_HOME", "/token"},
                                          {"XDG_CACHE_HOME", "/huggingface/token"},
                                          {"HOME", "/.cache/huggingface/token"}};
    const char *value = variable("HF_TOKEN");
    char path[HUB_PATH_BYTES];
    struct buf text = {0};
    if (!value) value = variable("HUGGING_FACE_HUB_TOKEN");
    if (value) return put_token(out, value, strlen(value), e);
    bool found = false;
    if (first_of(path, pair, sizeof pair / sizeof *pair, NULL) != 0) return 0;
    int rc = file_find(&found, path, e);
    if (rc != 0 || !found) return rc;
    rc = file_read(&text, path, TOKEN_MAX, e);
    if (rc == 0) rc = put_token(out, text.data ? text.data : "", text.n, e);
    buf_deinit(&text);
    return rc;
}

int hf_endpoint(char out[static HUB_PATH_BYTES], struct err *e)
{
    const char *url = variable("HF_ENDPOINT");
    if (!url) url = "https://huggingface.co";
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return err_set(e, ERR_ARG,
                       "HF_ENDPOINT: must be a URL with http:// or https://, got %.100s", url);
    int rc = path_put(out, e, "%s", url);
    for (size_t n = strlen(out); n > 0 && out[n - 1] == '/'; n--) out[n - 1] = 0;
    return rc;
}

/* Return true for the values that mean true in huggingface_hub. */
static bool is_true(const char *value)
{
    static const char *const word[] = {"1", "ON", "YES", "TRUE"};
    for (size_t i = 0; value && i < sizeof word / sizeof *word; i++)
        if (strcasecmp(value, word[i]) == 0) return true;
    return false;
}

bool hub_offline(void)
{
    const char *value = variable("HF_HUB_OFFLINE");
    return is_true(value ? value : variable("TRANSFORMERS_OFFLINE"));
}

bool is_hex(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") == n && !text[n];
}

bool is_hash(const char *text)
{
    return is_hex(text, 40) || is_hex(text, 64);
}
