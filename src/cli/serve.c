/* serve.c - quoth serve: a model for OpenAI's clients, over HTTP.
 *
 *   flags -> session, engine, chat -> server_open
 *     ... until SIGTERM or SIGINT ... server_drain -> all closed
 *
 * After the first signal (also SIGHUP) the server rejects requests and completes responses in
 * flight (--shutdown-timeout). A second signal ends the program immediately, except SIGHUP.
 *
 * Wrong settings are reported before a model is loaded, which may take minutes. Flags are checked
 * by their forms, and keys and files are opened first. --check stops before the loading and prints
 * the configuration. The socket listens before the server reports READY=1, so that a client which
 * starts then can connect. */
#include "answer.h"
#include "serve_models.h"

#include "api/api.h"
#include "base/log.h"
#include "base/os.h"
#include "net/net.h"
#include "telemetry/telemetry.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* host and port of the flags; NULL and -1 if not given (set_address) */
static const char *model_flag, *host, *store_dir, *uds, *cert, *cert_key, *key_file,
    *access_log = "-", *proxies, *otlp_url, *log_format = "text", *pooling = "auto";
static int64_t port = -1, n_queue, n_conn, n_handler = 2, body_mib = 32, head_kib = 32,
               drain_s = 30, store_mib = -1, store_key_mib, store_hours = 720, head_s = 15,
               body_s = 30, idle_s = 75, write_s = 30, ping_s;
static bool ollama, no_access_log, separate, any_name, no_peaks, check_only;
/* values of flags that may be repeated; they borrow the command line */
static struct text_list keys, origins, hosts, names;

NAMES(log_formats, "text", "json")

