/* fetch_curl.c - the HTTP client with libcurl's multi interface (fetch.h).
 *
 * libcurl reports the sockets to watch, and the time of its next call (watch, set_timer).
 * fetch_wait sleeps in epoll until a socket is ready or that time is reached. fetch_wait then calls
 * libcurl, and removes the requests that libcurl reports as done. The cost of a wake-up therefore
 * depends on the events, not on the requests in flight. curl_multi_poll would check every request.
 * The time of on_body is the time at which the socket became ready.
 *
 *   fetch_start -> struct fetch_call, in libcurl --write_body...--> take_done -> on_done, freed
 *                                                 fetch_close -> freed */
#include "fetch.h"

#include "base/os.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <quoth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_MS = 10000, BODY_MAX = 64 << 20, N_EVENT = 64 };

/* A request in flight. */
struct fetch_call {
    /* borrowed: next call in the list fetch.call, and address of the pointer to this call */
    struct fetch_call *next, **at;
    struct fetch *f;         /* borrowed */
    CURL *easy;              /* libcurl's handle of the request, owned */
    struct curl_slist *head; /* headers of the request, owned */
    void *ctx;               /* borrowed */
    bool (*on_head)(void *ctx, int status, const struct fetch_head *h);
    bool (*on_body)(void *ctx, int status, const char *data, size_t n);
    void (*on_done)(void *ctx, const struct fetch_result *r);
    bool headed;   /* true after the call of on_head */
    bool unwanted; /* true if on_head or on_body returned false */
    char error[CURL_ERROR_SIZE];
};

struct fetch_head {
    CURL *easy; /* borrowed */
};

struct fetch {
    CURLM *multi;            /* owned */
    int epoll;               /* file descriptor of epoll; -1 if closed */
    int64_t due_us;          /* time of the next call to libcurl, microseconds; INT64_MAX if none */
    struct fetch_call *call; /* owned: list of the requests in flight [n_call] */
    size_t n_call;
    struct fetch_options o;
    char *unix_socket, *ca_file, *no_proxy; /* owned; NULL if none */
};

/* ---- the library ---- */

/* libcurl is loaded by the first fetch_open. Its 28 libraries (Kerberos, LDAP, GnuTLS ...) take
 * half of the start of a program that they are linked to: 3.4 of 7.2 ms. */
#define LIBRARY "libcurl.so.4"

/* functions of the library, valid if `library` is set */
static struct {
#define FUNCTION(name) __typeof__(curl_##name) *name;
#include "curl.def"
#undef FUNCTION
} curl;
static const char *const names[] = {
#define FUNCTION(name) "curl_" #name,
#include "curl.def"
#undef FUNCTION
};
_Static_assert(sizeof curl == sizeof names, "a pointer per function");

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
static void *library; /* never closed; NULL before the first success of load */

/* Load and start the library. The caller holds the lock. A failure can be temporary. */
static int load(struct err *e)
{
    void *found[sizeof names / sizeof *names], *l = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool ok = l;
    for (size_t i = 0; i < sizeof names / sizeof *names && ok; i++)
        ok = (found[i] = dlsym(l, names[i])) != NULL;
    if (!ok) {
        err_set(e, ERR_UNSUPPORTED, LIBRARY ": cannot load: %s", dlerror());
        if (l) dlclose(l);
        return e->code;
    }
    memcpy(&curl, found, sizeof curl); /* C has no conversion of void * to a function */
    const CURLcode rc = curl.global_init(CURL_GLOBAL_DEFAULT);
    if (rc != CURLE_OK)
        return err_set(e, ERR_MEMORY, "cannot start libcurl: %s", curl.easy_strerror(rc));
    library = l;
    return 0;
}

/* ---- callbacks of libcurl ---- */

/* Add, change or remove a socket in epoll (CURLMOPT_SOCKETFUNCTION). Try MOD before ADD, because
 * changes of a socket are more frequent than new sockets. */
static int watch(CURL *easy, curl_socket_t fd, int what, void *ctx, void *unused)
{
    struct fetch *f = ctx;
    (void)easy, (void)unused;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    struct epoll_event ev = {.data.fd = fd};
    if (what & CURL_POLL_IN) ev.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) ev.events |= EPOLLOUT;
    if (epoll_ctl(f->epoll, EPOLL_CTL_MOD, fd, &ev) == 0) return 0;
    return epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &ev);
}

