/* keys.c - API keys: the list, its file, lookup in constant time, and the bucket of a key's rate.
 *
 *    SECRET [name=TEXT] [rate=N] [share=X] [role=admin]      a line of the file
 *    sk-1234 name=team rate=60                               60 requests per minute
 *
 * The list does not change after net_open, so its keys may be borrowed. Only the loop thread
 * changes the level of a key's bucket. */
#include "net_impl.h"

#include "base/log.h"
#include "base/os.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* SECRET_MAX, KEY_FILE_MAX: maximum bytes of a secret and of a key file. WAIT_MAX_S: maximum of
 * Retry-After (one day), for very low rates. */
enum { SECRET_MAX = 256, KEY_FILE_MAX = 1 << 20, WAIT_MAX_S = 86400 };

/* Compare all SECRET_MAX bytes in constant time. Secrets contain no zero bytes and are padded with
 * zeros. */
static bool same_secret(const char *a, const char *b)
{
    unsigned char differ = 0;
    for (size_t i = 0; i < SECRET_MAX; i++) differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

/* The loop always visits all keys. An early exit would reveal the position of a key. */
struct net_key *net_keys_find(const struct net_keys *k, const char *secret, size_t n)
{
    struct net_key *found = NULL;
    char wanted[SECRET_MAX] = {0};
    memcpy(wanted, secret, n < SECRET_MAX ? n : SECRET_MAX);
    for (size_t i = 0; i < k->n; i++)
        if (same_secret(k->v[i].secret, wanted)) found = &k->v[i];
    return n <= SECRET_MAX ? found : NULL;
}

/* Return a copy of a secret, padded with zeros to SECRET_MAX + 1 bytes. NULL if memory is
 * exhausted. */
static char *copy_secret(const char *secret)
{
    char *copy = calloc(1, SECRET_MAX + 1);
    if (copy) memcpy(copy, secret, strlen(secret));
    return copy;
}

int net_key_form(const char *secret, struct err *e)
{
    size_t n = strlen(secret);
    if (n == 0 || n > SECRET_MAX)
        return err_set(e, ERR_ARG, "API key: must have 1 to %d bytes, got %zu", SECRET_MAX, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)secret[i] <= ' ' || secret[i] == 127)
            return err_set(e, ERR_ARG,
                           "API key: must not contain spaces or control characters, got the byte "
                           "0x%02x at offset %zu",
                           (unsigned char)secret[i], i);
    return 0;
}

int net_keys_add(struct net_keys *k, const char *secret, const char *name, struct err *e)
{
    size_t n = strlen(secret);
    int rc = net_key_form(secret, e);
    if (rc != 0) return rc;
    if (net_keys_find(k, secret, n))
        return err_set(e, ERR_ARG, "API key: must be unique, got the same key twice");
    char made[32];
    snprintf(made, sizeof made, "key%zu", k->n + 1);
    struct net_key key = {
        .secret = copy_secret(secret), .name = strdup(name ? name : made), .share = 1};
    if (key.secret && key.name && vec_push(k, key)) return 0;
    free((char *)key.secret);
    free((char *)key.name);
    return err_memory(e, "an API key", n);
}

void net_keys_deinit(struct net_keys *k)
{
    for (size_t i = 0; i < k->n; i++) {
        free((char *)k->v[i].secret);
        free((char *)k->v[i].name);
    }
    vec_deinit(k);
}

/* ---- the file ---- */

static int read_number(double *out, const char *text, const char *what, struct err *e)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x) || x < 0 || x > 1e9)
        return err_set(e, ERR_FORMAT, "%s: must be a number of at least 0, got \"%.40s\"", what,
                       text);
    *out = x;
    return 0;
}

/* Parse a weight of the fair share. */
static int read_share(double *out, const char *text, struct err *e)
{
    double x;
    int rc = read_number(&x, text, "share", e);
    if (rc) return rc;
    if (x < 1e-3 || x > 1e6) /* virtual time is divided by the share and must remain an integer */
        return err_field(e, ERR_FORMAT, "share", ": must be in [0.001, 1000000], got %g", x);
    *out = x;
    return 0;
}

