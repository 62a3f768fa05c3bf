/* served_target.c - the server measured by quoth bench serve: its address, keys, model, token
 * counts and own figures; see served.h.
 *
 * The requests of this file (model, counts, metrics) are not measured. served_run.c sends the
 * measured requests with the URL, headers and client of this file. --base-url may contain a final
 * "/v1", as OpenAI's clients require. */
#include "served.h"

#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { UNMEASURED_MS = 30000 }; /* timeout of requests that are not measured */

static const char *base_url, *host = "127.0.0.1", *uds, *endpoint, *backend = "openai", *model,
                             *served_name, *api_key, *ca_file;
static int64_t port = 8000;
static struct text_list headers;
static bool insecure;

NAMES(backends, "openai", "openai-chat", "openai-completions", "vllm")

static int url_form(const char *text, struct err *e)
{
    bool http = strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
    return http ? 0 : form_wrong(e, "http://HOST[:PORT] or https://HOST[:PORT]", text);
}

static int path_form(const char *text, struct err *e)
{
    return text[0] == '/' ? 0 : form_wrong(e, "a path that begins with /", text);
}

const struct option target_options[] = {
    FORM_OPTION("base-url", "URL", &base_url, url_form,
                "URL of the server, http or https, instead of host and port"),
    TEXT_OPTION("host", "ADDRESS", &host, "host of the server (default 127.0.0.1)"),
    INT_OPTION("port", "N", &port, 1, 65535, "port of the server (default 8000)"),
    TEXT_OPTION("uds", "PATH", &uds, "unix socket of the server, instead of host and port"),
    NAME_OPTION("backend", "openai|openai-chat", &backend, backends,
                "openai (or vllm): prompts; openai-chat: chats of one message (default openai)"),
    FORM_OPTION(
        "endpoint", "PATH", &endpoint, path_form,
        "path of the endpoint (default /v1/completions; openai-chat: /v1/chat/completions)"),
    TEXT_OPTION("model", "NAME", &model, "model to request (default: the server's first)"),
    TEXT_OPTION("served-model-name", "NAME", &served_name,
                "model's name in requests, if it differs from --model"),
    TEXT_OPTION("api-key", "KEY", &api_key, "API key of the server (default: $OPENAI_API_KEY)"),
    WORDS_OPTION("header", "KEY=VALUE...", &headers, "additional headers of each request",
                 .form = flags_pair_form),
    FLAG_OPTION("insecure", &insecure, "accept any certificate"),
    TEXT_OPTION("ssl-ca-file", "FILE", &ca_file,
                "trusted certificates, PEM (default: the system's)"),
    OPTIONS_END,
};

/* ---- opening ---- */

/* Return the text a followed by b, owned by the caller; NULL if memory is exhausted. */
static char *joined(const char *a, const char *b)
{
    struct buf text = {0};
    buf_addf(&text, "%s%s", a, b);
    return buf_detach(&text);
}

/* Add "Name: value" to the headers of every request. */
static int add_header(struct served_target *t, const char *name, size_t n_name, const char *value,
                      struct err *e)
{
    struct buf text = {0};
    buf_addf(&text, "%.*s: %s", (int)n_name, name, value);
    char *line = buf_detach(&text);
    if (line && vec_push(&t->header, line)) return 0;
    free(line);
    return err_memory(e, "a header", n_name);
}

/* Read the headers and the key. --api-key has priority over $OPENAI_API_KEY. An empty key means
 * that there is no key. */
static int read_headers(struct served_target *t, struct err *e)
{
    const char *key = api_key ? api_key : getenv("OPENAI_API_KEY");
    struct buf bearer = {0};
    if (headers.n > HEADERS_MAX)
        return err_set(e, ERR_LIMIT, "--header: must come at most %d times, got %zu", HEADERS_MAX,
                       headers.n);
    buf_addf(&bearer, "Bearer %s", key ? key : "");
    int rc = key && *key ? add_header(t, "Authorization", 13, bearer.data, e) : 0;
    buf_deinit(&bearer);
    for (size_t i = 0; i < headers.n && rc == 0; i++) {
        const char *equals = strchr(headers.v[i], '=');
        rc = add_header(t, headers.v[i], (size_t)(equals - headers.v[i]), equals + 1, e);
    }
    return rc;
}

/* Read --backend. vllm and openai-completions are names of the backend openai. The report contains
 * the given name. */
static void read_backend(struct served_target *t)
{
    t->backend = backend;
    t->chat = strcmp(backend, "openai-chat") == 0;
}

/* Derive the URLs. The base URL has no final slash. A "/v1" at the end of the base URL is removed,
 * because it belongs to the endpoint. */
