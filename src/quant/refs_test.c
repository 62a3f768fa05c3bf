/* refs_test.c - goal: agreement with other programs. Method: compare with
 * shared/data/numeric/ggml_quant_refs.jsonl. This file has 8 x 256 real weights, their bytes in 27
 * formats from llama.cpp, and the values of those bytes. */
#include "quant_impl.h"

#include <stdlib.h>

#include "../../tests/unit.h"

enum { N = 8 * 256 };

/* Return a value of the line's JSON object: the text between "key":" and the next quote. The object
 * contains only plain strings. */
static const char *field(const char *line, const char *end, const char *key)
{
    char name[40];
    size_t n = (size_t)snprintf(name, sizeof name, "\"%s\":\"", key);
    const char *at = memmem(line, (size_t)(end - line), name, n);
    return at ? at + n : NULL;
}

static bool field_is(const char *at, const char *text)
{
    return strncmp(at, text, strlen(text)) == 0 && at[strlen(text)] == '"';
}

/* Read the n bytes of a hex string. Return false if it has fewer or more bytes. */
static bool hex_read(void *y, const char *hex, size_t n)
{
    for (size_t i = 0; hex && i < n; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) return false;
        ((uint8_t *)y)[i] = (uint8_t)byte;
    }
    return hex && hex[2 * n] == '"';
}

static char *file_read(const char *path)
{
    size_t n = 0, cap = 1 << 20;
    char *text = malloc(cap);
    FILE *f = fopen(path, "rb");
    if (f && text) n = fread(text, 1, cap - 1, f);
    if (text) text[n] = 0;
    if (f) fclose(f);
    return text;
}

static double rmse(const float *a, const float *b, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum / n);
}

/* Check one record. decode must give the recorded bits. quoth's encoding must be as close to the
 * source as the recorded encoding. */
static void check_record(const char *line, const char *end, const float *source)
{
    static uint8_t bytes[N * 4], ours[N * 4];
    static float want[N], got[N], again[N];
    char name[16];
    sscanf(field(line, end, "type"), "%15[^\"]", name);
    int t = qtype_of_name(name);
    if (t < 0) {
        test_fail(__FILE__, __LINE__, "unknown type %s", name);
        return;
    }
    size_t n_byte = qtype_bytes((enum qtype)t, N);
    NEED(hex_read(bytes, field(line, end, "quantized_hex"), n_byte));
    NEED(hex_read(want, field(line, end, "dequant_f32_hex"), sizeof want));
    const struct qtype_ops *ops = qtype_info[t].ops;
    ops->decode(got, bytes, N);
    bool exact = memcmp(got, want, sizeof want) == 0;
    ops->encode(ours, source, N, NULL);
    ops->decode(again, ours, N);
    double theirs = rmse(want, source, N), mine = rmse(again, source, N);
    test_note("%-8s decode %s, encode rmse %.6f = %.4f of the recorded", name,
              exact ? "exact" : "WRONG", mine, mine / theirs);
    if (!exact) test_fail(__FILE__, __LINE__, "%s: decoded values differ", name);
    if (!(mine <= 1.02 * theirs))
        test_fail(__FILE__, __LINE__, "%s: rmse %g, recorded %g", name, mine, theirs);
}

TEST(quant_decodes_and_encodes_like_the_published_formats)
{
    static float source[N];
    const char *path = data_path("numeric/ggml_quant_refs.jsonl");
    if (!path) SKIP("no numeric/ggml_quant_refs.jsonl");
    char *text = file_read(path);
    NEED(text);
    int n_type = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *kind = field(line, end, "kind");
        if (kind && field_is(kind, "source"))
            EXPECT(hex_read(source, field(line, end, "f32_hex"), sizeof source));
        else if (kind && field_is(kind, "quant"))
            check_record(line, end, source), n_type++;
    }
    EXPECT_INT(n_type, 27);
    free(text);
}