/* Parse one field after the secret. An unknown field is an error, because a misspelled limit would
 * not limit its key. */
static int read_field(struct net_key *key, const char *word, struct err *e)
{
    if (strncmp(word, "rate=", 5) == 0) return read_number(&key->per_minute, word + 5, "rate", e);
    if (strncmp(word, "share=", 6) == 0) return read_share(&key->share, word + 6, e);
    if (strcmp(word, "role=admin") == 0) return key->admin = true, 0;
    if (strncmp(word, "name=", 5) != 0 || !word[5])
        return err_set(e, ERR_FORMAT, "must be name=, rate=, share= or role=admin, got \"%.40s\"",
                       word);
    for (const char *c = word + 5; *c; c++) /* names are written to logs and metrics */
        if ((unsigned char)*c < ' ' || *c == 127)
            return err_set(
                e, ERR_FORMAT,
                "name: must not contain control characters, got the byte 0x%02x at offset %td",
                (unsigned char)*c, c - (word + 5));
    char *name = strdup(word + 5);
    if (!name) return err_memory(e, "a key's name", strlen(word));
    free((char *)key->name);
    key->name = name;
    return 0;
}

/* Parse "sk-1234 name=team rate=60 share=2 # comment". The first word is the secret. */
static int read_line(struct net_keys *k, char *line, struct err *e)
{
    static const char space[] = " \t\r";
    char *word;
    struct net_key *key = NULL;
    while ((word = strsep(&line, space))) {
        if (*word == '#') return 0;
        if (!*word) continue;
        int rc = key ? read_field(key, word, e) : net_keys_add(k, word, NULL, e);
        if (rc != 0) return rc;
        key = &k->v[k->n - 1];
    }
    return 0;
}

/* The list keeps the keys before a malformed line. The caller frees the list. */
int net_keys_parse(struct net_keys *k, const char *text, size_t n, const char *path, struct err *e)
{
    char *copy = strndup(text, n);
    if (!copy) return err_memory(e, path, n);
    /* a NUL would hide the rest of the file, including limits of keys */
    int rc = strlen(copy) == n ? 0
                               : err_set(e, ERR_FORMAT, "%s: cannot read: it contains NUL", path),
        number = 0;
    for (char *next = copy, *line; rc == 0 && (line = strsep(&next, "\n"));) {
        number++;
        rc = read_line(k, line, e);
        if (rc != 0) err_prefix(e, rc, "%s:%d", path, number);
    }
    free(copy);
    return rc;
}

/* Warn if other users of the machine can read the file of the keys. */
static void warn_if_public(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
        log_warn("%s: every user of this machine can read these keys", path);
}

int net_keys_read(struct net_keys *k, const char *path, struct err *e)
{
    struct buf text = {0};
    int rc = file_read(&text, path, KEY_FILE_MAX, e);
    if (rc == 0) rc = net_keys_parse(k, text.data ? text.data : "", text.n, path, e);
    /* secrets are erased, because the buffer's memory may be reused for an answer */
    if (text.data) explicit_bzero(text.data, text.n);
    if (rc == 0) warn_if_public(path);
    buf_deinit(&text);
    return rc;
}

/* ---- the rate ---- */

/* Take one request from the bucket of a key. Return 0, or the number of seconds to wait. The bucket
 * holds the requests of a minute, at least one request, and is refilled at the key's rate. */
int key_wait_s(struct net_key *key, int64_t now_us)
{
    if (key->per_minute <= 0) return 0;
    double per_us = key->per_minute / 60e6, max = key->per_minute > 1 ? key->per_minute : 1;
    /* the first request finds a full bucket, so a restarted server does not delay its clients */
    if (!key->token_us)
        key->token = max;
    else
        key->token = fmin(max, key->token + (double)(now_us - key->token_us) * per_us);
    key->token_us = now_us;
    if (key->token < 1) return (int)fmin(ceil((1 - key->token) / per_us * 1e-6), WAIT_MAX_S);
    key->token -= 1;
    return 0;
}