static const struct option options[] = {
    TEXT_OPTION("model", "MODEL", &model_flag, "MODEL, for config files"),
    TEXT_OPTION("host", "ADDRESS", &host,
                "address to listen on, 0.0.0.0 or :: for every interface (default 127.0.0.1)"),
    INT_OPTION("port", "N", &port, 0, 65535, "port to listen on; 0: any free one (default 8000)"),
    FLAG_OPTION("ollama", &ollama,
                "listen on the address of Ollama's clients: OLLAMA_HOST, or 127.0.0.1:11434"),
    TEXT_OPTION("uds", "PATH", &uds, "listen on a unix socket instead of a port"),
    TEXT_OPTION("ssl-certfile", "FILE", &cert, "certificate for TLS with its chain, PEM"),
    TEXT_OPTION("ssl-keyfile", "FILE", &cert_key, "private key of the certificate for TLS, PEM"),
    LIST_OPTION("api-key", "KEY", &keys,
                "required key of requests, visible to other users of the machine (may be repeated)",
                .secret = true, .form = net_key_form),
    TEXT_OPTION("api-key-file", "FILE", &key_file,
                "file of keys, one per line: KEY [name=TEXT] [rate=PER_MINUTE] [share=WEIGHT] "
                "[role=admin]"),
    FLAG_OPTION("separate-caches", &separate,
                "do not share cached prefixes between keys, whose response times could reveal "
                "other prompts"),
    WORDS_OPTION("served-model-name", "NAME...", &names,
                 "name of the model for clients; *: any name (default: see below)"),
    NAME_OPTION("pooling", "KIND", &pooling, session_pooling_names,
                "pooling of /v1/embeddings: mean, last, first or auto (the model's own, else mean "
                "or last) (default auto)"),
    LIST_OPTION("allowed-origins", "ORIGIN", &origins,
                "additional origin of web pages that may use the server; *: all", .json = true,
                .form = net_origin_form),
    LIST_OPTION("allowed-hosts", "NAME", &hosts,
                "additional name of this machine, for a proxy in front of a server on loopback"),
    FORM_OPTION(
        "forwarded-allow-ips", "ADDRESSES", &proxies, net_proxies_form,
        "proxies (addresses, networks, unix; *: all) whose X-Forwarded-For contains the client"),
    INT_OPTION("max-queued-requests", "N", &n_queue, 0, 1 << 20,
               "maximum number of waiting requests; further requests get 429 (default 0: 1024)"),
    INT_OPTION(
        "max-connections", "N", &n_conn, 0, 1 << 20,
        "maximum number of connections; a further one replaces an idle one or gets 503 (default 0: "
        "1024)"),
    INT_OPTION("max-body-size", "MIB", &body_mib, 1, 4096,
               "maximum size of a request body (default 32)"),
    INT_OPTION("h11-max-incomplete-event-size", "KIB", &head_kib, 1, 1024,
               "maximum size of request line and headers (default 32)"),
    INT_OPTION("timeout-keep-alive", "S", &idle_s, 1, 86400,
               "close a connection that is idle for S seconds (default 75)"),
    INT_OPTION("timeout-head", "S", &head_s, 1, 86400,
               "close a connection whose request line and headers take longer than S seconds "
               "(default 15)"),
    INT_OPTION("timeout-body", "S", &body_s, 1, 86400,
               "close a connection whose body is more than S seconds behind a rate of 4 KiB/s "
               "(default 30)"),
    INT_OPTION("timeout-write", "S", &write_s, 1, 86400,
               "close a connection whose client does not read for S seconds (default 30)"),
    INT_OPTION("sse-ping-interval", "S", &ping_s, -1, 86400,
               "seconds of silence before a ping of a stream; -1: no pings (default 0: 15)"),
    INT_OPTION("shutdown-timeout", "S", &drain_s, 0, 86400,
               "seconds for responses in flight to finish after SIGTERM (default 30)"),
    INT_OPTION(
        "handler-threads", "N", &n_handler, 1, 256,
        "threads for JSON, templates and tokenization of short requests of a client (default 2)"),
    TEXT_OPTION("access-log", "FILE", &access_log,
                "file of the access log, a line per answer; -: standard error (default -)"),
    FLAG_OPTION("disable-access-log", &no_access_log, "do not log answers"),
    TEXT_OPTION("store", "FOLDER", &store_dir,
                "folder for stored responses, files and batches (default: in memory)"),
    INT_OPTION("store-size", "MIB", &store_mib, 0, 1 << 20,
               "maximum size of all records; 0: store nothing (default 128, with --store 4096)"),
    INT_OPTION(
        "store-size-per-key", "MIB", &store_key_mib, 0, 1 << 20,
        "maximum size for one API key; 0: half of --store-size with several keys (default 0)"),
    INT_OPTION("store-ttl", "HOURS", &store_hours, 0, 1 << 20,
               "delete records that were not used for HOURS; 0: never (default 720)"),
    FORM_OPTION("otlp-traces-endpoint", "URL", &otlp_url, telemetry_url_form,
                "URL of a collector of OpenTelemetry that receives a span per request (OTLP over "
                "HTTP)"),
    FLAG_OPTION("no-peaks", &no_peaks,
                "do not measure the machine's peaks, the basis of utilization in /metrics"),
    NAME_OPTION("log-format", "FORMAT", &log_format, log_formats,
                "format of the log: text or json (default text)"),
    FLAG_OPTION(
        "check", &check_only,
        "print the current configuration as a file for --config, check its files, and exit"),
    OPTIONS_OF(serve_models_options),
    OPTIONS_OF(request_default_options),
    OPTIONS_OF(structured_server_options),
    OPTIONS_OF(chat_options),
    OPTIONS_OF(chat_parser_options),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

/* ---- signals ---- */

/* descriptor of an eventfd, written by on_stop, read by wait_for_stop */
static int stop_fd = -1;

/* Handle a signal. The first signal wakes the main thread, and the second signal ends the process.
 * The handler calls only functions that are safe in signal handlers. */
static void on_stop(int sig)
{
    static volatile sig_atomic_t n_stop;
    uint64_t one = 1;
    static const char now[] = "quoth: second signal: stopping now\n",
                      now_json[] =
                          "{\"level\":\"info\",\"message\":\"second signal: stopping now\"}\n";
    ssize_t put;
    if (n_stop++ > 0 && sig != SIGHUP) { /* the shell and the system may both send SIGHUP */
        put = log_as_json ? write(STDERR_FILENO, now_json, sizeof now_json - 1)
                          : write(STDERR_FILENO, now, sizeof now - 1);
        _exit(1); /* check: requested by the second signal */
    }
    put = write(stop_fd, &one, sizeof one);
    (void)put;
}

/* Install the signal handlers, after the model is loaded. A signal during the load ends the program
 * as usual. */
static int catch_stop(struct err *e)
{
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    stop_fd = eventfd(0, EFD_CLOEXEC);
    if (stop_fd < 0)
        return err_set(e, ERR_IO, "cannot create an event descriptor: %s", strerror(errno));
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before;
    /* under nohup the process ignores SIGHUP */
    bool ignored = sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    /* the system sends SIGHUP after the terminal was closed */
    if (!ignored) sigaction(SIGHUP, &action, NULL);
    return 0;
}

/* Wait for the stop. A signal always interrupts poll; the thread sanitizer runs handlers only
 * between calls. */
static void wait_for_stop(void)
{
    struct pollfd p = {.fd = stop_fd, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR) continue;
}

/* ---- the server ---- */

/* Add the keys of --api-key and of the key file. An empty key file is an error, because the server
 * would be open to all clients. */
static int read_keys(struct net_keys *k, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < keys.n; i++) rc = net_keys_add(k, keys.v[i], NULL, e);
    if (rc == 0 && key_file) rc = net_keys_read(k, key_file, e);
    if (rc == 0 && key_file && k->n == 0)
        rc = err_set(e, ERR_ARG, "--api-key-file %s: key not found", key_file);
    return rc;
}

