/* head.c - parse the head of a request into fields; see head.h.
 *
 * The parser is strict, because lenient parsers permit request smuggling past proxies. Lines end
 * with CRLF, names are tokens, and no header is folded. There is one Host, and either one
 * Content-Length or chunks, not both. This file is independent of connections, so a fuzzer can
 * reach all its code. */
#include "head.h"

#include "base/percent.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- characters ---- */

/* Return true for a tchar of RFC 9110, 5.6.2. strchr also finds the NUL, so 0 is excluded. */
static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool head_is_name_list(const char *text)
{
    while (is_token((unsigned char)*text) || (*text && strchr(", \t", *text))) text++;
    return !*text;
}

/* Only values are decoded. A name with escapes does not match, because the server's names need
 * none. */
int query_value(const char *query, const char *name, struct buf *out)
{
    size_t n_name = strlen(name);
    for (const char *at = query; *at;) {
        size_t n = strcspn(at, "&"), n_key = strcspn(at, "=&");
        if (n_key == n_name && memcmp(at, name, n_name) == 0) {
            size_t skip = n_key < n ? n_key + 1 : n_key;
            if (!buf_room(out, n - skip + 1)) return -1;
            ptrdiff_t m = percent_decode(out->data + out->n, at + skip, n - skip, true);
            if (m < 0) return -1;
            out->n += (size_t)m;
            return 1;
        }
        at += n + (at[n] == '&');
    }
    return 0;
}

/* ---- the lines ---- */

size_t head_length(const char *s, size_t n)
{
    size_t skip = 0; /* empty lines before a request are ignored (RFC 9112, 2.2) */
    while (n - skip >= 2 && s[skip] == '\r' && s[skip + 1] == '\n') skip += 2;
    const char *end = n > skip ? memmem(s + skip, n - skip, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - s) + 4 : 0;
}

/* Return the line at *at, without its CRLF. NULL at the end, or if a CR or LF is not part of a
 * CRLF. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\r');
    if (!end || end[1] != '\n' || memchr(line, '\n', (size_t)(end - line))) return NULL;
    *end = 0;
    *at = end + 2;
    return line;
}

/* Set the error for a line at `at` that next_line rejects. `text` is the head. */
static int no_line(const char *at, const char *text, struct err *e)
{
    const char *end = at + strcspn(at, "\r\n");
    return err_set(e, ERR_FORMAT,
                   "the request's head: must have lines that end with CRLF, got the byte 0x%02x "
                   "without it at offset %td",
                   (unsigned char)*end, end - text);
}

/* Detach the word before the next single space from *at. NULL if there is no space or the word is
 * empty. Only one space is a separator (RFC 9112, 3). */
static char *cut_word(char **at)
{
    char *word = *at, *space = strchr(word, ' ');
    if (!space || space == word) return NULL;
    *space = 0;
    *at = space + 1;
    return word;
}

/* Return the offset of the authority in a target of absolute form; 0 for other forms. */
static size_t authority_at(const char *target)
{
    if (strncasecmp(target, "http://", 7) == 0) return 7;
    return strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
}

/* Return the path in a target. The target is in origin form, or in absolute form with scheme and
 * authority. NULL for a target without a path. */
static const char *path_of(const char *target, const char *method)
{
    if (target[0] == '*' && !target[1] && strcmp(method, "OPTIONS") == 0) return target;
    size_t n = authority_at(target);
    if (n == 0) return target[0] == '/' ? target : NULL;
    size_t n_authority = strcspn(target + n, "/?");
    return n_authority ? target + n + n_authority : NULL;
}

/* Set path (decoded, owned) and query (encoded, in text). Reject a fragment, because clients must
 * not send one. A proxy may treat a fragment as part of the path. */
