/* served_target.c - the server that quoth bench serve asks: where it is, who asks, which model it has, how it counts
 * tokens, what it tells about itself; see served.h. */
#include "served.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { ASK_MS = 30000 }; /* for what is asked beside the measurement */

static const char *base_url, *host = "127.0.0.1", *uds, *endpoint, *backend = "openai", *model,
                             *served_name, *api_key, *ca_file;
static int64_t port = 8000;
static struct text_list headers;
static bool insecure;

const struct option target_options[] = {
    TEXT_OPTION("base-url", "URL", &base_url,
                "of the server, http or https, in the place of host and port"),
    TEXT_OPTION("host", "ADDRESS", &host, "of the server (127.0.0.1)"),
    INT_OPTION("port", "N", &port, 1, 65535, "of the server (8000)"),
    TEXT_OPTION("uds", "PATH", &uds, "the server's unix socket, in their place"),
    TEXT_OPTION("backend", "openai|openai-chat", &backend,
                "prompts, or conversations of one message (openai; vllm means the same)"),
    TEXT_OPTION("endpoint", "PATH", &endpoint,
                "(/v1/completions; openai-chat: /v1/chat/completions)"),
    TEXT_OPTION("model", "NAME", &model, "which of the server's (its first)"),
    TEXT_OPTION("served-model-name", "NAME", &served_name,
                "what requests call it, where that is another name"),
    TEXT_OPTION("api-key", "KEY", &api_key, "(the environment's OPENAI_API_KEY)"),
    WORDS_OPTION("header", "KEY=VALUE...", &headers, "further headers of each request"),
    FLAG_OPTION("insecure", &insecure, "any certificate will do"),
    TEXT_OPTION("ssl-ca-file", "FILE", &ca_file, "certificates to trust (the system's)"),
    OPTIONS_END,
};

/* ---- opening ---- */

static char *joined(const char *a, const char *b)
{
    struct buf text = {0};
    buf_addf(&text, "%s%s", a, b);
    return buf_detach(&text);
}

static int add_header(struct target *t, const char *name, size_t n_name, const char *value,
                      struct err *e)
{
    struct buf text = {0};
    buf_addf(&text, "%.*s: %s", (int)n_name, name, value);
    char *line = buf_detach(&text);
    if (line && vec_push(&t->header, line)) return 0;
    free(line);
    return err_memory(e, "a header", n_name);
}

static int read_headers(struct target *t, struct err *e)
{
    const char *key = api_key ? api_key : getenv("OPENAI_API_KEY");
    struct buf bearer = {0};
    if (headers.n > N_HEADER_MAX)
        return err_set(e, ERR_LIMIT, "--header: more than %d of them", N_HEADER_MAX);
    buf_addf(&bearer, "Bearer %s", key ? key : "");
    int rc = key && *key ? add_header(t, "Authorization", 13, bearer.data, e) : 0;
    buf_deinit(&bearer);
    for (size_t i = 0; i < headers.n && rc == 0; i++) {
        const char *equals = strchr(headers.v[i], '=');
        if (!equals || equals == headers.v[i] || strpbrk(headers.v[i], "\r\n"))
            return err_set(e, ERR_ARG, "--header: \"%.60s\" is not KEY=VALUE", headers.v[i]);
        rc = add_header(t, headers.v[i], (size_t)(equals - headers.v[i]), equals + 1, e);
    }
    return rc;
}

static int read_backend(struct target *t, struct err *e)
{
    t->backend = backend;
    t->chat = strcmp(backend, "openai-chat") == 0;
    if (t->chat || strcmp(backend, "openai") == 0 || strcmp(backend, "vllm") == 0 ||
        strcmp(backend, "openai-completions") == 0)
        return 0;
    return err_set(e, ERR_ARG, "--backend: \"%.40s\" is not openai or openai-chat", backend);
}

/* The base without a slash at its end; "/v1" at the end of one is taken for the endpoint's. */
static void read_urls(struct target *t)
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
    if (b.n > 3 && strcmp(b.data + b.n - 3, "/v1") == 0) b.data[b.n -= 3] = '\0';
    t->base = buf_detach(&b);
    t->url = t->base ? joined(t->base, path) : NULL;
}

int target_open(struct target *t, struct err *e)
{
    *t = (struct target){0};
    struct fetch_options o = {.unix_socket = uds, .ca_file = ca_file, .insecure = insecure};
    int rc = read_backend(t, e);
    if (rc == 0) read_urls(t);
    if (rc == 0 && !t->url) rc = err_memory(e, "a URL", 64);
    if (rc == 0) rc = read_headers(t, e);
    if (rc == 0 && model && !(t->model = strdup(served_name ? served_name : model)))
        rc = err_memory(e, "a name", strlen(model));
    return rc ? rc : fetch_open(&t->fetch, &o, e);
}

void target_close(struct target *t)
{
    fetch_close(t->fetch);
    free(t->base);
    free(t->url);
    free(t->model);
    free(t->root);
    for (size_t i = 0; i < t->header.n; i++) free(t->header.v[i]);
    vec_deinit(&t->header);
    *t = (struct target){0};
}

struct fetch_request target_get(const struct target *t, const char *url)
{
    return (struct fetch_request){
        .url = url, .header = (const char *const *)t->header.v, .n_header = t->header.n};
}

/* ---- asking ---- */