/* Return the maximum memory of all bodies together. With --memory-limit, return a quarter of the
 * memory that the plan left, but at least one body. */
static size_t body_total(void)
{
    /* eight bodies of the maximum size, at least 256 MiB */
    size_t one = (size_t)body_mib << 20, all = (size_t)(body_mib > 32 ? body_mib : 32) << 23;
    size_t max = os_memory_limited() ? os_memory_free() / 4 : all;
    if (all > max) all = max;
    return all > one ? all : one;
}

/* Return the server's options, which borrow the flags. server_open sets the fields for routes and
 * errors. */
static struct net_options net_flags(struct net_keys *k)
{
    return (struct net_options){
        .host = host,
        .port = (int)port,
        .uds = uds,
        .tls_cert = cert,
        .tls_key = cert_key,
        .keys = k,
        .origins = origins.v,
        .n_origin = (int)origins.n,
        .hosts = hosts.v,
        .n_host = (int)hosts.n,
        .proxies = proxies,
        .access_log = no_access_log ? NULL : access_log,
        .n_handler = (int)n_handler,
        .conn_max = (int)n_conn,
        .head_max = (size_t)head_kib << 10,
        .body_max = (size_t)body_mib << 20,
        .body_total_max = body_total(),
        .head_ms = (int)head_s * 1000,
        .body_ms = (int)body_s * 1000,
        .idle_ms = (int)idle_s * 1000,
        .write_ms = (int)write_s * 1000,
        .ping_ms = ping_s < 0 ? -1 : (int)ping_s * 1000,
    };
}

/* maximum delay by a slow reader of the log, in ms */
enum { LOG_END_MS = 1000, LOG_READY_MS = 500 };

/* Log a line at any log level. */
static void announce(const char *line)
{
    enum log_level level = log_level_max;
    log_level_max = level > LOG_INFO ? level : LOG_INFO;
    log_info("%s", line);
    log_level_max = level;
}

/* Log the stop, with the number of responses in flight, which delay the end of the program. */
static void announce_stop(const struct net *n)
{
    char line[160];
    int n_flight = net_stats(n).n_answer;
    snprintf(
        line, sizeof line,
        "stopping: finishing %d response%s, at most %d s; SIGINT or a second SIGTERM stops now",
        n_flight, n_flight == 1 ? "" : "s", (int)drain_s);
    announce(n_flight ? line : "stopping");
}

/* Serve until a signal arrives. */
static void serve(struct server *s, const char *name)
{
    const struct net *n = server_net(s);
    if (net_public(n) && keys.n == 0 && !key_file)
        log_warn("%s accepts requests without a key; --api-key requires one", net_url(n));
    char line[600];
    snprintf(line, sizeof line, "%s at %s", name, net_url(n));
    announce(line);
    log_flush(
        LOG_READY_MS); /* log the address before systemd starts units that depend on this unit */
    /* the socket already listens, so a unit that starts now can connect */
    net_notify("READY=1");
    wait_for_stop();
    announce_stop(n);
    net_notify("STOPPING=1");
    server_drain(s, (int)drain_s * 1000);
}

