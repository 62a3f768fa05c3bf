/* options.c - the options of traces, from --otlp-traces-endpoint and OpenTelemetry's variables of
 * the environment (specification 1.55: sdk-environment-variables, protocol/exporter).
 *
 * An empty variable is not set. A variable of traces, such as OTEL_EXPORTER_OTLP_TRACES_HEADERS,
 * replaces the general one, OTEL_EXPORTER_OTLP_HEADERS. As the specification requires, a number or
 * name that is not valid is ignored with a warning. A value without which no span could be sent is
 * an error: URL, headers, protocol, certificates. */
#include "telemetry_impl.h"

#include "base/log.h"
#include "base/names.h"
#include "base/percent.h"

#include <errno.h>
#include <quoth.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 64, ITEMS_MAX = 128 };

/* ---- values ---- */

/* Log a warning, unless o->silent. */
static void warn_option(const struct telemetry_options *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void warn_option(const struct telemetry_options *o, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!o->silent) log_warn("%s", text);
}

/* Return the value of a variable; NULL if it is not set or empty. */
static const char *value_of(env_fn *env, const char *name)
{
    const char *value = env(name);
    return value && *value ? value : NULL;
}

/* Return the value of OTEL_EXPORTER_OTLP_TRACES_WHAT, or of OTEL_EXPORTER_OTLP_WHAT if the first is
 * not set. Write the variable's name to `name`. */
static const char *exporter_value(env_fn *env, const char *what, char name[static NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "OTEL_EXPORTER_OTLP_TRACES_%s", what);
    const char *value = value_of(env, name);
    if (value) return value;
    snprintf(name, NAME_BYTES, "OTEL_EXPORTER_OTLP_%s", what);
    return value_of(env, name);
}

/* Set *out to an integer in [1, hi], or to the default with a warning. */
static void read_int(const struct telemetry_options *o, int64_t *out, const char *name,
                     const char *value, int64_t hi, int64_t otherwise)
{
    char *end = NULL;
    *out = otherwise;
    if (!value) return;
    errno = 0;
    const long long n = strtoll(value, &end, 10);
    if (errno == 0 && *end == 0 && n >= 1 && n <= hi)
        *out = n;
    else
        warn_option(o, "%s: must be in [1, %lld], got \"%.40s\"; the default %lld applies", name,
                    (long long)hi, value, (long long)otherwise);
}

/* Return true for "true", in any case. Every other value is false. */
static bool read_flag(const struct telemetry_options *o, env_fn *env, const char *name)
{
    const char *value = value_of(env, name);
    if (value && strcasecmp(value, "true") != 0 && strcasecmp(value, "false") != 0)
        warn_option(o, "%s: must be true or false, got \"%.40s\"; false applies", name, value);
    return value && strcasecmp(value, "true") == 0;
}

static int copy(char **out, const char *text, struct err *e)
{
    *out = strdup(text);
    return *out ? 0 : err_memory(e, "options of traces", strlen(text) + 1);
}

/* ---- lists: NAME=VALUE,NAME=VALUE with percent-encoded values ---- */

/* An item of a list. */
struct item {
    const char *name; /* [n_name], borrowed from the list */
    size_t n_name;
    char *value; /* decoded, owned */
};
struct items {
    struct item v[ITEMS_MAX];
    size_t n;
};

static void items_deinit(struct items *list)
{
    for (size_t i = 0; i < list->n; i++) free(list->v[i].value);
    list->n = 0;
}

/* Remove spaces and tabs from both ends. */
static void trim(const char **text, size_t *n)
{
    while (*n > 0 && (**text == ' ' || **text == '\t')) ++*text, --*n;
    while (*n > 0 && ((*text)[*n - 1] == ' ' || (*text)[*n - 1] == '\t')) --*n;
}