static void read_urls(struct served_target *t)
{
    const char *path = endpoint ? endpoint : t->chat ? "/v1/chat/completions" : "/v1/completions";
    struct buf b = {0};
    if (base_url)
        buf_add_text(&b, base_url);
    else if (uds)
        buf_add_text(&b, "http://localhost");
    else
        buf_addf(&b, strchr(host, ':') ? "http://[%s]:%lld" : "http://%s:%lld", host,
                 (long long)port);
    while (b.n > 0 && b.data[b.n - 1] == '/') b.data[--b.n] = '\0';
    if (text_n_ends_with(b.data, b.n, "/v1")) b.data[b.n -= 3] = '\0';
    t->base = buf_detach(&b);
    t->url = t->base ? joined(t->base, path) : NULL;
}

/* The caller calls target_close also after an error. */
int target_open(struct served_target *t, struct err *e)
{
    *t = (struct served_target){0};
    struct fetch_options o = {.unix_socket = uds, .ca_file = ca_file, .insecure = insecure};
    read_backend(t);
    read_urls(t);
    int rc = t->url ? 0 : err_memory(e, "a URL", 64);
    if (rc == 0) rc = read_headers(t, e);
    if (rc == 0 && model && !(t->model = strdup(served_name ? served_name : model)))
        rc = err_memory(e, "a name", strlen(model));
    return rc ? rc : fetch_open(&t->fetch, &o, e);
}

void target_close(struct served_target *t)
{
    fetch_close(t->fetch);
    free(t->base);
    free(t->url);
    free(t->model);
    free(t->root);
    for (size_t i = 0; i < t->header.n; i++) free(t->header.v[i]);
    vec_deinit(&t->header);
    *t = (struct served_target){0};
}

/* The returned request borrows the URL and the headers. The caller sets the callbacks that receive
 * the answer. */
struct fetch_request target_get(const struct served_target *t, const char *url)
{
    return (struct fetch_request){
        .url = url, .header = (const char *const *)t->header.v, .n_header = t->header.n};
}

/* ---- sending requests ---- */

/* Request a path, with POST if there is a body, otherwise with GET. The status must be 200. */
static int request_path(struct served_target *t, const char *path, const struct buf *body,
                        struct buf *answer, struct err *e)
{
    char *url = joined(t->base, path);
    int status = 0;
    if (!url) return err_memory(e, path, 64);
    struct fetch_request r = target_get(t, url);
    r.total_ms = UNMEASURED_MS;
    if (body) r.body = body->data, r.n_body = body->n;
    int rc = fetch_perform(t->fetch, &r, answer, &status, e);
    if (rc == 0 && status != 200)
        rc = err_set(e, ERR_UNSUPPORTED, "%s: expected status 200, got %d: %.200s", url, status,
                     answer->data ? answer->data : "");
    free(url);
    return rc;
}

/* Set *out to the parsed answer, which the caller owns. ERR_FORMAT if the answer is not JSON. */
static int send_json(struct served_target *t, const char *path, const struct buf *body,
                     struct json **out, struct err *e)
{
    struct buf answer = {0};
    int rc = request_path(t, path, body, &answer, e);
    if (rc == 0) {
        rc = json_parse(out, answer.data ? answer.data : "", answer.n, NULL, e);
        if (rc != 0) err_prefix(e, rc, "%s%s", t->base, path);
    }
    buf_deinit(&answer);
    return rc;
}

/* Return the item of /v1/models with the id `name`. Return the first item if name is NULL. NULL if
 * the list has no such item. */
static const struct json *find_model(const struct json *list, const char *name)
{
    for (size_t i = 0; name && i < json_count(list); i++) {
        const char *id = json_text(json_field(json_item(list, i), "id"), NULL);
        if (id && strcmp(id, name) == 0) return json_item(list, i);
    }
    return name ? NULL : json_item(list, 0);
}