/* Record the time of libcurl's next call (CURLMOPT_TIMERFUNCTION). ms -1: no call is due. */
static int set_timer(CURLM *multi, long ms, void *ctx)
{
    struct fetch *f = ctx;
    (void)multi;
    f->due_us = ms < 0 ? INT64_MAX : time_us() + 1000 * (int64_t)ms;
    return 0;
}

const char *fetch_header(const struct fetch_head *h, const char *name)
{
    struct curl_header *found;
    CURLHcode rc = curl.easy_header(h->easy, name, 0, CURLH_HEADER, -1, &found);
    return rc == CURLHE_OK ? found->value : NULL;
}

/* Pass the head of the answer to the request's receiver, once. Return false if the receiver rejects
 * the answer. */
static bool pass_head(struct fetch_call *c, long status)
{
    if (!c->headed && c->on_head && !c->unwanted)
        c->unwanted = !c->on_head(c->ctx, (int)status, &(struct fetch_head){c->easy});
    c->headed = true;
    return !c->unwanted;
}

/* Pass bytes to the request's receiver (CURLOPT_WRITEFUNCTION). A result other than the number of
 * bytes aborts the request. */
static size_t write_body(char *data, size_t size, size_t n, void *ctx)
{
    struct fetch_call *c = ctx;
    long status = 0;
    curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!pass_head(c, status)) return 0;
    c->unwanted = c->on_body && !c->on_body(c->ctx, (int)status, data, size * n);
    return c->unwanted ? 0 : size * n;
}

/* ---- opening ---- */

static char *copied(const char *text)
{
    return text ? strdup(text) : NULL;
}

/* Return the hosts without a proxy: this machine's names, and the hosts that the environment
 * excludes. */
static char *own_names(void)
{
    const char *more = getenv("no_proxy");
    if (!more) more = getenv("NO_PROXY");
    struct buf b = {0};
    buf_addf(&b, "localhost,127.0.0.1,::1%s%s", more ? "," : "", more ? more : "");
    return buf_detach(&b);
}

/* Return false if a part could not be made. fetch_close frees the other parts. */
static bool set_up(struct fetch *f)
{
    f->multi = curl.multi_init();
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    f->no_proxy = own_names();
    f->unix_socket = copied(f->o.unix_socket);
    f->ca_file = copied(f->o.ca_file);
    if (!f->multi || f->epoll < 0 || !f->no_proxy || !f->unix_socket != !f->o.unix_socket ||
        !f->ca_file != !f->o.ca_file)
        return false;
    curl.multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, watch);
    curl.multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f);
    curl.multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl.multi_setopt(f->multi, CURLMOPT_TIMERDATA, f);
    return true;
}

int fetch_open(struct fetch **out, const struct fetch_options *o, struct err *e)
{
    *out = NULL;
    pthread_mutex_lock(&library_lock);
    const int rc = library ? 0 : load(e);
    pthread_mutex_unlock(&library_lock);
    if (rc != 0) return rc;
    struct fetch *f = *out = calloc(1, sizeof *f);
    if (!f) return err_memory(e, "an HTTP client", sizeof *f);
    if (o) f->o = *o;
    f->due_us = INT64_MAX;
    if (f->o.connect_ms == 0) f->o.connect_ms = CONNECT_MS;
    if (f->o.bytes_max == 0) f->o.bytes_max = BODY_MAX;
    if (set_up(f)) return 0;
    fetch_close(f);
    *out = NULL;
    return err_memory(e, "an HTTP client", sizeof *f);
}

/* Free a call. `at` is NULL if the call is not in the list. */
static void call_close(struct fetch_call *c)
{
    if (c->at) {
        *c->at = c->next;
        if (c->next) c->next->at = c->at;
        c->f->n_call--;
        curl.multi_remove_handle(c->f->multi, c->easy);
    }
    curl.easy_cleanup(c->easy);
    curl.slist_free_all(c->head);
    free(c);
}

void fetch_close(struct fetch *f)
{
    if (!f) return;
    while (f->call) call_close(f->call);
    if (f->multi) curl.multi_cleanup(f->multi);
    if (f->epoll >= 0) close(f->epoll);
    free(f->unix_socket);
    free(f->ca_file);
    free(f->no_proxy);
    free(f);
}

/* ---- a request ---- */

static bool add_header(struct fetch_call *c, const char *text)
{
    struct curl_slist *more = curl.slist_append(c->head, text);
    if (more) c->head = more;
    return more != NULL;
}

