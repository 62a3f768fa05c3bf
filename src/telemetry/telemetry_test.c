/* Goal: headers of W3C Trace Context, options and messages have the forms of their specifications,
 * and a full queue drops spans. Method: the bytes of messages are those of Google's protobuf for
 * Python, with opentelemetry-proto 1.38.0. */
#include "telemetry_impl.h"
#include "../../tests/alloc.h"
#include "../../tests/unit.h"

#include "base/log.h"
#include "base/os.h"
#include "base/text.h"

#include <stdlib.h>
#include <time.h>

/* ---- trace_parent.c ---- */

static const char good[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(telemetry_trace_parent)
{
    struct trace_context c;
    char out[TRACE_PARENT_BYTES];
    NEED(trace_parent_read(&c, good));
    EXPECT(c.sampled && c.trace[0] == 0x0a && c.trace[15] == 0x9c && c.span[7] == 0x31);
    trace_parent_put(&c, out);
    EXPECT_TEXT(out, good);
    NEED(trace_parent_read(&c, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe"));
    EXPECT(!c.sampled);
    trace_parent_put(&c, out);
    EXPECT_TEXT(out + 53, "00");
    EXPECT(trace_parent_read(&c, "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what"));
    EXPECT(trace_parent_read(&c, "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
}

TEST(telemetry_trace_parent_wrong)
{
    static const char *const wrong[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct trace_context c = {.sampled = true};
        if (trace_parent_read(&c, wrong[i]) || c.trace[0] || !c.sampled)
            test_fail(__FILE__, __LINE__, "\"%s\" is accepted", wrong[i]);
    }
}

TEST(telemetry_trace_state)
{
    static const char *const right[] = {"a=b",           "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
                                        " a=1 , b=2\t",  "a=1,,b=2,",
                                        "1a_-*/@b*=x y", "a= b",
                                        "a*/-_9=!\"#$"};
    static const char *const wrong[] = {"",        " ",       ",",          "a",
                                        "a=",      "=b",      "A=b",        "1=b",
                                        "a=b=c",   "a=\n",    "a=\xc3\xa9", "a=1,a=2",
                                        "a@=1",    "a@1=2",   "@b=1",       "a b=1",
                                        "a=1 b=2", "a=1;b=2", "a@b@c=1",    "a@bcdefghijklmnop=1"};
    char list[TRACE_STATE_MAX + 2];
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        if (!trace_state_valid(right[i])) test_fail(__FILE__, __LINE__, "\"%s\"", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (trace_state_valid(wrong[i])) test_fail(__FILE__, __LINE__, "\"%s\"", wrong[i]);
    /* values of 256 and 257 bytes, 512 and 513 bytes together */
    snprintf(list, sizeof list, "a=%0256d,b=%0251d", 0, 0);
    EXPECT(strlen(list) == TRACE_STATE_MAX && trace_state_valid(list));
    snprintf(list, sizeof list, "a=%0256d,b=%0252d", 0, 0);
    EXPECT(!trace_state_valid(list));
    snprintf(list, sizeof list, "a=%0257d", 0);
    EXPECT(!trace_state_valid(list));
    /* 32 and 33 members */
    for (int i = 0; i < 33; i++) {
        EXPECT(i == 0 || trace_state_valid(list));
        const size_t n = i ? strlen(list) : 0;
        snprintf(list + n, sizeof list - n, "%sk%d=1", i ? "," : "", i);
    }
    EXPECT(!trace_state_valid(list));
}

/* ---- protobuf.c ---- */

/* Compare a message with its bytes as hexadecimal digits. */
static void same_bytes(const struct buf *b, const char *hex)
{
    const size_t n = strlen(hex) / 2;
    EXPECT(!b->failed);
    EXPECT_INT(b->n, n);
    for (size_t i = 0; i < n && i < b->n; i++)
        if ((uint8_t)b->data[i] != (hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]))) {
            test_fail(__FILE__, __LINE__, "byte %zu is %02x, not %.2s", i, (uint8_t)b->data[i],
                      hex + 2 * i);
            return;
        }
}

#define SPAN_HEX                                                                                   \
    "0a100102030405060708090a0b0c0d0e0f101208a1a2a3a4a5a6a7a81a03613d622208b1b2b3b4b5"             \
    "b6b7b82a0b6c6c6d5f72657175657374300239e8032a36fe9c97174168b61045fe9c97174a090a01"             \
    "7412040a02c3a94a080a016e120318ac024a100a016d120b18ffffffffffffffffff014a0e0a0178"             \
    "120921000000000000e03f7a021802850101030000"

/* Return a context with ids of ascending bytes. */
static struct trace_context context_of(int trace, int span, bool sampled)
{
    struct trace_context c = {.sampled = sampled};
    for (int i = 0; i < TRACE_ID_BYTES; i++) c.trace[i] = (uint8_t)(trace + i);
    for (int i = 0; i < SPAN_ID_BYTES; i++) c.span[i] = (uint8_t)(span + i);
    return c;
}

TEST(telemetry_protobuf)
{
    const struct trace_context context = context_of(1, 0xa1, true), parent = context_of(1, 0xb1, 1);
    struct buf resource = {0}, span[2] = {{0}}, export = {0};
    struct span_record r = {.context = &context,
                            .parent = parent.span,
                            .state = "a=b",
                            .name = "llm_request",
                            .begin_us = 1700000000000001};
    size_t end_at = begin_span(&span[0], &r);
    put_text_attribute(&span[0], ATTRIBUTE_OF_SPAN, "t", "\xc3\xa9", 2);
    put_int_attribute(&span[0], ATTRIBUTE_OF_SPAN, "n", 300);
    put_int_attribute(&span[0], ATTRIBUTE_OF_SPAN, "m", -1);
    put_real_attribute(&span[0], ATTRIBUTE_OF_SPAN, "x", 0.5);
    r.end_us = 1700000000250001;
    r.failed = true;
    end_span(&span[0], end_at, &r);
    same_bytes(&span[0], SPAN_HEX);
    put_text_attribute(&resource, ATTRIBUTE_OF_RESOURCE, "service.name", "quoth", 5);
    put_export(&export, &resource, "1.2", span, 1);
    same_bytes(&export, "0abc010a190a170a0c736572766963652e6e616d6512070a0571756f7468129e010a0c0a05"
                        "71756f74681203312e32128d01" SPAN_HEX);
    r = (struct span_record){
        .context = &context, .name = "llm_request", .begin_us = 1, .end_us = 2};
    end_at = begin_span(&span[1], &r);
    end_span(&span[1], end_at, &r);
    same_bytes(&span[1],
               "0a100102030405060708090a0b0c0d0e0f101208a1a2a3a4a5a6a7a82a0b6c6c6d5f72657175"
               "657374300239e80300000000000041d007000000000000850101010000");
    buf_deinit(&resource), buf_deinit(&export);
    buf_deinit(&span[0]), buf_deinit(&span[1]);
}

/* ---- options.c ---- */

/* The environment of a test: names and values, which end with NULL. */
static const char *const *variables;

static char *lookup(const char *name)
{
    for (const char *const *v = variables; *v; v += 2)
        if (strcmp(v[0], name) == 0) return (char *)(uintptr_t)v[1];
    return NULL;
}

/* Read the options of an environment. Keep the warnings in `log`. */
static int read_options(struct telemetry_options *o, const char *url, const char *const *v,
                        struct buf *log, struct err *e)
{
    *o = (struct telemetry_options){0};
    *e = (struct err){0};
    variables = v;
    buf_clear(log);
    log_kept = log;
    const int rc = telemetry_options_read(o, url, lookup, e);
    log_kept = NULL;
    return rc;
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(telemetry_options_defaults)
{
    struct telemetry_options o;
    struct buf log = {0};
    struct err e;
    NEED_OK(read_options(&o, NULL, ENV(NULL), &log, &e), &e);
    EXPECT(!o.wanted && !o.url);
    telemetry_options_deinit(&o);
    NEED_OK(read_options(&o, "http://h:4318/v1/traces", ENV("OTEL_SERVICE_NAME", ""), &log, &e),
            &e);
    EXPECT(o.wanted && o.follows_parent && o.all && !o.ca_file && o.header.n == 0);
    EXPECT_TEXT(o.url, "http://h:4318/v1/traces");
    EXPECT_INT(o.timeout_ms, 10000);
    EXPECT_INT(o.export_ms, 30000);
    EXPECT_INT(o.delay_ms, 5000);
    EXPECT_INT(o.queue_max, 2048);
    EXPECT_INT(o.batch_max, 512);
    EXPECT(memmem(o.resource.data, o.resource.n, "\x0cservice.name\x12\x07\x0a\x05quoth", 22));
    EXPECT_INT(log.n, 0);
    telemetry_options_deinit(&o);
    buf_deinit(&log);
}

TEST(telemetry_options_url)
{
    static const struct {
        const char *flag, *traces, *general, *exporter, *want; /* want NULL: no traces */
    } row[] = {
        {NULL, NULL, "http://h:4318", NULL, "http://h:4318/v1/traces"},
        {NULL, NULL, "http://h:4318/p//", NULL, "http://h:4318/p/v1/traces"},
        {NULL, "https://h/x", "http://h:4318", NULL, "https://h/x"},
        {"http://f/", "https://h/x", "http://h:4318", "none", "http://f/"},
        {NULL, "https://h/x", NULL, "none", NULL},
        {NULL, NULL, NULL, "otlp", "http://localhost:4318/v1/traces"},
        {NULL, "", "", "", NULL},
    };
    struct telemetry_options o;
    struct buf log = {0};
    struct err e;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *const v[] = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                                 row[i].traces ? row[i].traces : "",
                                 "OTEL_EXPORTER_OTLP_ENDPOINT",
                                 row[i].general ? row[i].general : "",
                                 "OTEL_TRACES_EXPORTER",
                                 row[i].exporter ? row[i].exporter : "",
                                 NULL};
        NEED_OK(read_options(&o, row[i].flag, v, &log, &e), &e);
        EXPECT_INT(o.wanted, row[i].want != NULL);
        EXPECT_TEXT(o.url ? o.url : "", row[i].want ? row[i].want : "");
        telemetry_options_deinit(&o);
    }
    NEED_OK(read_options(&o, "http://f/", ENV("OTEL_SDK_DISABLED", "True"), &log, &e), &e);
    EXPECT(!o.wanted);
    telemetry_options_deinit(&o);
    buf_deinit(&log);
}

TEST(telemetry_options_given)
{
    struct telemetry_options o;
    struct buf log = {0};
    struct err e;
    const char *const *v =
        ENV("OTEL_EXPORTER_OTLP_HEADERS", "x=general", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            " api-key = a%20b=c , , X-Other=1", "OTEL_EXPORTER_OTLP_TIMEOUT", "7",
            "OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem", "OTEL_BSP_SCHEDULE_DELAY", "20",
            "OTEL_BSP_MAX_QUEUE_SIZE", "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9",
            "OTEL_BSP_EXPORT_TIMEOUT", "50", "OTEL_SERVICE_NAME", "mine",
            "OTEL_RESOURCE_ATTRIBUTES", "a.b=c%2Cd,service.name=other", "OTEL_TRACES_SAMPLER",
            "ParentBased_TraceIdRatio", "OTEL_TRACES_SAMPLER_ARG", "0.25");
    NEED_OK(read_options(&o, "http://f/", v, &log, &e), &e);
    EXPECT_INT(o.header.n, 2);
    EXPECT_TEXT(o.header.v[0], "api-key: a b=c");
    EXPECT_TEXT(o.header.v[1], "X-Other: 1");
    EXPECT_TEXT(o.ca_file, "ca.pem");
    EXPECT(o.timeout_ms == 7 && o.delay_ms == 20 && o.export_ms == 50);
    EXPECT(o.queue_max == 4 && o.batch_max == 4); /* a batch is not larger than the queue */
    EXPECT(o.follows_parent && !o.all && o.below == (uint64_t)1 << 62);
    EXPECT(memmem(o.resource.data, o.resource.n,
                  "\x03"
                  "a.b\x12\x05\x0a\x03"
                  "c,d",
                  11));
    EXPECT(memmem(o.resource.data, o.resource.n, "mine", 4));
    EXPECT(!memmem(o.resource.data, o.resource.n, "other", 5));
    EXPECT_INT(log.n, 0);
    telemetry_options_deinit(&o);
    buf_deinit(&log);
}

/* A value of which no span could be sent is an error with the variable's name, and never contains a
 * secret. */
TEST(telemetry_options_refused)
{
    static const struct {
        const char *name, *value;
        int rc;
        const char *text;
    } row[] = {
        {"OTEL_EXPORTER_OTLP_ENDPOINT", "h:4318", ERR_ARG, "must be the URL"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://", ERR_ARG, "must be the URL"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http:///v1", ERR_ARG, "must be the URL"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://h:4317", ERR_ARG, "must be the URL"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h/a b", ERR_ARG, "must be the URL"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", ERR_UNSUPPORTED, "must be http/protobuf"},
        {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", ERR_UNSUPPORTED,
         "must be http/protobuf"},
        {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "k.pem", ERR_UNSUPPORTED, "not supported yet"},
        {"OTEL_EXPORTER_OTLP_HEADERS", "sekret", ERR_ARG, "expected NAME=VALUE"},
        {"OTEL_EXPORTER_OTLP_HEADERS", "=sekret", ERR_ARG, "expected NAME=VALUE"},
        {"OTEL_EXPORTER_OTLP_HEADERS", "a=sekret%0d%0ab:c", ERR_ARG, "expected the name"},
        {"OTEL_EXPORTER_OTLP_HEADERS", "a=sekret%zz", ERR_ARG, "expected NAME=VALUE"},
        {"OTEL_EXPORTER_OTLP_HEADERS", "sek ret=1", ERR_ARG, "expected the name"},
    };
    struct telemetry_options o;
    struct buf log = {0};
    struct err e;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *const v[] = {row[i].name, row[i].value, "OTEL_TRACES_EXPORTER", "otlp", NULL};
        const int rc = read_options(&o, NULL, v, &log, &e);
        if (rc != row[i].rc || strncmp(e.text, row[i].name, strlen(row[i].name)) != 0 ||
            !strstr(e.text, row[i].text) || strstr(e.text, "sek"))
            test_fail(__FILE__, __LINE__, "%s=%s: %d \"%s\"", row[i].name, row[i].value, rc,
                      e.text);
        telemetry_options_deinit(&o);
    }
    buf_deinit(&log);
}

TEST(telemetry_options_ignored)
{
    static const char *const row[][2] = {
        {"OTEL_EXPORTER_OTLP_TIMEOUT", "0"},
        {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "ten"},
        {"OTEL_BSP_SCHEDULE_DELAY", "-5"},
        {"OTEL_BSP_SCHEDULE_DELAY", "99999999999999999999"},
        {"OTEL_BSP_MAX_QUEUE_SIZE", "1e3"},
        {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"},
        {"OTEL_TRACES_SAMPLER", "jaeger_remote"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
        {"OTEL_RESOURCE_ATTRIBUTES", "a=b,c"},
        {"OTEL_RESOURCE_ATTRIBUTES", "a=%ff"},
        {"OTEL_SDK_DISABLED", "1"},
        {"OTEL_TRACES_EXPORTER", "zipkin"},
    };
    struct telemetry_options o;
    struct buf log = {0};
    struct err e;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        NEED_OK(read_options(&o, "http://f/", ENV(row[i][0], row[i][1]), &log, &e), &e);
        if (!log.data || !strstr(log.data, row[i][0]))
            test_fail(__FILE__, __LINE__, "%s: no warning", row[i][0]);
        EXPECT(o.wanted && o.all && o.follows_parent);
        EXPECT(o.timeout_ms == 10000 && o.delay_ms == 5000 && o.queue_max == 2048);
        EXPECT(o.batch_max == 512 && !memmem(o.resource.data, o.resource.n,
                                             "\x01"
                                             "a",
                                             2));
        telemetry_options_deinit(&o);
    }
    NEED_OK(read_options(&o, "http://f/",
                         ENV("OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "2"),
                         &log, &e),
            &e);
    EXPECT(o.all && !o.follows_parent && log.data && strstr(log.data, "OTEL_TRACES_SAMPLER_ARG"));
    telemetry_options_deinit(&o);
    buf_deinit(&log);
}

/* ---- span.c, queue.c ---- */

/* Set up traces without an exporter. */
static bool set_up(struct telemetry *t, size_t n_queue, const char *sampler, const char *ratio)
{
    struct buf log = {0};
    struct err e;
    *t = (struct telemetry){0};
    int rc = read_options(&t->o, "http://f/",
                          ENV("OTEL_TRACES_SAMPLER", sampler, "OTEL_TRACES_SAMPLER_ARG", ratio),
                          &log, &e);
    if (rc == 0) rc = span_queue_init(&t->queue, n_queue, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    t->o.batch_max = 2;
    for (int i = 0; i < 3; i++) t->seed[i] = os_random();
    buf_deinit(&log);
    return rc == 0;
}

static void tear_down(struct telemetry *t)
{
    span_queue_deinit(&t->queue);
    telemetry_options_deinit(&t->o);
}

TEST(telemetry_span)
{
    struct telemetry t;
    struct buf span[2];
    char text[TRACE_PARENT_BYTES], wide[400];
    NEED(set_up(&t, 4, "", ""));
    EXPECT(!span_begin(NULL, good, NULL, 0));
    span_put_int(NULL, "n", 1);
    span_end(NULL, false);
    struct span *s = span_begin(&t, good, "v=1", time_us() - 1000);
    NEED(s);
    span_parent_put(s, text);
    EXPECT(strncmp(text, good, 36) == 0 && strcmp(text + 53, "01") == 0);
    EXPECT(strncmp(text + 36, good + 36, 16) != 0); /* the span has an id of its own */
    EXPECT(span_seconds(s) >= 0.001);
    memset(wide, 'a', sizeof wide - 1);
    wide[sizeof wide - 1] = 0;
    memcpy(wide + 255, "\xc3\xa9", 2); /* the limit is within a character */
    span_put_text(s, "wide", wide);
    span_put_text(s, "bad", "a\xff\xfe");
    span_end(s, false);
    EXPECT_INT(span_queue_take(&t.queue, span, 2, 0), 1);
    EXPECT(memmem(span[0].data, span[0].n, "\xb7\xad\x6b\x71\x69\x20\x33\x31", 8));
    EXPECT(memmem(span[0].data, span[0].n, "\x1a\x03v=1", 5));
    EXPECT(memmem(span[0].data, span[0].n,
                  "\x12\x05\x0a\x03"
                  "a??",
                  7));
    EXPECT(memmem(span[0].data, span[0].n,
                  "\x12\x82\x02\x0a\xff\x01"
                  "aaa",
                  9)); /* 255 bytes */
    buf_deinit(&span[0]);
    tear_down(&t);
}

/* Return the number of spans that a sampler selects among n, with a header `traceparent`. */
static int n_sampled(const char *sampler, const char *ratio, const char *parent, int n)
{
    struct telemetry t;
    char text[TRACE_PARENT_BYTES];
    if (!set_up(&t, (size_t)n, sampler, ratio)) return -1;
    int n_flag = 0;
    for (int i = 0; i < n; i++) {
        struct span *s = span_begin(&t, parent, NULL, time_us());
        if (!s) continue;
        span_parent_put(s, text);
        n_flag += strcmp(text + 53, "01") == 0;
        span_put_int(s, "n", 1);
        span_end(s, false);
    }
    const int n_queued = (int)t.queue.n;
    EXPECT_INT(n_queued, n_flag);
    EXPECT_INT(telemetry_stats(&t).n_dropped, 0); /* a span that is not sampled is not dropped */
    tear_down(&t);
    return n_queued;
}

TEST(telemetry_samplers)
{
    static const char not_sampled[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    EXPECT_INT(n_sampled("", "", NULL, 9), 9);
    EXPECT_INT(n_sampled("", "", not_sampled, 9), 0);
    EXPECT_INT(n_sampled("always_on", "", not_sampled, 9), 9);
    EXPECT_INT(n_sampled("always_off", "", good, 9), 0);
    EXPECT_INT(n_sampled("parentbased_always_off", "", good, 9), 9);
    EXPECT_INT(n_sampled("parentbased_always_off", "", "malformed", 9), 0);
    EXPECT_INT(n_sampled("traceidratio", "0", good, 9), 0);
    EXPECT_INT(n_sampled("traceidratio", "1", not_sampled, 9), 9);
    /* the last 8 bytes of the trace's id are 0x8448... of 2^64: 0.5167 */
    EXPECT_INT(n_sampled("traceidratio", "0.5166", good, 9), 0);
    EXPECT_INT(n_sampled("traceidratio", "0.5168", not_sampled, 9), 9);
    const int n = n_sampled("parentbased_traceidratio", "0.25", NULL, 4000);
    EXPECT(n > 800 && n < 1200); /* 1000 +- 7 standard deviations */
}

TEST(telemetry_queue_full)
{
    struct telemetry t;
    struct buf span[2];
    NEED(set_up(&t, 3, "", ""));
    for (int i = 0; i < 5; i++) span_end(span_begin(&t, NULL, NULL, time_us()), false);
    EXPECT_INT(telemetry_stats(&t).n_dropped, 2);
    EXPECT_INT(span_queue_take(&t.queue, span, 2, INT64_MAX / 4), 2); /* a batch does not wait */
    buf_deinit(&span[0]), buf_deinit(&span[1]);
    span_end(span_begin(&t, NULL, NULL, time_us()), false);
    EXPECT_INT(telemetry_stats(&t).n_dropped, 2);
    EXPECT_INT(span_queue_take(&t.queue, span, 2, 0), 2);
    buf_deinit(&span[0]), buf_deinit(&span[1]);
    span_end(span_begin(&t, NULL, NULL, time_us()), false);
    const int64_t begin_us = time_us();
    EXPECT_INT(span_queue_take(&t.queue, span, 2, 30000), 1); /* an incomplete batch waits */
    EXPECT(time_us() - begin_us >= 25000);
    buf_deinit(&span[0]);
    span_queue_stop(&t.queue, begin_us);
    EXPECT_INT(span_queue_take(&t.queue, span, 2, INT64_MAX / 4), 0);
    span_queue_rest(&t.queue, INT64_MAX / 4);
    tear_down(&t);
}

/* A failed allocation drops the span, and is counted. */
TEST(telemetry_span_without_memory)
{
    struct telemetry t;
    struct buf span[2];
    char text[300];
    bool hit = true;
    int64_t n_dropped = 0, n_queued = 0;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    NEED(set_up(&t, 4, "", ""));
    for (uint64_t n = 0; hit; n++) {
        alloc_fail(n, 1);
        struct span *s = span_begin(&t, good, "v=1", time_us());
        span_put_text(s, "text", text);
        span_put_text(s, "more", text);
        span_end(s, false);
        hit = alloc_fail_end() > n;
        n_dropped += hit;
        n_queued += !hit;
        if (!hit) EXPECT_INT(span_queue_take(&t.queue, span, 2, 0), 1);
        if (!hit) buf_deinit(&span[0]);
    }
    EXPECT(n_dropped >= 2 && n_queued == 1); /* 3; builds with sanitizers do not count strdup */
    EXPECT_INT(telemetry_stats(&t).n_dropped, n_dropped);
    tear_down(&t);
}

/* Options are read, or an error is returned, whichever allocation fails. */
TEST(telemetry_options_without_memory)
{
    bool hit = true;
    for (uint64_t n = 0; hit; n++) {
        struct telemetry_options o = {.silent = true};
        struct err e = {0};
        variables = ENV("OTEL_EXPORTER_OTLP_HEADERS", "a=b,c=d", "OTEL_EXPORTER_OTLP_CERTIFICATE",
                        "ca.pem", "OTEL_RESOURCE_ATTRIBUTES", "a=b");
        alloc_fail(n, 1);
        const int rc = telemetry_options_read(&o, "http://f/", lookup, &e);
        hit = alloc_fail_end() > n;
        EXPECT_INT(rc, hit ? ERR_MEMORY : 0);
        telemetry_options_deinit(&o);
    }
}

/* ---- telemetry.c, export.c ---- */

enum { N_THREAD = 4, N_SPAN = 500 };

static void *end_spans(void *telemetry)
{
    for (int i = 0; i < N_SPAN; i++) {
        struct span *s = span_begin(telemetry, i % 2 ? good : NULL, "a=b", time_us());
        span_put_int(s, "i", i);
        span_end(s, i % 3 == 0);
    }
    return NULL;
}

/* Threads end spans while the exporter repeats a request to a port without a server. */
TEST(telemetry_dead_collector)
{
    struct telemetry *t;
    struct err e = {0};
    pthread_t thread[N_THREAD];
    const int rc = telemetry_open(&t, "http://127.0.0.1:9/v1/traces", &e);
    if (rc == ERR_UNSUPPORTED) SKIP("%s", e.text);
    NEED_OK(rc, &e);
    for (int i = 0; i < N_THREAD; i++) NEED(pthread_create(&thread[i], NULL, end_spans, t) == 0);
    for (int i = 0; i < N_THREAD; i++) pthread_join(thread[i], NULL);
    const int64_t until_us = time_us() + 10 * 1000 * 1000;
    while (telemetry_stats(t).n_failed == 0 && time_us() < until_us)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    EXPECT(telemetry_stats(t).n_failed > 0);
    EXPECT_INT(telemetry_stats(t).n_sent, 0);
    const int64_t begin_us = time_us();
    telemetry_close(t);
    EXPECT(time_us() - begin_us < 3 * 1000 * 1000);
}