static int parse_target(struct head *h, struct err *e)
{
    for (const char *c = h->target; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 127 || *c == '#')
            return err_set(
                e, ERR_FORMAT,
                "the request's target: must not contain blanks, control characters or #, "
                "got the byte 0x%02x at offset %td",
                (unsigned char)*c, c - h->target);
    const char *path = path_of(h->target, h->method), *mark = path ? strchr(path, '?') : NULL;
    if (!path)
        return err_set(e, ERR_FORMAT,
                       "the request's target: must be a path or http://HOST/PATH, got \"%.40s\"",
                       h->target);
    size_t n = mark ? (size_t)(mark - path) : strlen(path);
    if (n == 0) path = "/", n = 1; /* the target is http://host?query */
    h->query = mark ? mark + 1 : "";
    h->path = malloc(n + 1);
    if (!h->path) return err_memory(e, "a path", n);
    if (percent_decode(h->path, path, n, false) >= 0) return 0;
    free(h->path);
    h->path = NULL; /* NULL instead of an empty path, so that the access log prints "-" */
    return err_set(e, ERR_FORMAT, "the request's path: must be percent-encoded UTF-8, got \"%.*s\"",
                   (int)(n < 40 ? n : 40), path);
}

/* Parse "GET /v1/models?x=1 HTTP/1.1". method and target point into text. */
static int parse_request_line(struct head *h, char *line, struct err *e)
{
    const char *method = cut_word(&line);
    for (const char *c = method; c && *c; c++)
        if (!is_token((unsigned char)*c))
            return err_set(e, ERR_FORMAT, "the method: must be a token, got \"%.20s\"", method);
    h->method = method; /* the method is a token, so the access log may print it unchanged */
    h->target = method ? cut_word(&line) : NULL;
    if (!h->target)
        return err_set(e, ERR_FORMAT,
                       "the request line: must be METHOD TARGET HTTP/1.1, got \"%.20s\" before %s",
                       method ? method : line, method ? "a target" : "a blank");
    if (strcmp(line, "HTTP/1.1") != 0 && strcmp(line, "HTTP/1.0") != 0)
        return err_set(e, ERR_FORMAT, "the version: must be HTTP/1.1 or HTTP/1.0, got \"%.20s\"",
                       line);
    h->minor = line[7] - '0';
    return parse_target(h, e);
}

/* Parse "Name: value" in place. The name becomes lower case, and spaces around the value are
 * removed. A space before the colon is an error, because proxies disagree about it (RFC 9112,
 * 5.1). */
static int parse_header(struct head *h, char *line, struct err *e)
{
    char *c = line;
    for (; is_token((unsigned char)*c); c++)
        if (*c >= 'A' && *c <= 'Z') *c |= 32;
    if (c == line || *c != ':') /* a value may be a key, so only the name is printed */
        return err_set(
            e, ERR_FORMAT, "header %d: must be NAME: VALUE, got the byte 0x%02x after \"%.*s\"",
            h->n_header + 1, (unsigned char)*c, (int)(c - line < 40 ? c - line : 40), line);
    *c++ = 0;
    c += strspn(c, " \t");
    size_t n = strlen(c);
    while (n > 0 && (c[n - 1] == ' ' || c[n - 1] == '\t')) c[--n] = 0;
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)c[i] < ' ' && c[i] != '\t') || c[i] == 127)
            return err_set(e, ERR_FORMAT,
                           "header %.40s: must not contain control characters, got the byte 0x%02x",
                           line, (unsigned char)c[i]);
    if (h->n_header == HEADER_MAX)
        return err_set(e, ERR_LIMIT, "the request has more than %d headers", HEADER_MAX);
    h->header[h->n_header++] = (struct header){line, c};
    return 0;
}

const char *head_header(const struct head *h, const char *lower_name)
{
    for (int i = 0; i < h->n_header; i++)
        if (strcmp(h->header[i].name, lower_name) == 0) return h->header[i].value;
    return NULL;
}

int head_count(const struct head *h, const char *lower_name)
{
    int n = 0;
    for (int i = 0; i < h->n_header; i++) n += strcmp(h->header[i].name, lower_name) == 0;
    return n;
}

/* ---- the meaning of headers ---- */

/* Return true if the word is in a comma-separated list. */
static bool list_has(const char *list, const char *word)
{
    size_t n_word = strlen(word);
    while (*list) {
        list += strspn(list, " \t,");
        size_t n = strcspn(list, ","), m = n;
        while (m > 0 && (list[m - 1] == ' ' || list[m - 1] == '\t')) m--;
        if (m == n_word && strncasecmp(list, word, m) == 0) return true;
        list += n;
    }
    return false;
}

/* Return true if the word is in a header of that name. Several headers of a name are one list. */
static bool header_has(const struct head *h, const char *name, const char *word)
{
    for (int i = 0; i < h->n_header; i++)
        if (strcmp(h->header[i].name, name) == 0 && list_has(h->header[i].value, word)) return true;
    return false;
}

