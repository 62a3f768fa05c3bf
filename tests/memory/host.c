/* host.c - a server in the test's process, and its client (host.h). The client reads to the end of
 * the connection. The client accepts only a complete answer: all bytes of its Content-Length, or
 * the last chunk. */
#include "host.h"
#include "../unit.h"

#include "../../src/base/json.h"
#include "../../src/base/os.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the server ---- */

/* Store a response and a conversation with known ids. */
static int put_stored(struct store *s, struct err *e)
{
    struct buf response = {0}, input = {0};
    buf_addf(&response,
             "{\"id\":\"%s\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"id\":"
             "\"msg_1\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":"
             "\"5\"}]}]}",
             HOST_STORED);
    buf_addf(&input,
             "{\"type\":\"message\",\"id\":\"msg_0\",\"role\":\"user\",\"content\":\"2 + 3\"}");
    int rc =
        store_put(s, 0, HOST_STORED, &(struct store_texts){.head = &response, .body = &input}, e);
    buf_clear(&response);
    buf_addf(&response, "{\"id\":\"%s\",\"created_at\":1}", HOST_CONVERSATION);
    if (rc == 0)
        rc = store_put(s, 0, HOST_CONVERSATION,
                       &(struct store_texts){.head = &response, .body = &input}, e);
    buf_clear(&response);
    buf_addf(&response, "{\"id\":\"%s\",\"purpose\":\"batch\"}", HOST_FILE);
    if (rc == 0)
        rc =
            store_put(s, 0, HOST_FILE, &(struct store_texts){.head = &response, .pinned = true}, e);
    for (int i = 1; rc == 0 && i < 4; i++) rc = store_add_chunk(s, 0, HOST_FILE, 0, i, &input, e);
    buf_deinit(&response);
    buf_deinit(&input);
    return rc;
}

/* Open the model. */
static int open_model(struct host *h, const char *model, struct err *e)
{
    static const struct session_size size = {
        .n_seq = 8, .n_out = 16, .n_longest = 2, .context = 256};
    struct session_options o = session_defaults;
    o.threads = 1;
    o.pack_cache = false;
    int rc = session_open_as(&h->session, repo_path(model), &o, &size, e);
    if (rc == 0) rc = session_start(&h->session, &o, NULL, 0, e);
    if (rc == 0) rc = chat_open(&h->chat, &h->session, &o, e);
    return rc;
}

static void unload(void *host, int i)
{
    struct host *h = host;
    (void)i;
    chat_close(&h->chat);
    h->chat = (struct chat){0};
    session_close(&h->session);
}

static int load(void *host, int i, int64_t n_byte, struct api *out, struct err *e)
{
    struct host *h = host;
    (void)n_byte;
    int rc = open_model(h, h->model, e);
    if (rc != 0) unload(h, i);
    *out = h->api;
    return rc;
}

static int measure(void *host, int i, int attempt, int64_t *n_byte, struct err *e)
{
    (void)host, (void)i;
    *n_byte = 1;
    return attempt == 0 ? 0 : err_set(e, ERR_LIMIT, "no larger size");
}

bool host_unload(const struct host *h)
{
    struct served *m = models_at(h->models, 0);
    struct err e;
    for (int i = 0; i < 5000; i++) {
        const enum served_state s = served_status(m).state;
        if (s == SERVED_UNLOADED || s == SERVED_FAILED) return true;
        (void)served_unload(m, &e);
        usleep(1000);
    }
    return false;
}

/* Open the server, and its model before it if h->model is NULL. */
static int open_host(struct host *h, const char *model, struct err *e)
{
    int rc = h->model ? 0 : open_model(h, model, e);
    h->api = (struct api){.session = &h->session,
                          .chat = &h->chat,
                          .name = h->name[0],
                          .fingerprint = "f",
                          .pooling = POOLING_MEAN,
                          .defaults = sample_params_default,
                          .streams = true};
    struct server_options so = {.net = {.access_log = "/dev/null", .n_handler = 1}, .version = "0"};
    if (rc == 0) rc = store_open(&h->store, &(struct store_options){.bytes_max = 64 << 20}, e);
    h->api.store = h->store;
    if (rc == 0) rc = put_stored(h->store, e);
    so.store = h->store;
    h->spec = (struct served_spec){.name = h->name, .n_name = 1};
    const struct models_options mo = {
        .spec = &h->spec,
        .n = 1,
        .only = h->model ? NULL : &h->api,
        .loader = {.measure = measure, .load = load, .unload = unload, .ctx = h},
        .bytes_max = 1,
        .idle_us = -1};
    if (rc == 0) rc = models_open(&h->models, &mo, e);
    so.models = h->models;
    if (rc == 0) rc = server_open(&h->server, &so, e);
    if (rc != 0) host_close(h);
    return rc;
}