/* Add the headers of a request. Bodies are sent without "Expect: 100-continue". */
static bool add_headers(struct fetch_call *c, const struct fetch_request *r)
{
    char type[128];
    snprintf(type, sizeof type, "Content-Type: %.100s", r->type ? r->type : "application/json");
    bool ok = !r->body || (add_header(c, type) && add_header(c, "Expect:"));
    for (size_t i = 0; i < r->n_header && ok; i++) ok = add_header(c, r->header[i]);
    return ok;
}

/* Set the body, which is borrowed, because libcurl does not copy CURLOPT_POSTFIELDS. */
static CURLcode set_body(CURL *x, const struct fetch_request *r)
{
    CURLcode rc = CURLE_OK;
    if (r->body) {
        rc = curl.easy_setopt(x, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n_body);
        if (rc == CURLE_OK) rc = curl.easy_setopt(x, CURLOPT_POSTFIELDS, r->body);
    }
    if (rc == CURLE_OK && r->method) rc = curl.easy_setopt(x, CURLOPT_CUSTOMREQUEST, r->method);
    return rc;
}

/* Set the options that all requests of a client share. With HTTP/1.1 each request in flight has its
 * own connection. Signals are off, because requests run on any thread. */
static CURLcode set_connection(CURL *x, const struct fetch *f)
{
    const struct fetch_options *o = &f->o;
    curl.easy_setopt(x, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(x, CURLOPT_QUICK_EXIT, 1L); /* closing does not wait for a name server */
    curl.easy_setopt(x, CURLOPT_NOPROXY, f->no_proxy);
    curl.easy_setopt(x, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl.easy_setopt(x, CURLOPT_USERAGENT, "quoth/" QUOTH_VERSION);
    curl.easy_setopt(x, CURLOPT_TCP_KEEPALIVE, 1L);
    if (o->piece_bytes) curl.easy_setopt(x, CURLOPT_BUFFERSIZE, (long)o->piece_bytes);
    curl.easy_setopt(x, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_ms);
    curl.easy_setopt(x, CURLOPT_TIMEOUT_MS, (long)o->total_ms);
    curl.easy_setopt(x, CURLOPT_LOW_SPEED_LIMIT, o->idle_s ? 1L : 0L);
    curl.easy_setopt(x, CURLOPT_LOW_SPEED_TIME, (long)o->idle_s);
    curl.easy_setopt(x, CURLOPT_SSL_VERIFYPEER, o->insecure ? 0L : 1L);
    curl.easy_setopt(x, CURLOPT_SSL_VERIFYHOST, o->insecure ? 0L : 2L);
    CURLcode rc = curl.easy_setopt(x, CURLOPT_PROTOCOLS_STR, "http,https");
    if (rc == CURLE_OK && f->ca_file) rc = curl.easy_setopt(x, CURLOPT_CAINFO, f->ca_file);
    if (rc == CURLE_OK && f->unix_socket) {
        curl.easy_setopt(x, CURLOPT_PROXY, "");
        rc = curl.easy_setopt(x, CURLOPT_UNIX_SOCKET_PATH, f->unix_socket);
    }
    return rc;
}

/* Set the options of a request. Calls without a check copy no data, so they need no memory and
 * cannot fail. */
static CURLcode set_call(struct fetch_call *c, const struct fetch_request *r)
{
    CURL *x = c->easy;
    CURLcode rc = set_connection(x, c->f);
    if (rc == CURLE_OK) rc = curl.easy_setopt(x, CURLOPT_URL, r->url);
    if (rc == CURLE_OK) rc = set_body(x, r);
    if (r->total_ms) curl.easy_setopt(x, CURLOPT_TIMEOUT_MS, (long)r->total_ms);
    curl.easy_setopt(x, CURLOPT_HTTPHEADER, c->head);
    curl.easy_setopt(x, CURLOPT_WRITEFUNCTION, write_body);
    curl.easy_setopt(x, CURLOPT_WRITEDATA, c);
    curl.easy_setopt(x, CURLOPT_ERRORBUFFER, c->error);
    curl.easy_setopt(x, CURLOPT_PRIVATE, c);
    return rc;
}

/* Add a call to the list. `at` is the address of the pointer to the call, so a call can be removed
 * without a search. */
static void call_link(struct fetch_call *c)
{
    struct fetch *f = c->f;
    c->at = &f->call;
    c->next = f->call;
    if (c->next) c->next->at = &c->next;
    f->call = c;
    f->n_call++;
}

int fetch_start(struct fetch *f, const struct fetch_request *r, struct err *e)
{
    struct fetch_call *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e, r->url, sizeof *c);
    c->f = f;
    c->ctx = r->ctx;
    c->on_head = r->on_head;
    c->on_body = r->on_body;
    c->on_done = r->on_done;
    c->easy = curl.easy_init();
    bool ok = c->easy && add_headers(c, r);
    CURLcode rc = ok ? set_call(c, r) : CURLE_OUT_OF_MEMORY;
    if (rc == CURLE_OK && curl.multi_add_handle(f->multi, c->easy) == CURLM_OK) {
        call_link(c);
        return 0;
    }
    call_close(c);
    return err_set(e, rc == CURLE_OUT_OF_MEMORY ? ERR_MEMORY : ERR_ARG, "%s: %s", r->url,
                   rc ? curl.easy_strerror(rc) : "cannot begin the request");
}

/* ---- waiting ---- */

/* Return the duration of opening the connection with its TLS handshake, microseconds; 0 if a
 * connection was reused. */
static int64_t connect_us(CURL *x)
{
    long n_new = 0;
    curl_off_t tcp = 0, tls = 0;
    curl.easy_getinfo(x, CURLINFO_NUM_CONNECTS, &n_new);
    curl.easy_getinfo(x, CURLINFO_CONNECT_TIME_T, &tcp);
    curl.easy_getinfo(x, CURLINFO_APPCONNECT_TIME_T, &tls);
    return n_new ? tls > tcp ? tls : tcp : 0;
}

/* Free the call, then call on_done. The receiver may start another request in on_done. */
static void finish_transfer(struct fetch_call *c, CURLcode rc)
{
    struct fetch_result r = {0};
    char error[CURL_ERROR_SIZE + 160];
    long status = 0;
    curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (rc == CURLE_OK && status > 0 && !pass_head(c, status)) rc = CURLE_WRITE_ERROR;
    r.status = (int)status;
    r.connect_us = connect_us(c->easy);
    char *redirect = NULL;
    curl_off_t retry_after_s = 0;
    curl.easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &redirect);
    curl.easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    r.redirect = redirect = copied(redirect);
    r.retry_after_s = retry_after_s;
    long refused = 0;
    if (rc == CURLE_COULDNT_CONNECT) curl.easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &refused);
    const char *why = c->unwanted ? "cancelled: the rest of the answer is not needed"
                      : refused   ? os_connect_error((int)refused)
                      : *c->error ? c->error
                                  : curl.easy_strerror(rc);
    const char *socket = c->f->unix_socket;
    if (refused)
        snprintf(error, sizeof error, "cannot connect%s%.110s: %.250s", socket ? " to " : "",
                 socket ? socket : "", why);
    else
        snprintf(error, sizeof error, "%s", why);
    r.error = rc == CURLE_OK ? NULL : error;
    void (*on_done)(void *, const struct fetch_result *) = c->on_done;
    void *ctx = c->ctx;
    call_close(c);
    if (on_done) on_done(ctx, &r);
    free(redirect);
}