/* Return a count reported by the server; 0 if the count is missing or invalid. */
static int count_of(const struct json *j)
{
    int64_t n = json_int(j, 0);
    return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

/* Set t's name, root, vocabulary and context to those of a model. m: NULL is allowed. quoth and
 * llama.cpp report meta.n_vocab, quoth and vLLM max_model_len. Missing figures are 0. */
static int take_model(struct served_target *t, const struct json *m, struct err *e)
{
    const char *id = json_text(json_field(m, "id"), NULL),
               *root = json_text(json_field(m, "root"), NULL);
    if (!t->model && !id)
        return err_set(e, ERR_MISSING, "%s/v1/models: model not found; give --model NAME", t->base);
    if (!t->model) t->model = strdup(id);
    t->root = strdup(root ? root : t->model ? t->model : "");
    const struct json *meta = json_field(m, "meta");
    t->n_vocab = count_of(json_field(meta, "n_vocab"));
    t->context_max = count_of(json_field(m, "max_model_len"));
    return t->model && t->root ? 0 : err_memory(e, "a name", 64);
}

/* A server without /v1/models is accepted if --model is given. */
int target_model(struct served_target *t, struct err *e)
{
    struct json *models = NULL;
    bool named = t->model != NULL;
    int rc = send_json(t, "/v1/models", NULL, &models, e);
    if (rc != 0 && !named) return rc;
    rc = take_model(t, rc ? NULL : find_model(json_field(models, "data"), t->model), e);
    json_drop(models);
    return rc;
}

/* Count the tokens of the text, which is sent as the member `key`. vLLM and quoth name the member
 * "prompt". llama.cpp names the member "content", and returns no tokens for unknown members. */
static int count_as(struct served_target *t, const char *key, const char *text, size_t n,
                    bool special, int *n_token, struct err *e)
{
    const char *yes = special ? "true" : "false";
    struct buf body = {0};
    struct json *j = NULL;
    buf_add_text(&body, "{\"model\":");
    json_put_text(&body, t->model, strlen(t->model));
    /* vLLM and quoth name the flag add_special_tokens, llama.cpp add_special */
    buf_addf(&body, ",\"add_special_tokens\":%s,\"add_special\":%s,\"%s\":", yes, yes, key);
    json_put_text(&body, text, n);
    buf_add_char(&body, '}');
    int rc = send_json(t, "/tokenize", &body, &j, e);
    buf_deinit(&body);
    if (rc != 0) return rc;
    /* vLLM reports {"count":5,"tokens":[...]}, llama.cpp only the tokens */
    *n_token = (int)json_int(json_field(j, "count"), -1);
    if (*n_token < 0) *n_token = (int)json_count(json_field(j, "tokens"));
    json_drop(j);
    return 0;
}

/* A count of 0 for a text that is not empty means that the server ignored "prompt". as_content
 * keeps the detected name, so only the first count requires two requests. */
int target_count(struct served_target *t, const char *text, size_t n, bool special, int *n_token,
                 struct err *e)
{
    int rc = count_as(t, t->as_content ? "content" : "prompt", text, n, special, n_token, e);
    if (rc != 0 || *n_token > 0 || n == 0 || t->as_content) return rc;
    t->as_content = true;
    return count_as(t, "content", text, n, special, n_token, e);
}

/* ---- /metrics ---- */

/* Most names are vLLM's. Figures that vLLM does not have are under quoth's names. scrape_sum
 * returns NAN for a missing name, and adds the series of several engines. */
void server_view_read(struct server_view *v, const char *metrics)
{
    struct scrape page = {0};
    /* the figures remain NAN if memory is exhausted */
    (void)scrape_read(&page, metrics, strlen(metrics));
    *v = (struct server_view){
        .running = scrape_sum(&page, "vllm:num_requests_running", NULL),
        .waiting = scrape_sum(&page, "vllm:num_requests_waiting", NULL),
        .kv_usage = scrape_sum(&page, "vllm:kv_cache_usage_perc", NULL),
        .running_max = scrape_sum(&page, "quoth:num_requests_running_max", NULL),
        .waiting_max = scrape_sum(&page, "quoth:num_requests_waiting_max", NULL),
        .kv_max = scrape_sum(&page, "quoth:kv_cache_usage_perc_max", NULL),
        .cache_queries = scrape_sum(&page, "vllm:prefix_cache_queries_total", NULL),
        .cache_hits = scrape_sum(&page, "vllm:prefix_cache_hits_total", NULL),
        .n_draft = scrape_sum(&page, "vllm:spec_decode_num_drafts_total", NULL),
        .draft_tokens = scrape_sum(&page, "vllm:spec_decode_num_draft_tokens_total", NULL),
        .accepted_tokens = scrape_sum(&page, "vllm:spec_decode_num_accepted_tokens_total", NULL),
        .flops = scrape_sum(&page, "vllm:estimated_flops_per_gpu_total", NULL),
        .read_bytes = scrape_sum(&page, "vllm:estimated_read_bytes_per_gpu_total", NULL),
        .peak_flops = scrape_sum(&page, "quoth:peak_flops", NULL),
        .peak_bytes = scrape_sum(&page, "quoth:peak_read_bytes_per_second", NULL),
        .preemptions = scrape_sum(&page, "vllm:num_preemptions_total", NULL),
    };
    scrape_deinit(&page);
}

/* Append the path of /metrics. quoth's server reports maxima of the last `window` seconds. Other
 * servers ignore the parameter `window`. */
static void put_metrics_path(struct buf *b, double window_s)
{
    buf_addf(b, "/metrics?window=%.3f", window_s);
}

void target_metrics_url(const struct served_target *t, double window_s, struct buf *out)
{
    buf_add_text(out, t->base);
    put_metrics_path(out, window_s);
}

/* *v is always set. All figures of *v are NAN after a failure. */
int target_view(struct served_target *t, double window_s, struct server_view *v, struct err *e)
{
    struct buf text = {0}, path = {0};
    put_metrics_path(&path, window_s);
    int rc =
        path.failed ? err_memory(e, "a URL", path.n) : request_path(t, path.data, NULL, &text, e);
    buf_deinit(&path);
    server_view_read(v, rc == 0 && text.data ? text.data : "");
    buf_deinit(&text);
    return rc;
}