int host_open(struct host *h, const char *model, struct err *e)
{
    *h = (struct host){.name = {"tiny"}};
    return open_host(h, model, e);
}

int host_open_on_demand(struct host *h, const char *model, struct err *e)
{
    *h = (struct host){.name = {"tiny"}, .model = model};
    return open_host(h, model, e);
}

void host_close(struct host *h)
{
    server_close(h->server);
    models_close(h->models);
    store_close(h->store);
    chat_close(&h->chat);
    session_close(&h->session);
    *h = (struct host){0};
}

bool host_idle(const struct host *h)
{
    for (int i = 0; i < 2000; i++) {
        struct net_stats s = net_stats(server_net(h->server));
        if (s.n_exchange == 0 && s.n_conn == 0) return true;
        usleep(1000);
    }
    return false;
}

/* ---- the client ---- */

static int dial(const struct host *h)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)net_port(server_net(h->server))),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&in, sizeof in) == 0) return fd;
    close(fd);
    return -1;
}

/* Read until the end of the connection. Return false if no byte arrives. */
static bool read_all(int fd, struct buf *b)
{
    char piece[4096];
    ssize_t n;
    while ((n = recv(fd, piece, sizeof piece, 0)) > 0) buf_add(b, piece, (size_t)n);
    return n == 0 || b->n > 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* Convert chunks to bytes. Return false if the last chunk is missing. */
static bool dechunk(const char *p, size_t n, struct buf *out)
{
    for (const char *end = p + n; p < end;) {
        char *after;
        unsigned long size = strtoul(p, &after, 16);
        if (after == p || end - after < 2 || size + 4 > (size_t)(end - after)) return false;
        if (size == 0) return true;
        buf_add(out, after + 2, size);
        p = after + 2 + size + 2;
    }
    return false;
}

/* Extract the answer's body. Return false if the body is incomplete. */
static bool take_body(const struct buf *raw, struct buf *out)
{
    const char *head_end = memmem(raw->data, raw->n, "\r\n\r\n", 4);
    if (!head_end) return false;
    const char *p = head_end + 4, *length = strcasestr(raw->data, "\r\nContent-Length:");
    size_t n = raw->n - (size_t)(p - raw->data);
    if (!length || length > head_end) return dechunk(p, n, out);
    buf_add(out, p, n);
    return n == strtoul(length + 17, NULL, 10);
}

/* Append the items of a response without their ids. */
static void put_items(struct buf *out, const struct json *list)
{
    static const char *const member[] = {"type", "status", "content", "name", "arguments"};
    for (size_t i = 0; i < json_count(list); i++)
        for (size_t k = 0; k < sizeof member / sizeof *member; k++)
            json_put(out, json_field(json_item(list, i), member[k]));
}

/* Append the members of a message of Ollama's that must be equal. The ids of calls are random. */
static void put_message(struct buf *out, const struct json *j)
{
    const struct json *calls = json_field(j, "tool_calls");
    const char *thinking = json_text(json_field(j, "thinking"), NULL),
               *content = json_text(json_field(j, "content"), NULL);
    if (thinking) buf_add_text(out, thinking);
    if (content) buf_add_text(out, content);
    for (size_t i = 0; i < json_count(calls); i++)
        json_put(out, json_field(json_item(calls, i), "function"));
}

/* Append the members of one JSON object that must be equal in two answers. */
static void put_meaning(struct buf *out, const struct json *j)
{
    static const char *const member[] = {"choices",      "data",   "tokens",     "count",
                                         "prompt",       "error",  "content",    "stop_reason",
                                         "input_tokens", "status", "embeddings", "embedding",
                                         "context",      "models", "model_info"};
    put_message(out, json_field(j, "message"));
    const char *response = json_text(json_field(j, "response"), NULL),
               *reason = json_text(json_field(j, "done_reason"), NULL);
    if (response) buf_add_text(out, response);
    if (reason) buf_addf(out, "[%s]", reason);
    for (size_t i = 0; i < sizeof member / sizeof *member; i++) {
        const struct json *v = json_field(j, member[i]);
        if (!v) continue;
        buf_addf(out, "%s ", member[i]);
        json_put(out, v);
        buf_add_char(out, '\n');
    }
    put_items(out, json_field(j, "output"));
}

/* Append the names and kinds of a page of metrics. */
static void put_comments(struct buf *out, const char *text, size_t n)
{
    for (const char *end; n > 0; n -= (size_t)(end - text), text = end) {
        end = memchr(text, '\n', n);
        end = end ? end + 1 : text + n;
        if (*text == '#') buf_add(out, text, (size_t)(end - text));
    }
}

static void put_json_meaning(struct buf *out, const char *text, size_t n)
{
    struct json *j = NULL;
    if (json_parse(&j, text, n, NULL, NULL) == 0)
        put_meaning(out, j);
    else if (n > 0 && *text == '#')
        put_comments(out, text, n);
    else
        buf_add(out, text, n);
    json_drop(j);
}

/* Append the joined texts of a stream's pieces. The division into pieces depends on time. */
static bool put_stream_meaning(struct buf *out, const struct buf *body)
{
    bool done = false;
    for (const char *p = body->data, *end = p + body->n; p < end && !done;) {
        const char *stop = memmem(p, (size_t)(end - p), "\n\n", 2);
        if (!stop) return false;
        struct json *j = NULL;
        size_t n = (size_t)(stop - p);
        /* in Anthropic's form, "event: NAME" precedes it */
        const char *data = memmem(p, n, "data: ", 6);
        done = n == 12 && memcmp(p, "data: [DONE]", 12) == 0;
        if (!done && data) (void)json_parse(&j, data + 6, (size_t)(stop - data) - 6, NULL, NULL);
        const struct json *choice = json_item(json_field(j, "choices"), 0), *object = choice;
        if (json_field(choice, "delta") || !choice)
            object = json_field(choice ? choice : j, "delta");
        const char *text = json_text(json_field(object, "text"), NULL),
                   *piece = json_text(json_field(j, "delta"), NULL),
                   *content = json_text(json_field(object, "content"), NULL),
                   *finish = json_text(choice ? json_field(choice, "finish_reason")
                                              : json_field(object, "stop_reason"),
                                       NULL),
                   *type = json_text(json_field(j, "type"), NULL),
                   /* llama.cpp's events have their text at the top */
                       *top = json_text(json_field(j, "content"), NULL),
                   *stopped = json_text(json_field(j, "stop_type"), NULL);
        if (top) buf_add_text(out, top);
        if (stopped) buf_addf(out, "[%s]", stopped);
        if (text || content || piece) buf_add_text(out, text ? text : content ? content : piece);
        if (finish) buf_addf(out, "[%s]", finish);
        const bool failed =
            type && (strcmp(type, "error") == 0 || strcmp(type, "response.failed") == 0);
        if (json_field(j, "error") || failed) buf_add_text(out, "[error]");
        done |= stopped != NULL;
        done |=
            type && (strcmp(type, "message_stop") == 0 || strcmp(type, "response.completed") == 0);
        json_drop(j);
        p = stop + 2;
    }
    return done;
}

/* Append the joined texts of lines of JSON. Return false if the last line is missing. */
static bool put_line_meaning(struct buf *out, const struct buf *body)
{
    bool done = false;
    const char *end = body->data + body->n;
    for (const char *p = body->data, *stop; p < end; p = stop + 1) {
        struct json *j = NULL;
        stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop || json_parse(&j, p, (size_t)(stop - p), NULL, NULL) != 0) return false;
        if (json_field(j, "error"))
            buf_add_text(out, "[error]");
        else
            put_meaning(out, j);
        const char *status = json_text(json_field(j, "status"), NULL);
        done |= json_bool(json_field(j, "done"), false) || (status && !strcmp(status, "success"));
        json_drop(j);
    }
    return done;
}