/* Open the store; *out is NULL if --store-size is 0. With several keys, each key has at most half
 * of the store. */
static int open_store(struct store **out, const struct net_keys *k, struct err *e)
{
    const int64_t mib = 1 << 20,
                  all = store_mib >= 0 ? store_mib
                        : store_dir    ? 4096
                                       : 128,
                  half = all * mib / (k->n > 1 ? 2 : 1);
    *out = NULL;
    if (all == 0 && store_dir) return err_set(e, ERR_ARG, "--store needs --store-size > 0");
    if (all == 0) return 0;
    return store_open(
        out,
        &(struct store_options){.dir = store_dir,
                                .bytes_max = all * mib,
                                .holder_bytes_max = store_key_mib ? store_key_mib * mib : half,
                                .unused_us = store_hours * 3600 * 1000000},
        e);
}

/* Open the registry of the models: of the api's session, or of models that are loaded later (model,
 * or those of --models-dir). */
static int open_models(struct models **models, struct serve_models **many, const struct api *api,
                       const struct served_spec *spec, const char *model, size_t body_bytes,
                       struct err *e)
{
    struct models_options o = {.spec = spec, .n = 1, .only = api};
    int rc = 0;
    if (!api->session) {
        rc = serve_models_open(many,
                               &(struct serve_models_options){.model = model,
                                                              .name = names.v,
                                                              .n_name = (int)names.n,
                                                              .common = api,
                                                              .pooling = pooling,
                                                              .n_queue = (int)n_queue,
                                                              .body_bytes = body_bytes},
                               e);
        if (rc == 0) serve_models_registry(&o, *many);
    }
    return rc ? rc : models_open(models, &o, e);
}

/* Parts of a server. Each part is owned, and NULL before it is opened. */
struct serve_parts {
    struct server *server;
    struct store *store;
    struct peaks *peaks;
    struct telemetry *telemetry;
    struct models *models;
    struct serve_models *many;
};

/* Open the parts. Signals are caught before the server accepts requests. The log's writer starts
 * before the access log shares it. The caller closes the parts, also after an error. */
static int open_parts(struct serve_parts *v, struct api *api, const struct served_spec *spec,
                      const char *model, struct net_keys *k, struct err *e)
{
    const bool has_model = api->session != NULL;
    struct server_options o = {.net = net_flags(k),
                               .any_name = any_name,
                               .ollama = ollama,
                               .hub = serve_models_hub(),
                               .version = QUOTH_VERSION,
                               .separate_caches = separate};
    int rc = open_store(&v->store, k, e);
    api->store = v->store;
    if (rc == 0 && has_model) rc = session_pooling(&api->pooling, api->session, pooling, e);
    if (rc == 0 && has_model && !no_peaks)
        rc = peaks_open(&v->peaks, api->session, &session_flags, e);
    if (rc == 0) rc = catch_stop(e);
    if (rc == 0) rc = log_begin(e);
    if (rc == 0) rc = telemetry_open(&v->telemetry, otlp_url, e);
    if (rc == 0) rc = open_models(&v->models, &v->many, api, spec, model, o.net.body_total_max, e);
    o.store = v->store;
    o.peaks = v->peaks;
    o.telemetry = v->telemetry;
    o.models = v->models;
    return rc ? rc : server_open(&v->server, &o, e);
}

/* Close the parts. The server is closed first, because its threads use all other parts. */
static void close_parts(struct serve_parts *v)
{
    server_close(v->server);
    telemetry_close(v->telemetry);
    models_close(v->models);
    serve_models_close(v->many);
    store_close(v->store);
    peaks_close(v->peaks);
}

/* Serve the api's session, or models that are loaded later if it has none: model, or those of
 * --models-dir if model is NULL. */