/* Finish the requests that libcurl reports as done. */
static void take_done(struct fetch *f)
{
    int n_more;
    for (CURLMsg *m; (m = curl.multi_info_read(f->multi, &n_more));) {
        char *c = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
        finish_transfer((struct fetch_call *)(void *)c, m->data.result);
    }
}

/* Sleep until a socket is ready or until_us is reached. Return the number of ready sockets. */
static int sleep_until(struct fetch *f, int64_t until_us, struct epoll_event *ev)
{
    int64_t us = (f->due_us < until_us ? f->due_us : until_us) - time_us();
    if (us > 0) { /* epoll_wait has a resolution of 1 ms */
        struct pollfd p = {.fd = f->epoll, .events = POLLIN};
        struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
        if (us > 1000000000) t.tv_sec = 1000;
        ppoll(&p, 1, &t, NULL);
    }
    int n = epoll_wait(f->epoll, ev, N_EVENT, 0);
    return n < 0 ? 0 : n;
}

/* The timer is checked after the sockets, because events of sockets may have changed it. */
void fetch_wait(struct fetch *f, int64_t until_us)
{
    struct epoll_event ev[N_EVENT];
    int n_running, n = sleep_until(f, until_us, ev);
    for (int i = 0; i < n; i++) {
        int what = (ev[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                   (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (ev[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        curl.multi_socket_action(f->multi, ev[i].data.fd, what, &n_running);
    }
    if (f->due_us <= time_us()) {
        f->due_us = INT64_MAX;
        curl.multi_socket_action(f->multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
    }
    take_done(f);
}

size_t fetch_n_in_flight(const struct fetch *f)
{
    return f->n_call;
}

size_t fetch_body_max(const struct fetch *f)
{
    return f->o.bytes_max;
}
