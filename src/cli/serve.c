/* serve.c - quoth serve: a model for OpenAI's clients, over HTTP.
 *
 *   flags -> session, engine, chat -> server_open
 *     ... until SIGTERM or SIGINT ... server_drain -> all closed
 *
 * After the first signal (also SIGHUP) the server rejects requests and completes responses in
 * flight (--shutdown-timeout). A second signal ends the program immediately, except SIGHUP. */
#include "answer.h"

#include "api/api.h"
#include "base/log.h"
#include "base/os.h"
#include "net/net.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const char *model_flag, *host = "127.0.0.1", *uds, *cert, *cert_key, *key_file,
                               *access_log = "-", *proxies, *log_format = "text", *pooling = "auto";
static int64_t port = 8000, n_queue, n_conn, n_handler = 2, body_mib = 32, head_kib = 32,
               drain_s = 30, head_s = 15, body_s = 30, idle_s = 75, write_s = 30;
static bool no_access_log, separate, any_name, no_peaks, check_only;
static struct text_list keys, origins, hosts, names;

NAMES(log_formats, "text", "json")

static const struct option options[] = {
    TEXT_OPTION("model", "MODEL", &model_flag, "MODEL, for config files"),
    TEXT_OPTION("host", "ADDRESS", &host,
                "address to listen on, 0.0.0.0 or :: for every interface (default 127.0.0.1)"),
    INT_OPTION("port", "N", &port, 0, 65535, "port to listen on; 0: any free one (default 8000)"),
    TEXT_OPTION("uds", "PATH", &uds, "listen on a unix socket instead"),
    TEXT_OPTION("ssl-certfile", "FILE", &cert, "TLS: certificate with its chain, PEM"),
    TEXT_OPTION("ssl-keyfile", "FILE", &cert_key, "TLS: private key of the certificate, PEM"),
    LIST_OPTION("api-key", "KEY", &keys,
                "required key of requests, visible to other users of the machine (may be repeated)",
                .secret = true, .form = net_key_form),
    TEXT_OPTION(
        "api-key-file", "FILE", &key_file,
        "a key per line: KEY [name=TEXT] [rate=REQUESTS PER MINUTE] [share=WEIGHT] [role=admin]"),
    FLAG_OPTION("separate-caches", &separate,
                "do not share cached prefixes between keys, whose response times could reveal "
                "other prompts"),
    WORDS_OPTION("served-model-name", "NAME...", &names,
                 "name of the model for clients; *: any name (default: the model's own name)"),
    NAME_OPTION("pooling", "KIND", &pooling, session_pooling_names,
                "pooling of /v1/embeddings: mean, last, first or auto: the model's own, else "
                "mean or last (default auto)"),
    LIST_OPTION("allowed-origins", "ORIGIN", &origins,
                "origin of web pages that may use the server, besides this machine's; *: all",
                .json = true, .form = net_origin_form),
    LIST_OPTION("allowed-hosts", "NAME", &hosts,
                "additional name of this machine, for a proxy in front of a server on loopback"),
    FORM_OPTION(
        "forwarded-allow-ips", "ADDRESSES", &proxies, net_proxies_form,
        "proxies (addresses, networks, unix; *: all) whose X-Forwarded-For contains the client"),
    INT_OPTION("max-queued-requests", "N", &n_queue, 0, 1 << 20,
               "maximum number of waiting requests; more get 429 (default 0: 1024)"),
    INT_OPTION("max-connections", "N", &n_conn, 0, 1 << 20,
               "maximum number of connections; more close the oldest idle one, or get 503 (default "
               "0: 1024)"),
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
    INT_OPTION("shutdown-timeout", "S", &drain_s, 0, 86400,
               "seconds for responses in flight to finish after SIGTERM (default 30)"),
    INT_OPTION(
        "handler-threads", "N", &n_handler, 1, 256,
        "threads for JSON, templates and tokenization of one client's short requests (default 2)"),
    TEXT_OPTION("access-log", "FILE", &access_log,
                "file with a line per answer; -: standard error (default -)"),
    FLAG_OPTION("disable-access-log", &no_access_log, "do not log answers"),
    FLAG_OPTION("no-peaks", &no_peaks,
                "do not measure the machine's peaks, the basis of utilization in /metrics"),
    NAME_OPTION("log-format", "FORMAT", &log_format, log_formats, "text or json (default text)"),
    FLAG_OPTION(
        "check", &check_only,
        "print the current configuration as a file for --config, check its files, and exit"),
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

/* The first signal wakes the main thread, the second one ends the process. Only functions that are
 * safe in signal handlers are called. */
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
        _exit(1);
    }
    put = write(stop_fd, &one, sizeof one);
    (void)put;
}

/* The handlers are installed after the model is loaded. A signal during the load ends the program
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
    /* nohup ignores SIGHUP */
    bool ignored = sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!ignored) sigaction(SIGHUP, &action, NULL); /* SIGHUP: the terminal was closed */
    return 0;
}

/* Wait with poll, because a signal always interrupts it. The thread sanitizer runs handlers only
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
    size_t one = (size_t)body_mib << 20, all = (size_t)(body_mib > 32 ? body_mib : 32) << 23;
    size_t max = os_memory_limited() ? os_memory_free() / 4 : all;
    if (all > max) all = max;
    return all > one ? all : one;
}

/* The result borrows the flags. Routes and errors are set by server_open. */
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
    };
}