/* Read an item of n bytes. Errors do not contain the item, because it may be a secret. */
static int read_item(struct item *out, const char *variable, const char *text, size_t n,
                     struct err *e)
{
    const char *equals = memchr(text, '=', n);
    if (!equals)
        return err_field(e, ERR_ARG, variable, ": expected NAME=VALUE, got an item without \"=\"");
    const char *value = equals + 1;
    size_t n_value = n - (size_t)(value - text);
    *out = (struct item){.name = text, .n_name = (size_t)(equals - text)};
    trim(&out->name, &out->n_name);
    trim(&value, &n_value);
    out->value = malloc(n_value + 1);
    if (!out->value) return err_memory(e, variable, n_value + 1);
    if (out->n_name > 0 && percent_decode(out->value, value, n_value, false) >= 0) return 0;
    free(out->value);
    out->value = NULL;
    return err_field(e, ERR_ARG, variable, ": expected NAME=VALUE with a percent-encoded value");
}

/* Read a list. Empty items are ignored. The caller calls items_deinit, also after an error. */
static int read_items(struct items *list, const char *variable, const char *text, struct err *e)
{
    while (*text) {
        const char *item = text;
        size_t n = strcspn(text, ",");
        text += n + (text[n] == ',');
        trim(&item, &n);
        if (n == 0) continue;
        if (list->n == ITEMS_MAX)
            return err_field(e, ERR_LIMIT, variable, ": must have at most %d items", ITEMS_MAX);
        const int rc = read_item(&list->v[list->n], variable, item, n, e);
        if (rc != 0) return rc;
        list->n++;
    }
    return 0;
}

/* ---- the exporter ---- */

int telemetry_url_form(const char *url, struct err *e)
{
    const char *host = strncasecmp(url, "http://", 7) == 0    ? url + 7
                       : strncasecmp(url, "https://", 8) == 0 ? url + 8
                                                              : NULL;
    bool ok = host && *host && !strchr("/:?#", *host);
    for (const char *c = url; ok && *c; c++) ok = *c > ' ' && *c <= '~';
    if (ok) return 0;
    return form_wrong(e, "the URL of a collector for OTLP over HTTP, http://HOST:4318/v1/traces",
                      url);
}

/* Set the URL: the flag's, that of traces, or the general one with the path of traces. Set
 * o->wanted if one of these is given, or if OTEL_TRACES_EXPORTER selects OTLP. */
static int read_url(struct telemetry_options *o, const char *flag, env_fn *env, struct err *e)
{
    char name[NAME_BYTES] = "otlp-traces-endpoint";
    const char *url = flag ? flag : exporter_value(env, "ENDPOINT", name),
               *kind = value_of(env, "OTEL_TRACES_EXPORTER");
    const bool general = !flag && strcmp(name, "OTEL_EXPORTER_OTLP_ENDPOINT") == 0;
    if (kind && strcasecmp(kind, "otlp") != 0 && strcasecmp(kind, "none") != 0)
        warn_option(o, "OTEL_TRACES_EXPORTER: must be otlp or none, got \"%.40s\"; otlp applies",
                    kind);
    o->wanted = flag || ((url || kind) && !(kind && strcasecmp(kind, "none") == 0));
    if (!o->wanted) return 0;
    if (!url) return copy(&o->url, "http://localhost:4318/v1/traces", e);
    struct err why = {0};
    if (telemetry_url_form(url, &why) != 0) return err_field(e, ERR_ARG, name, ": %s", why.text);
    struct buf b = {0};
    size_t n = strlen(url);
    while (general && url[n - 1] == '/') n--;
    buf_add(&b, url, n);
    if (general) buf_add_text(&b, "/v1/traces");
    o->url = buf_detach(&b);
    return o->url ? 0 : err_memory(e, name, n);
}

/* Return true for a token of RFC 9110, 5.6.2. */
static bool is_header_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        const bool alphanumeric =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alphanumeric && (!c || !strchr("!#$%&'*+-.^_`|~", c))) return false;
    }
    return n > 0;
}

/* Return false for a value with a control character, which would begin a new header. */
static bool is_header_value(const char *value)
{
    for (; *value; value++)
        if ((unsigned char)*value < ' ' || *value == 127) return false;
    return true;
}

static int add_header(struct telemetry_options *o, const char *variable, const struct item *item,
                      struct err *e)
{
    struct buf b = {0};
    if (!is_header_name(item->name, item->n_name) || !is_header_value(item->value))
        return err_field(e, ERR_ARG, variable, ": expected the name and the value of a header");
    buf_addf(&b, "%.*s: %s", (int)item->n_name, item->name, item->value);
    char *header = buf_detach(&b);
    if (header && vec_push(&o->header, header)) return 0;
    free(header);
    return err_memory(e, variable, item->n_name);
}

