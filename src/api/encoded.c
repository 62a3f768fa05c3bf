/* encoded.c - numbers of a vector as base64, in vLLM's number formats and orders of bytes.
 *
 *   encoding_format  float: a list of numbers, base64: their bytes
 *   embed_dtype      number format of the bytes
 *   endianness       order of the bytes; native equals little */
#include "pooled.h"

#include "base/base64.h"
#include "quant/quant.h"

#include <string.h>

static const struct dtype {
    const char *name;
    int n_byte;
} dtypes[] = {
    {"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"fp8_e4m3", 1}, {"fp8_e5m2", 1},
};
enum { N_DTYPE = sizeof dtypes / sizeof *dtypes };

/* Return the bits of a number in format i of dtypes. */
static uint32_t bits_in(float x, int i)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return i == 0   ? u
           : i == 1 ? f16_of_f32(x)
           : i == 2 ? bf16_of_f32(x)
           : i == 3 ? e4m3_of_f32(x)
                    : e5m2_of_f32(x);
}

/* Set f->dtype to the index of embed_dtype in dtypes. */
static int read_dtype(struct vector_form *f, const struct json *body, struct err *e)
{
    const char *name = "float32";
    int rc = body_text(body, "embed_dtype", 16, &name, e);
    for (f->dtype = 0; rc == 0 && f->dtype < N_DTYPE; f->dtype++)
        if (strcmp(name, dtypes[f->dtype].name) == 0) return 0;
    return rc ? rc
              : err_field(e, ERR_ARG, "embed_dtype",
                          ": must be float32, float16, bfloat16, fp8_e4m3 or fp8_e5m2, got \"%s\"",
                          name);
}

/* Reject a number format or an order of bytes for a list of numbers, which has neither. */
static int check_needs(const struct vector_form *f, struct err *e)
{
    if (f->base64 || (f->dtype == 0 && !f->big)) return 0;
    return err_field(e, ERR_ARG, f->dtype ? "embed_dtype" : "endianness",
                     ": needs encoding_format base64");
}

int vector_form_read(struct vector_form *f, const struct json *body, struct err *e)
{
    const char *format = "float", *order = "native";
    int rc = body_text(body, "encoding_format", 16, &format, e);
    if (rc == 0) rc = body_text(body, "endianness", 16, &order, e);
    if (rc == 0) rc = read_dtype(f, body, e);
    if (rc != 0) return rc;
    f->base64 = strcmp(format, "base64") == 0;
    f->big = strcmp(order, "big") == 0;
    if (!f->base64 && strcmp(format, "float") != 0)
        return err_field(e, ERR_ARG, "encoding_format",
                         ": must be \"float\" or \"base64\", got \"%.16s\"", format);
    if (!f->big && strcmp(order, "native") != 0 && strcmp(order, "little") != 0)
        return err_field(e, ERR_ARG, "endianness", ": must be native, little or big, got \"%s\"",
                         order);
    return check_needs(f, e);
}

static void put_numbers(struct json_out *o, const char *key, const float *v, int64_t n)
{
    out_list(o, key);
    for (int64_t i = 0; i < n; i++) out_float(o, NULL, v[i]);
    out_end(o);
}

/* Append the numbers [n] as base64. Shifts select the bytes, so the order of the machine's own
 * bytes has no effect. */
static void put_base64(struct json_out *o, const char *key, const struct vector_form *f,
                       const float *v, int64_t n)
{
    struct buf bytes = {0}, text = {0};
    const int n_byte = dtypes[f->dtype].n_byte;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t u = bits_in(v[i], f->dtype);
        for (int k = 0; k < n_byte; k++)
            buf_add_char(&bytes, (char)(u >> 8 * (f->big ? n_byte - 1 - k : k)));
    }
    base64_encode(bytes.data, bytes.n, &text);
    out_plain(o, key, text.data, text.n);
    o->b->failed |= bytes.failed || text.failed;
    buf_deinit(&bytes);
    buf_deinit(&text);
}

void vector_put(struct json_out *o, const char *key, const struct vector_form *f, const float *v,
                int64_t n)
{
    if (f->base64)
        put_base64(o, key, f, v, n);
    else
        put_numbers(o, key, v, n);
}