static int serve_api(struct api *api, const char *model, struct net_keys *k, struct err *e)
{
    /* the name for clients: that on the hub, else that in the file; --served-model-name replaces
     * both */
    const char *own = model ? model_hub_name(model) : NULL;
    if (!own) own = api->session ? model_info(api->session->model)->name : NULL;
    const struct served_spec spec = {.name = names.n ? names.v : &own,
                                     .n_name = names.n ? (int)names.n : 1};
    struct serve_parts v = {0};
    char fingerprint[40], title[40];
    snprintf(fingerprint, sizeof fingerprint, "quoth-%s", QUOTH_VERSION);
    api->name = spec.name[0];
    api->fingerprint = fingerprint;
    api->streams = true;
    structured_read(api);
    int rc = open_parts(&v, api, &spec, model, k, e);
    if (rc == 0) {
        /* the log's first line has the name of the only model, or the number of models */
        const int n = models_n(v.models);
        snprintf(title, sizeof title, "%d models", n);
        serve(v.server, n == 1 ? served_spec(models_at(v.models, 0))->name[0] : title);
    }
    close_parts(&v);
    return rc;
}

/* Return the last word of --served-model-name if it is a file; NULL if not. The flag takes all
 * words up to the next flag, like vLLM's flag. The flag therefore also takes MODEL in
 * "--served-model-name NAME MODEL". */
static const char *model_after_names(void)
{
    if (names.n < 2 ||
        (!file_exists(names.v[names.n - 1]) && !model_hub_name(names.v[names.n - 1])))
        return NULL;
    return names.v[--names.n];
}

/* Remove "*" from the names, and keep the remaining names. "*" accepts every name. */
static void take_star(void)
{
    size_t n = 0;
    for (size_t i = 0; i < names.n; i++) {
        bool star = strcmp(names.v[i], "*") == 0;
        any_name |= star;
        if (!star) names.v[n++] = names.v[i];
    }
    names.n = n;
}

/* Set the format of the log before the first log line, so that all lines have equal formats. */
static void prepare(void)
{
    log_as_json = strcmp(log_format, "json") == 0;
}

/* Check the files and the host that are used only after the model is loaded. */
static int check_files(struct err *e)
{
    const struct {
        const char *flag, *path; /* static; path: borrowed */
    } file[] = {{"ssl-certfile", cert}, {"ssl-keyfile", cert_key}};
    for (int i = 0; i < 2; i++)
        if (file[i].path && access(file[i].path, R_OK) != 0)
            return err_set(e, ERR_ARG, "--%s %s: cannot open: %s", file[i].flag, file[i].path,
                           strerror(errno));
    if (!cert != !cert_key)
        return err_set(e, ERR_ARG, "--%s needs --%s too", file[!cert].flag, file[!!cert].flag);
    const struct net_options o = {
        .host = host, .port = (int)port, .uds = uds, .tls_cert = cert, .tls_key = cert_key};
    const int rc = net_check(&o, e);
    return rc ? rc : telemetry_check(otlp_url, e);
}

/* Check the flags of several models, and limit the memory of the process for all models. */
static int begin_many(const char *model, struct err *e)
{
    const int64_t limit = session_bytes(session_flags.memory_limit);
    const char *flag = model ? "MODEL" : names.n ? "--served-model-name" : NULL;
    if (flag && serve_models_given())
        return err_set(e, ERR_ARG,
                       "%s: must not come with --models-dir, --models-preset or --models-hub",
                       flag);
    if (limit > 0) os_memory_limit((uint64_t)limit, 0);
    return 0;
}

/* Print the configuration as a file that starts a server. */
static void print_configuration(void)
{
    check_only = false;
    options_print(options, stdout);
}

/* Run --check for several models: read their list. */
static int check_many(const char *model, struct err *e)
{
    struct serve_models *m = NULL;
    const struct api api = {0};
    int rc = serve_models_open(&m,
                               &(struct serve_models_options){.model = model,
                                                              .name = names.v,
                                                              .n_name = (int)names.n,
                                                              .common = &api,
                                                              .pooling = pooling},
                               e);
    serve_models_close(m);
    if (rc == 0) print_configuration();
    return rc;
}

/* Run --check: read the model's header, tokenizer and template, and the adapters' configurations,
 * but no weights. */
static int check_command(const char *model, struct err *e)
{
    struct session s = {0};
    struct chat chat = {0};
    struct api api = {0};
    model_flag = model;
    int rc = session_checkpoint(&s.checkpoint, model, &session_flags, true, e);
    if (rc == 0) rc = session_quantization(&s.quantization, &session_flags, s.checkpoint, e);
    if (rc == 0) rc = session_tokenizer(&s.tokenizer, s.checkpoint, &session_flags, e);
    if (rc == 0) rc = session_open_adapters(&s, &session_flags, e);
    if (rc == 0) rc = chat_open(&chat, &s, &session_flags, e);
    if (rc == 0) rc = request_defaults(&api, s.checkpoint, e);
    if (rc == 0) print_configuration();
    chat_close(&chat);
    session_close(&s);
    return rc;
}