static int read_headers(struct telemetry_options *o, env_fn *env, struct err *e)
{
    char name[NAME_BYTES];
    const char *text = exporter_value(env, "HEADERS", name);
    struct items list = {.n = 0};
    int rc = text ? read_items(&list, name, text, e) : 0;
    for (size_t i = 0; rc == 0 && i < list.n; i++) rc = add_header(o, name, &list.v[i], e);
    items_deinit(&list);
    return rc;
}

/* Reject protocols and certificates that the exporter does not support. Log a warning for
 * compression, which a collector never requires. */
static int check_exporter(const struct telemetry_options *o, env_fn *env, struct err *e)
{
    static const char *const refused[] = {"CLIENT_CERTIFICATE", "CLIENT_KEY"};
    char name[NAME_BYTES];
    const char *protocol = exporter_value(env, "PROTOCOL", name);
    if (protocol && strcasecmp(protocol, "http/protobuf") != 0)
        return err_field(
            e, ERR_UNSUPPORTED, name,
            ": must be http/protobuf, got \"%.40s\"; collectors accept it on port 4318", protocol);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (exporter_value(env, refused[i], name))
            return err_field(e, ERR_UNSUPPORTED, name, ": not supported yet");
    const char *compression = exporter_value(env, "COMPRESSION", name);
    if (compression && strcasecmp(compression, "none") != 0)
        warn_option(o, "%s: must be none, got \"%.40s\"; spans are sent without compression", name,
                    compression);
    return 0;
}

static void read_limits(struct telemetry_options *o, env_fn *env)
{
    enum { MS_MAX = 24 * 3600 * 1000, SPANS_MAX = 1 << 20 };
    char name[NAME_BYTES];
    const char *timeout = exporter_value(env, "TIMEOUT", name);
    read_int(o, &o->timeout_ms, name, timeout, MS_MAX, 10000);
    static const struct {
        const char *name; /* static */
        size_t at;        /* offset of the field in telemetry_options */
        int64_t hi, otherwise;
    } limit[] = {
        {"OTEL_BSP_EXPORT_TIMEOUT", offsetof(struct telemetry_options, export_ms), MS_MAX, 30000},
        {"OTEL_BSP_SCHEDULE_DELAY", offsetof(struct telemetry_options, delay_ms), MS_MAX, 5000},
        {"OTEL_BSP_MAX_QUEUE_SIZE", offsetof(struct telemetry_options, queue_max), SPANS_MAX, 2048},
        {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", offsetof(struct telemetry_options, batch_max), SPANS_MAX,
         512},
    };
    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++)
        read_int(o, (int64_t *)(void *)((char *)o + limit[i].at), limit[i].name,
                 value_of(env, limit[i].name), limit[i].hi, limit[i].otherwise);
    if (o->batch_max > o->queue_max) o->batch_max = o->queue_max;
}

/* ---- the sampler ---- */

/* Return the sampler's ratio; 1 for a value that is no number in [0, 1], with a warning. */
static double read_ratio(const struct telemetry_options *o, env_fn *env)
{
    const char *value = value_of(env, "OTEL_TRACES_SAMPLER_ARG");
    char *end = NULL;
    const double x = value ? strtod(value, &end) : 1;
    if (!value || (*end == 0 && x >= 0 && x <= 1)) return x;
    warn_option(o,
                "OTEL_TRACES_SAMPLER_ARG: must be in [0, 1], got \"%.40s\"; the default 1 applies",
                value);
    return 1;
}