/* A path of the server's, with a body to POST or without one; the answer must have status 200. */
static int ask(struct target *t, const char *path, const struct buf *body, struct buf *answer,
               struct err *e)
{
    char *url = joined(t->base, path);
    int status = 0;
    if (!url) return err_memory(e, path, 64);
    struct fetch_request r = target_get(t, url);
    r.total_ms = ASK_MS;
    if (body) r.body = body->data, r.n_body = body->n;
    int rc = fetch_ask(t->fetch, &r, answer, &status, e);
    if (rc == 0 && status != 200)
        rc = err_set(e, ERR_UNSUPPORTED, "%s: the server answers %d: %.200s", url, status,
                     answer->data ? answer->data : "");
    free(url);
    return rc;
}

static int ask_json(struct target *t, const char *path, const struct buf *body, struct json **out,
                    struct err *e)
{
    struct buf answer = {0};
    int rc = ask(t, path, body, &answer, e);
    if (rc == 0) {
        rc = json_parse(out, answer.data ? answer.data : "", answer.n, NULL, e);
        if (rc != 0) err_prefix(e, rc, "%s%s", t->base, path);
    }
    buf_deinit(&answer);
    return rc;
}

static const struct json *find_model(const struct json *list, const char *name)
{
    for (size_t i = 0; name && i < json_count(list); i++) {
        const char *id = json_text(json_field(json_item(list, i), "id"), NULL);
        if (id && strcmp(id, name) == 0) return json_item(list, i);
    }
    return name ? NULL : json_item(list, 0);
}

static int take_model(struct target *t, const struct json *m, struct err *e)
{
    const char *id = json_text(json_field(m, "id"), NULL),
               *root = json_text(json_field(m, "root"), NULL);
    if (!t->model && !id)
        return err_set(e, ERR_MISSING, "%s/v1/models names no model; --model NAME does", t->base);
    if (!t->model) t->model = strdup(id);
    t->root = strdup(root ? root : t->model ? t->model : "");
    const struct json *meta = json_field(m, "meta");
    t->n_vocab = (int)json_int(json_field(meta, "n_vocab"), 0);
    t->context_max = (int)json_int(json_field(m, "max_model_len"), 0);
    return t->model && t->root ? 0 : err_memory(e, "a name", 64);
}

int target_model(struct target *t, struct err *e)
{
    struct json *models = NULL;
    bool named = t->model != NULL;
    int rc = ask_json(t, "/v1/models", NULL, &models, e);
    if (rc != 0 && !named) return rc;
    rc = take_model(t, rc ? NULL : find_model(json_field(models, "data"), t->model), e);
    json_drop(models);
    return rc;
}

/* vLLM and quoth call the text "prompt", llama.cpp calls it "content" and makes no tokens of what it does not know. */
static int count_as(struct target *t, const char *key, const char *text, size_t n, bool special,
                    int *n_token, struct err *e)
{
    const char *yes = special ? "true" : "false";
    struct buf body = {0};
    struct json *j = NULL;
    buf_add_text(&body, "{\"model\":");
    json_put_text(&body, t->model, strlen(t->model));
    buf_addf(&body, ",\"add_special_tokens\":%s,\"add_special\":%s,\"%s\":", yes, yes, key);
    json_put_text(&body, text, n);
    buf_add_char(&body, '}');
    int rc = ask_json(t, "/tokenize", &body, &j, e);
    buf_deinit(&body);
    if (rc != 0) return rc;
    *n_token = (int)json_int(json_field(j, "count"), -1);
    if (*n_token < 0) *n_token = (int)json_count(json_field(j, "tokens"));
    json_drop(j);
    return 0;
}

int target_count(struct target *t, const char *text, size_t n, bool special, int *n_token,
                 struct err *e)
{
    int rc = count_as(t, t->as_content ? "content" : "prompt", text, n, special, n_token, e);
    if (rc != 0 || *n_token > 0 || n == 0 || t->as_content) return rc;
    t->as_content = true;
    return count_as(t, "content", text, n, special, n_token, e);
}

/* ---- /metrics ---- */

void server_view_read(struct server_view *v, const char *metrics)
{
    struct scrape page = {0};
    (void)scrape_read(&page, metrics, strlen(metrics)); /* no memory: nothing is there */
    *v = (struct server_view){
        .running = scrape_sum(&page, "vllm:num_requests_running", NULL),
        .waiting = scrape_sum(&page, "vllm:num_requests_waiting", NULL),
        .kv_usage = scrape_sum(&page, "vllm:kv_cache_usage_perc", NULL),
        .cache_queries = scrape_sum(&page, "vllm:prefix_cache_queries_total", NULL),
        .cache_hits = scrape_sum(&page, "vllm:prefix_cache_hits_total", NULL),
        .n_draft = scrape_sum(&page, "vllm:spec_decode_num_drafts_total", NULL),
        .draft_tokens = scrape_sum(&page, "vllm:spec_decode_num_draft_tokens_total", NULL),
        .accepted_tokens = scrape_sum(&page, "vllm:spec_decode_num_accepted_tokens_total", NULL),
        .flops = scrape_sum(&page, "vllm:estimated_flops_per_gpu_total", NULL),
        .read_bytes = scrape_sum(&page, "vllm:estimated_read_bytes_per_gpu_total", NULL),
        .preemptions = scrape_sum(&page, "vllm:num_preemptions_total", NULL),
    };
    scrape_deinit(&page);
}

int target_view(struct target *t, struct server_view *v, struct err *e)
{
    struct buf text = {0};
    int rc = ask(t, "/metrics", NULL, &text, e);
    server_view_read(v, rc == 0 && text.data ? text.data : "");
    buf_deinit(&text);
    return rc;
}
