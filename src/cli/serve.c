/* serve.c - quoth serve: a model for OpenAI's clients, over HTTP.
 *
 *   flags -> session, engine, chat -> server_open ... until SIGTERM or SIGINT ... server_drain -> all closed
 *
 * The first signal stops taking requests and lets those being answered end (--shutdown-timeout); a second one ends the
 * program at once. */
#include "cli.h"

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
                               *access_log = "-", *log_format = "text", *pooling = "auto";
static int64_t port = 8000, n_queue, n_conn, n_handler = 2, body_mib = 32, head_kib = 32,
               drain_s = 30, head_s = 15, body_s = 30, idle_s = 75, write_s = 30;
static bool no_access_log, separate;
static struct text_list keys, origins, hosts, names;

static const struct option options[] = {
    TEXT_OPTION("model", "MODEL", &model_flag, "the same as MODEL; for config files"),
    TEXT_OPTION("host", "ADDRESS", &host,
                "where to listen (127.0.0.1); 0.0.0.0 or :: for every interface"),
    INT_OPTION("port", "N", &port, 0, 65535, "(8000); 0: one that is free"),
    TEXT_OPTION("uds", "PATH", &uds, "listen on a unix socket instead"),
    TEXT_OPTION("ssl-certfile", "FILE", &cert,
                "TLS: the certificate and those it was signed with, PEM"),
    TEXT_OPTION("ssl-keyfile", "FILE", &cert_key, "TLS: its private key, PEM"),
    LIST_OPTION("api-key", "KEY", &keys,
                "only requests with this key are answered; may be repeated (other users of the "
                "machine can see flags: "
                "better --api-key-file)"),
    TEXT_OPTION(
        "api-key-file", "FILE", &key_file,
        "a key per line: KEY [name=TEXT] [rate=REQUESTS PER MINUTE] [share=WEIGHT] [role=admin]"),
    FLAG_OPTION("separate-caches", &separate,
                "keys do not share cached prefixes: times would tell what others have asked"),
    LIST_OPTION("served-model-name", "NAME", &names,
                "what clients call the model; may be repeated (default: its own name)"),
    TEXT_OPTION(
        "pooling", "KIND", &pooling,
        "what /v1/embeddings makes of a text's tokens: mean, last or first (auto: what the model "
        "says, else last)"),
    LIST_OPTION(
        "allowed-origins", "ORIGIN", &origins,
        "web pages of this origin may use the server, as those of this machine may; *: all"),
    LIST_OPTION(
        "allowed-hosts", "NAME", &hosts,
        "another name of this machine, for a server that listens on loopback behind a proxy"),
    INT_OPTION("max-queued-requests", "N", &n_queue, 0, 1 << 20,
               "requests that may wait; more get 429 (0: 1024)"),
    INT_OPTION("max-connections", "N", &n_conn, 0, 1 << 20,
               "connections at once; more get 503 (0: 1024)"),
    INT_OPTION("max-body-size", "MIB", &body_mib, 1, 4096, "of a request's body (32)"),
    INT_OPTION("h11-max-incomplete-event-size", "KIB", &head_kib, 1, 1024,
               "of a request's line and headers (32)"),
    INT_OPTION("timeout-keep-alive", "S", &idle_s, 1, 86400,
               "seconds that a connection may be idle (75)"),
    INT_OPTION("timeout-head", "S", &head_s, 1, 86400,
               "seconds that a request's line and headers may take to arrive (15)"),
    INT_OPTION("timeout-body", "S", &body_s, 1, 86400,
               "seconds that a body may fall behind 4 KiB a second (30)"),
    INT_OPTION("timeout-write", "S", &write_s, 1, 86400,
               "seconds that a client may read nothing of its answer (30)"),
    INT_OPTION("shutdown-timeout", "S", &drain_s, 0, 86400,
               "seconds that answers have to end after SIGTERM (30)"),
    INT_OPTION("handler-threads", "N", &n_handler, 1, 256,
               "threads that read requests: JSON, templates, tokens (2)"),
    TEXT_OPTION("access-log", "FILE", &access_log,
                "a line per answer (-: standard error, the default)"),
    FLAG_OPTION("disable-access-log", &no_access_log, "no line per answer"),
    TEXT_OPTION("log-format", "FORMAT", &log_format, "text or json"),
    OPTIONS_OF(chat_options),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

/* ---- signals ---- */

static int stop_fd = -1;

static void on_stop(int sig)
{
    static volatile sig_atomic_t n_stop;
    uint64_t one = 1;
    (void)sig;
    if (n_stop++ > 0) _exit(1);
    ssize_t put = write(stop_fd, &one, sizeof one);
    (void)put;
}

static int catch_stop(struct err *e)
{
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    stop_fd = eventfd(0, EFD_CLOEXEC);
    if (stop_fd < 0) return err_set(e, ERR_IO, "eventfd: %s", strerror(errno));
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return 0;
}

/* By poll, which a signal always ends: the thread sanitizer runs handlers only between calls. */
static void wait_for_stop(void)
{
    struct pollfd p = {.fd = stop_fd, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR) continue;
}

/* ---- the server ---- */

static int read_keys(struct net_keys *k, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < keys.n; i++) rc = net_keys_add(k, keys.v[i], NULL, e);
    if (rc == 0 && key_file) rc = net_keys_read(k, key_file, e);
    if (rc == 0 && key_file && k->n == 0)
        rc = err_set(e, ERR_ARG, "--api-key-file %s: there is no key in it", key_file);
    return rc;
}

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
        .access_log = no_access_log ? NULL : access_log,
        .n_handler = (int)n_handler,
        .n_conn_max = (int)n_conn,
        .n_head_max = (size_t)head_kib << 10,
        .n_body_max = (size_t)body_mib << 20,
        .n_body_total_max = (size_t)(body_mib > 32 ? body_mib : 32) << 23,
        .head_ms = (int)head_s * 1000,
        .body_ms = (int)body_s * 1000,
        .idle_ms = (int)idle_s * 1000,
        .write_ms = (int)write_s * 1000,
    };
}