/* Parse Content-Length. 18 digits are less than INT64_MAX, so strtoll cannot overflow. Signs,
 * spaces and lists such as "5, 5" are rejected. */
static int parse_length(struct head *h, const char *text, struct err *e)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || text[n])
        return err_set(e, ERR_FORMAT, "Content-Length: must be a number of bytes, got \"%.40s\"",
                       text);
    h->n_body = strtoll(text, NULL, 10);
    return 0;
}

/* Set the way to find the body's end. Request smuggling needs two parsers that find different ends,
 * so any ambiguity is an error. */
static int parse_framing(struct head *h, struct err *e)
{
    const char *length = head_header(h, "content-length"),
               *coding = head_header(h, "transfer-encoding");
    if (coding && (length || h->minor == 0))
        return err_set(e, ERR_FORMAT,
                       "Transfer-Encoding: must not come with Content-Length or HTTP/1.0, got %s",
                       length ? "Content-Length" : "HTTP/1.0");
    if (head_count(h, "content-length") > 1 || head_count(h, "transfer-encoding") > 1)
        return err_set(e, ERR_FORMAT,
                       "Content-Length, Transfer-Encoding: must come once, got %d and %d",
                       head_count(h, "content-length"), head_count(h, "transfer-encoding"));
    if (coding && strcasecmp(coding, "chunked") != 0)
        return err_set(e, ERR_FORMAT, "Transfer-Encoding: must be chunked, got %.60s", coding);
    h->chunked = coding != NULL;
    return length ? parse_length(h, length, e) : 0;
}

/* Return false if the target contains a host other than Host. */
static bool one_host(const struct head *h)
{
    size_t at = authority_at(h->target), n = strcspn(h->target + at, "/?");
    const char *host = head_header(h, "host");
    return at == 0 || !host || (strlen(host) == n && strncasecmp(h->target + at, host, n) == 0);
}

/* Reject duplicates of headers that a proxy may check, because the proxy may check another
 * duplicate. */
static int check_once(const struct head *h, struct err *e)
{
    static const char *const once[] = {"origin", "authorization", "x-api-key"};
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        if (head_count(h, once[i]) > 1)
            return err_set(e, ERR_FORMAT, "header %s: must come once, got %d", once[i],
                           head_count(h, once[i]));
    return 0;
}

static int parse_meaning(struct head *h, struct err *e)
{
    int n_host = head_count(h, "host");
    if (n_host > 1 || (n_host == 0 && h->minor == 1))
        return err_set(e, ERR_FORMAT, "Host: must come once in HTTP/1.1, got %d", n_host);
    if (!one_host(h))
        return err_set(e, ERR_FORMAT,
                       "Host: must equal the host in the request's target %.100s, got %.100s",
                       h->target, head_header(h, "host"));
    h->keep_alive = !header_has(h, "connection", "close") &&
                    (h->minor == 1 || header_has(h, "connection", "keep-alive"));
    h->expect_continue = h->minor == 1 && header_has(h, "expect", "100-continue");
    int rc = check_once(h, e);
    return rc ? rc : parse_framing(h, e);
}

/* Copy the text and divide the copy in place. All fields except the path are then NUL-terminated
 * strings without further allocations. */
int head_parse(struct head *h, const char *s, size_t n, struct err *e)
{
    while (n >= 2 && s[0] == '\r' && s[1] == '\n') s += 2, n -= 2;
    h->text = malloc(n + 1);
    if (!h->text) return err_memory(e, "a request's head", n);
    memcpy(h->text, s, n);
    h->text[n] = 0;
    const char *nul = memchr(s, 0, n);
    if (nul)
        return err_set(e, ERR_FORMAT,
                       "the request's head: must not contain NUL, got one at offset %td", nul - s);
    char *at = h->text, *line = next_line(&at);
    int rc = line ? parse_request_line(h, line, e) : no_line(at, h->text, e);
    /* the loop ends at the empty line, which is the last line of a complete head */
    while (rc == 0 && (line = next_line(&at)) && *line) rc = parse_header(h, line, e);
    if (rc == 0 && !line) rc = no_line(at, h->text, e);
    return rc ? rc : parse_meaning(h, e);
}

void head_deinit(struct head *h)
{
    free(h->text);
    free(h->path);
    *h = (struct head){0};
}