static void judge(const struct buf *raw, struct response *out)
{
    struct buf body = {0};
    bool lines = raw->n && strstr(raw->data, "application/x-ndjson"),
         stream = lines || (raw->n && strstr(raw->data, "text/event-stream"));
    out->status = -1;
    if (raw->n >= 12 && memcmp(raw->data, "HTTP/1.1 ", 9) != 0) out->status = -3;
    if (out->status == -1 && raw->n >= 12 && take_body(raw, &body)) {
        out->status = (int)strtol(raw->data + 9, NULL, 10);
        if (!stream)
            put_json_meaning(&out->text, body.data ? body.data : "", body.n);
        else if (body.n == 0 || !(lines ? put_line_meaning : put_stream_meaning)(&out->text, &body))
            out->status =
                memmem(out->text.data ? out->text.data : "", out->text.n, "[error]", 7) ? 500 : -1;
    }
    if (out->status == -3) buf_add(&out->text, raw->data, raw->n);
    buf_deinit(&body);
}

void host_post(const struct host *h, const struct request_case *q, struct response *out)
{
    struct buf request = {0}, raw = {0};
    size_t n = q->body ? strlen(q->body) : 0;
    out->status = -1;
    buf_deinit(&out->text);
    buf_addf(&request, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", q->method,
             q->path);
    if (q->body)
        buf_addf(&request, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                 q->body[0] == '-' ? "multipart/form-data; boundary=xx" : "application/json", n);
    buf_addf(&request, "\r\n%s", q->body ? q->body : "");
    int fd = dial(h);
    bool sent = fd >= 0 && send(fd, request.data, request.n, MSG_NOSIGNAL) == (ssize_t)request.n;
    if (sent && !read_all(fd, &raw))
        out->status = -2;
    else if (sent)
        judge(&raw, out);
    if (fd >= 0) close(fd);
    buf_deinit(&request);
    buf_deinit(&raw);
}