/* Until a signal comes. */
static void serve(struct server *s, const char *name)
{
    const struct net *n = server_net(s);
    if (net_public(n) && keys.n == 0 && !key_file)
        log_warn("everybody who reaches %s may use it: there is no --api-key", net_url(n));
    enum log_level level = log_level_max;
    log_level_max = level > LOG_INFO ? level : LOG_INFO; /* where it is, is what was asked for */
    log_info("%s at %s", name, net_url(n));
    log_level_max = level;
    net_notify("READY=1");
    wait_for_stop();
    net_notify("STOPPING=1");
    server_drain(s, (int)drain_s * 1000);
}

static int serve_session(const struct session *s, const struct chat *chat, struct net_keys *k,
                         struct err *e)
{
    struct server *server = NULL;
    const char *own = model_info(s->model)->name;
    char fingerprint[40];
    snprintf(fingerprint, sizeof fingerprint, "quoth-%s", quoth_version());
    struct api api = {.session = s,
                      .chat = chat,
                      .name = names.n ? names.v[0] : own,
                      .fingerprint = fingerprint,
                      .defaults = session_sample_defaults(s->checkpoint, 1),
                      .streams = true};
    struct server_options o = {.net = net_flags(k),
                               .api = &api,
                               .name = names.n ? names.v : &own,
                               .n_name = names.n ? (int)names.n : 1,
                               .version = quoth_version(),
                               .separate_caches = separate};
    int rc = session_pooling(&api.pooling, s, pooling, e);
    if (rc == 0) rc = catch_stop(e);
    if (rc == 0) rc = server_open(&server, &o, e);
    if (rc == 0) serve(server, api.name);
    server_close(server);
    return rc;
}

/* As session_start, but that the metrics call the model what clients do. */
static int start_engine(struct session *s, struct err *e)
{
    struct engine_options eo;
    int rc = session_engine_options(&eo, s, &session_flags, e);
    if (names.n) eo.executor.name = names.v[0];
    eo.queue_max = (int)n_queue;
    eo.byte_max = session_request_bytes();
    if (rc == 0) rc = engine_open(&s->engine, &eo, e);
    return rc ? rc : engine_start(s->engine, e);
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct session s = {0};
    struct chat chat = {0};
    struct net_keys k = {0};
    os_return_memory();
    log_as_json = strcmp(log_format, "json") == 0;
    if (!log_as_json && strcmp(log_format, "text") != 0)
        return fprintf(stderr, "quoth serve: --log-format is text or json\n"), 2;
    const char *model = n_arg ? arg[0] : model_flag ? model_flag : session_bundled(NULL, &e);
    int rc = model ? read_keys(&k, &e) : ERR_MISSING;
    if (k.n > 1 && strcmp(session_flags.scheduler, "auto") == 0) session_flags.scheduler = "fair";
    if (rc == 0) rc = session_open_sized(&s, model, &session_many, &e);
    if (rc == 0) rc = start_engine(&s, &e);
    if (rc == 0) rc = chat_open(&chat, &s, &session_flags, &e);
    if (rc == 0) rc = serve_session(&s, &chat, &k, &e);
    chat_close(&chat);
    session_close(&s);
    net_keys_deinit(&k);
    return rc ? fail("serve", &e) : 0;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "answer OpenAI's clients over HTTP",
    .usage = "[MODEL] [OPTIONS]",
    .detail = "Endpoints: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, "
              "/tokenize, /detokenize, /apply-template, /reset_prefix_cache, "
              "/health, /metrics, /load, /version. SIGTERM lets what is being answered end.",
    .options = options,
    .n_arg_max = 1,
    .run = run,
};
