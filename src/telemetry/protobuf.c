/* protobuf.c - the messages of OTLP as protobuf: opentelemetry/proto/collector/trace/v1 and those
 * that it contains. A field is a tag, then a varint, 4 or 8 bytes, or a length and bytes. A message
 * in a field is bytes, so its length precedes it. Fields with their default value are omitted. */
#include "telemetry_impl.h"

#include <string.h>

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { KIND_SERVER = 2, STATUS_ERROR = 2 }; /* values of Span.SpanKind and Status.StatusCode */
enum { VARINT_MAX = 10 };                   /* maximum bytes of a varint */
/* bits of Span.flags: W3C's flags, and whether the parent is of another process */
enum { FLAG_SAMPLED = 1, FLAG_HAS_REMOTE = 0x100, FLAG_REMOTE = 0x200 };

/* ---- fields ---- */

/* Write a varint and return its number of bytes. */
static size_t varint(uint8_t out[static VARINT_MAX], uint64_t x)
{
    size_t n = 0;
    for (; x >= 128; x >>= 7) out[n++] = (uint8_t)(x | 128);
    out[n++] = (uint8_t)x;
    return n;
}

static size_t varint_bytes(uint64_t x)
{
    uint8_t unused[VARINT_MAX];
    return varint(unused, x);
}

static void put_varint(struct buf *b, uint64_t x)
{
    uint8_t bytes[VARINT_MAX];
    buf_add(b, bytes, varint(bytes, x));
}

/* Append a tag. All fields of these messages have numbers below 16, except Span.flags. */
static void put_tag(struct buf *b, int field, enum wire wire)
{
    put_varint(b, (uint64_t)field << 3 | wire);
}

/* Append tag and length of a field of n bytes, which the caller appends. */
static void put_length(struct buf *b, int field, size_t n)
{
    put_tag(b, field, BYTES);
    put_varint(b, n);
}

static void put_bytes(struct buf *b, int field, const void *data, size_t n)
{
    put_length(b, field, n);
    buf_add(b, data, n);
}

/* Append a little-endian number of n bytes. */
static void put_fixed(struct buf *b, uint64_t x, size_t n)
{
    for (size_t i = 0; i < n; i++) buf_add_char(b, (char)(x >> 8 * i));
}

/* Return the size of a field of n bytes whose number is below 16. */
static size_t field_bytes(size_t n)
{
    return 1 + varint_bytes(n) + n;
}

/* ---- attributes: KeyValue { key = 1, value = 2: AnyValue } ---- */

/* Append an attribute up to its AnyValue of n bytes, which the caller appends. */
static void put_key(struct buf *b, int field, const char *key, size_t n)
{
    const size_t n_key = strlen(key);
    put_length(b, field, field_bytes(n_key) + field_bytes(n));
    put_bytes(b, 1, key, n_key);
    put_length(b, 2, n);
}

/* AnyValue.string_value = 1 */
void put_text_attribute(struct buf *b, int field, const char *key, const char *text, size_t n)
{
    put_key(b, field, key, field_bytes(n));
    put_bytes(b, 1, text, n);
}

/* AnyValue.int_value = 3 */
void put_int_attribute(struct buf *b, int field, const char *key, int64_t x)
{
    put_key(b, field, key, 1 + varint_bytes((uint64_t)x));
    put_tag(b, 3, VARINT);
    put_varint(b, (uint64_t)x);
}

/* AnyValue.double_value = 4 */
void put_real_attribute(struct buf *b, int field, const char *key, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(b, field, key, 1 + sizeof bits);
    put_tag(b, 4, FIXED64);
    put_fixed(b, bits, sizeof bits);
}

/* ---- messages ---- */

static void put_time(struct buf *b, int field, int64_t us)
{
    put_tag(b, field, FIXED64);
    put_fixed(b, 1000 * (uint64_t)us, 8);
}

/* Span { trace_id = 1, span_id = 2, trace_state = 3, parent_span_id = 4, name = 5, kind = 6,
 * start_time_unix_nano = 7, end_time_unix_nano = 8, attributes = 9, status = 15 { code = 3 }, flags
 * = 16 }. A parent is always a client's, so it is remote. */
size_t begin_span(struct buf *b, const struct span_record *r)
{
    put_bytes(b, 1, r->context->trace, TRACE_ID_BYTES);
    put_bytes(b, 2, r->context->span, SPAN_ID_BYTES);
    if (r->state) put_bytes(b, 3, r->state, strlen(r->state));
    if (r->parent) put_bytes(b, 4, r->parent, SPAN_ID_BYTES);
    put_bytes(b, 5, r->name, strlen(r->name));
    put_tag(b, 6, VARINT);
    put_varint(b, KIND_SERVER);
    put_time(b, 7, r->begin_us);
    put_time(b, 8, 0);
    return b->n - 8;
}

void end_span(struct buf *b, size_t end_at, const struct span_record *r)
{
    const unsigned flags =
        (r->context->sampled ? FLAG_SAMPLED : 0) | FLAG_HAS_REMOTE | (r->parent ? FLAG_REMOTE : 0);
    if (b->failed) return;
    for (size_t i = 0; i < 8; i++)
        b->data[end_at + i] = (char)(1000 * (uint64_t)r->end_us >> 8 * i);
    if (r->failed) {
        put_length(b, 15, 2);
        put_tag(b, 3, VARINT);
        put_varint(b, STATUS_ERROR);
    }
    put_tag(b, 16, FIXED32);
    put_fixed(b, flags, 4);
}

/* Append an InstrumentationScope { name = 1, version = 2 } as field 1 of ScopeSpans. */
static void put_scope(struct buf *b, const char *version)
{
    static const char name[] = "quoth";
    const size_t n_name = sizeof name - 1, n_version = strlen(version);
    put_length(b, 1, field_bytes(n_name) + field_bytes(n_version));
    put_bytes(b, 1, name, n_name);
    put_bytes(b, 2, version, n_version);
}

/* ExportTraceServiceRequest { resource_spans = 1: ResourceSpans { resource = 1, scope_spans = 2:
 * ScopeSpans { scope = 1, spans = 2 } } } */
void put_export(struct buf *b, const struct buf *resource, const char *version,
                const struct buf *span, size_t n)
{
    struct buf scope = {0};
    put_scope(&scope, version);
    size_t n_spans = scope.n;
    for (size_t i = 0; i < n; i++) n_spans += field_bytes(span[i].n);
    put_length(b, 1, field_bytes(resource->n) + field_bytes(n_spans));
    put_bytes(b, 1, resource->data, resource->n);
    put_length(b, 2, n_spans);
    buf_add(b, scope.data, scope.n);
    for (size_t i = 0; i < n; i++) put_bytes(b, 2, span[i].data, span[i].n);
    b->failed |= scope.failed;
    buf_deinit(&scope);
}