/* Set host and port if they are not given. */
static int set_address(struct err *e)
{
    static char own[OLLAMA_HOST_BYTES] = "127.0.0.1";
    int own_port = 8000;
    int rc = ollama ? ollama_address(own, &own_port, getenv("OLLAMA_HOST"), e) : 0;
    if (!host) host = own;
    if (port < 0) port = own_port;
    return rc;
}

/* Open the only model, and serve it. */
static int serve_one(const char *model, struct net_keys *k, struct err *e)
{
    struct session s = {0};
    struct chat chat = {0};
    struct api api = {.session = &s, .chat = &chat};
    int rc = session_open_sized(&s, model, &session_many, e);
    if (rc == 0)
        rc = session_start(&s, &session_flags, names.n ? names.v[0] : model_hub_name(model),
                           (int)n_queue, e);
    if (rc == 0) rc = chat_open(&chat, &s, &session_flags, e);
    if (rc == 0) rc = request_defaults(&api, s.checkpoint, e);
    if (rc == 0) rc = serve_api(&api, model, k, e);
    chat_close(&chat);
    session_close(&s);
    return rc;
}

/* Print an error. The error for a folder of models names the flag that serves them. */
static int fail_advised(const char *model, struct err *e)
{
    char config[4096];
    const struct err why = *e;
    if (model && dir_exists(model) && path_join(config, sizeof config, model, "config.json") &&
        !file_exists(config))
        err_set(e, ERR_MISSING, "%s; the models of a folder need --models-dir", why.text);
    return fail("serve", e);
}

/* Run the command. Keys and files are checked before the model is loaded, because loading may take
 * minutes. The scheduler "auto" means "fair" for a server, because a server has many clients. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct net_keys k = {0};
    struct api none = {0};
    /* a server frees large buffers of long prompts, and returns them to the system */
    os_return_memory();
    const bool several = serve_models_given(), many = serve_models_needed();
    const char *named = n_arg        ? arg[0]
                        : model_flag ? model_flag
                        : several    ? NULL
                                     : model_after_names();
    const char *model = named || several ? named : session_bundled(NULL, &e);
    int rc = model || several ? read_keys(&k, &e) : ERR_MISSING;
    if (rc == 0) rc = serve_models_check(&e);
    if (rc == 0 && many) rc = begin_many(model, &e);
    if (rc == 0) rc = set_address(&e);
    if (rc == 0) rc = check_files(&e);
    if (rc == 0 && check_only) {
        rc = many ? check_many(model, &e) : check_command(model, &e);
        net_keys_deinit(&k);
        log_end(LOG_END_MS);
        return rc ? fail_advised(model, &e) : 0;
    }
    take_star();
    /* one client with many requests must not delay the others */
    if (strcmp(session_flags.scheduler, "auto") == 0) session_flags.scheduler = "fair";
    if (rc == 0) rc = many ? serve_api(&none, model, &k, &e) : serve_one(model, &k, &e);
    /* the server is closed, so no request refers to a key */
    net_keys_deinit(&k);
    log_end(LOG_END_MS);
    return rc ? fail_advised(model, &e) : 0;
}

static const char detail[] = "Endpoints: "
#define ROUTE(method, path, handler, flags) method " " path ", "
#define DIALECT(path, id)                   "POST " path ", "
#include "api/routes.def"
#undef ROUTE
#undef DIALECT
                             "and HEAD for each GET. On SIGTERM the server completes requests in "
                             "flight. The default name of MODEL is its name on the hub (org/repo, "
                             "llama3.2:1b), else general.name of the GGUF, else the name of the "
                             "file or folder. Models of --models-dir have the names of their files "
                             "and folders.";

const struct command command_serve = {
    .name = "serve",
    .summary = "serve a model over HTTP, with OpenAI's API",
    .usage = "[MODEL] [OPTIONS]",
    .detail = detail,
    .options = options,
    .arg_max = 1,
    .prepare = prepare,
    .run = run,
};