static void read_sampler(struct telemetry_options *o, env_fn *env)
{
    enum how { ON, OFF, RATIO };
    static const struct {
        const char *name; /* static */
        bool follows_parent;
        enum how how;
    } sampler[] = {
        {"parentbased_always_on", true, ON},
        {"parentbased_always_off", true, OFF},
        {"parentbased_traceidratio", true, RATIO},
        {"always_on", false, ON},
        {"always_off", false, OFF},
        {"traceidratio", false, RATIO},
    };
    enum { N_SAMPLER = sizeof sampler / sizeof *sampler };
    const char *value = value_of(env, "OTEL_TRACES_SAMPLER");
    size_t i = 0;
    while (value && i < N_SAMPLER && strcasecmp(sampler[i].name, value) != 0) i++;
    if (i == N_SAMPLER) {
        warn_option(o, "OTEL_TRACES_SAMPLER: \"%.40s\" not found; parentbased_always_on applies",
                    value);
        i = 0;
    }
    const double ratio = sampler[i].how == RATIO ? read_ratio(o, env) : sampler[i].how == ON;
    o->follows_parent = sampler[i].follows_parent;
    o->all = ratio >= 1;
    o->below = o->all ? 0 : (uint64_t)(ratio * 0x1p64);
}

/* ---- the resource ---- */

/* Append the attributes of OTEL_RESOURCE_ATTRIBUTES. Ignore all of them if one is malformed. The
 * specification requires this. *named: true if the service has a name, which replaces the list's;
 * set if the list has a name. ERR_MEMORY. */
static int put_given(struct telemetry_options *o, env_fn *env, bool *named, struct err *e)
{
    struct buf *b = &o->resource;
    const char *text = value_of(env, "OTEL_RESOURCE_ATTRIBUTES");
    struct items list = {.n = 0};
    struct err why = {0};
    int rc = text ? read_items(&list, "OTEL_RESOURCE_ATTRIBUTES", text, &why) : 0;
    if (rc == ERR_MEMORY) *e = why;
    if (rc != 0 && rc != ERR_MEMORY) warn_option(o, "%s; no attribute applies", why.text);
    for (size_t i = 0; rc == 0 && i < list.n; i++) {
        char key[256];
        const bool is_name =
            list.v[i].n_name == 12 && memcmp(list.v[i].name, "service.name", 12) == 0;
        if (is_name && *named) continue;
        *named |= is_name;
        snprintf(key, sizeof key, "%.*s", (int)list.v[i].n_name, list.v[i].name);
        put_text_attribute(b, ATTRIBUTE_OF_RESOURCE, key, list.v[i].value, strlen(list.v[i].value));
    }
    items_deinit(&list);
    return rc == ERR_MEMORY ? rc : 0;
}

static void put_attribute(struct buf *b, const char *key, const char *text)
{
    put_text_attribute(b, ATTRIBUTE_OF_RESOURCE, key, text, strlen(text));
}

static int read_resource(struct telemetry_options *o, env_fn *env, struct err *e)
{
    struct buf *b = &o->resource;
    const char *name = value_of(env, "OTEL_SERVICE_NAME");
    bool named = name != NULL;
    if (name) put_attribute(b, "service.name", name);
    const int rc = put_given(o, env, &named, e);
    if (!named) put_attribute(b, "service.name", "quoth");
    put_attribute(b, "telemetry.sdk.name", "quoth");
    put_attribute(b, "telemetry.sdk.language", "c");
    put_attribute(b, "telemetry.sdk.version", QUOTH_VERSION);
    if (rc == 0 && b->failed) return err_memory(e, "options of traces", b->n);
    return rc;
}

/* ---- all options ---- */

int telemetry_options_read(struct telemetry_options *o, const char *url, env_fn *env, struct err *e)
{
    char name[NAME_BYTES];
    if (read_flag(o, env, "OTEL_SDK_DISABLED")) return 0;
    int rc = read_url(o, url, env, e);
    if (rc != 0 || !o->wanted) return rc;
    rc = check_exporter(o, env, e);
    const char *ca_file = exporter_value(env, "CERTIFICATE", name);
    if (rc == 0 && ca_file) rc = copy(&o->ca_file, ca_file, e);
    if (rc == 0) rc = read_headers(o, env, e);
    if (rc == 0) rc = read_resource(o, env, e);
    read_limits(o, env);
    read_sampler(o, env);
    return rc;
}

void telemetry_options_deinit(struct telemetry_options *o)
{
    for (size_t i = 0; i < o->header.n; i++) free(o->header.v[i]);
    vec_deinit(&o->header);
    free(o->url);
    free(o->ca_file);
    buf_deinit(&o->resource);
    *o = (struct telemetry_options){0};
}