/* maximum delay by a slow reader of the log */
enum { LOG_END_MS = 1000, LOG_READY_MS = 500 };

/* Log a line at any log level. */
static void announce(const char *line)
{
    enum log_level level = log_level_max;
    log_level_max = level > LOG_INFO ? level : LOG_INFO;
    log_info("%s", line);
    log_level_max = level;
}

/* The number of responses in flight explains why the program does not end immediately. */
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
    /* the socket listens already, so a unit that starts now can connect */
    net_notify("READY=1");
    wait_for_stop();
    announce_stop(n);
    net_notify("STOPPING=1");
    server_drain(s, (int)drain_s * 1000);
}

/* Signals are caught before the server accepts requests. The log's writer starts before the access
 * log shares it. */
static int serve_session(const struct session *s, const struct chat *chat, struct net_keys *k,
                         const struct sample_params *defaults, struct err *e)
{
    struct server *server = NULL;
    struct peaks *peaks = NULL;
    const char *own = model_info(s->model)->name;
    char fingerprint[40];
    snprintf(fingerprint, sizeof fingerprint, "quoth-%s", QUOTH_VERSION);
    struct api api = {.session = s,
                      .chat = chat,
                      .name = names.n ? names.v[0] : own,
                      .fingerprint = fingerprint,
                      .defaults = *defaults,
                      .streams = true};
    struct server_options o = {.net = net_flags(k),
                               .api = &api,
                               .name = names.n ? names.v : &own,
                               .n_name = names.n ? (int)names.n : 1,
                               .any_name = any_name,
                               .version = QUOTH_VERSION,
                               .separate_caches = separate};
    structured_read(&api);
    int rc = session_pooling(&api.pooling, s, pooling, e);
    if (rc == 0 && !no_peaks) rc = peaks_open(&peaks, s, &session_flags, e);
    o.peaks = peaks;
    if (rc == 0) rc = catch_stop(e);
    if (rc == 0) rc = log_begin(e);
    if (rc == 0) rc = server_open(&server, &o, e);
    if (rc == 0) serve(server, api.name);
    server_close(server);
    peaks_close(peaks);
    return rc;
}

/* Return the last word of --served-model-name if that word is a file; NULL otherwise. The flag
 * takes all words up to the next flag, like vLLM's. So the flag also takes MODEL in
 * "--served-model-name NAME MODEL". */
static const char *model_after_names(void)
{
    if (names.n < 2 || !file_exists(names.v[names.n - 1])) return NULL;
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

/* Call this function before the first log line, so that all lines have equal formats. */
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
    return net_check(&o, e);
}

/* --check: read the model's header, tokenizer and template, and the adapters' configurations, but
 * no weights. */
static int check_command(const char *model, struct err *e)
{
    struct session s = {0};
    struct chat chat = {0};
    struct sample_params p;
    model_flag = model;
    check_only = false; /* the printed file must start a server */
    options_print(options, stdout);
    int rc = session_checkpoint(&s.checkpoint, model, &session_flags, true, e);
    if (rc == 0) rc = session_quantization(&s.quantization, &session_flags, s.checkpoint, e);
    if (rc == 0) rc = session_tokenizer(&s.tokenizer, s.checkpoint, e);
    if (rc == 0) rc = session_open_adapters(&s, &session_flags, e);
    if (rc == 0) rc = chat_open(&chat, &s, &session_flags, e);
    if (rc == 0) rc = request_defaults(&p, s.checkpoint, e);
    chat_close(&chat);
    session_close(&s);
    return rc;
}

/* Keys and files are checked before the model is loaded, because loading may take minutes. A server
 * has many clients, so the scheduler "auto" means "fair" here. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct session s = {0};
    struct chat chat = {0};
    struct net_keys k = {0};
    struct sample_params defaults;
    os_return_memory();
    const char *named = n_arg ? arg[0] : model_flag ? model_flag : model_after_names();
    const char *model = named ? named : session_bundled(NULL, &e);
    int rc = model ? read_keys(&k, &e) : ERR_MISSING;
    if (rc == 0) rc = check_files(&e);
    if (rc == 0 && check_only) {
        rc = check_command(model, &e);
        net_keys_deinit(&k);
        log_end(LOG_END_MS);
        return rc ? fail("serve", &e) : 0;
    }
    take_star();
    if (strcmp(session_flags.scheduler, "auto") == 0) session_flags.scheduler = "fair";
    if (rc == 0) rc = session_open_sized(&s, model, &session_many, &e);
    if (rc == 0)
        rc = session_start(&s, &session_flags, names.n ? names.v[0] : NULL, (int)n_queue, &e);
    if (rc == 0) rc = chat_open(&chat, &s, &session_flags, &e);
    if (rc == 0) rc = request_defaults(&defaults, s.checkpoint, &e);
    if (rc == 0) rc = serve_session(&s, &chat, &k, &defaults, &e);
    chat_close(&chat);
    session_close(&s);
    /* the server is closed, so no request refers to a key */
    net_keys_deinit(&k);
    log_end(LOG_END_MS);
    return rc ? fail("serve", &e) : 0;
}

static const char detail[] = "Endpoints: "
#define ROUTE(method, path, handler, flags) method " " path ", "
#define DIALECT(path, id)                   "POST " path ", "
#include "api/routes.def"
#undef ROUTE
#undef DIALECT
                             "and HEAD for each GET. On SIGTERM the server finishes requests in "
                             "flight.";

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
