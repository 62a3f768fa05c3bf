/* sampling.c - flags of the sampling parameters, generated from their list (sample/params.def). A
 * missing flag has the value NaN or INT64_MIN, which no range contains. */
#include "option_impl.h"

#include "base/json.h"
#include "sample/sample.h"

#include <math.h>
#include <stdlib.h>

/* Values of the flags. The type of a field is that of its parameter. */
struct sampling_flags {
#define REAL(name, ...)     double name;
#define INT(name, ...)      int64_t name;
#define ONE_INT(name, ...)  int64_t name;
#define ONE_FLAG(name, ...) bool name;
#include "sample/params.def"
};
static struct sampling_flags given = {
#define REAL(name, ...)    .name = NAN,
#define INT(name, ...)     .name = INT64_MIN,
#define ONE_INT(name, ...) .name = INT64_MIN,
#include "sample/params.def"
};

const struct option sampling_options[] = {
#define REAL(name_, fallback, range_, flag, key, alias, help_)                                     \
    REAL_OPTION(flag, "X", &given.name_, 0, 0, help_ " (default " #fallback ")",                   \
                .range = &sample_param[SAMPLE_##name_].range),
#define INT(name_, fallback, range_, flag, key, alias, help_)                                      \
    INT_OPTION(flag, "N", &given.name_, 0, 0, help_ " (default " #fallback ")",                    \
               .range = &sample_param[SAMPLE_##name_].range),
#include "sample/params.def"
    OPTIONS_END,
};

const struct option sampling_one_options[] = {
#define ONE_INT(name_, fallback, range_, flag, help_)                                              \
    INT_OPTION(flag, "N", &given.name_, 0, 0, help_ " (default " #fallback ")",                    \
               .range = &sample_param[SAMPLE_##name_].range),
#define ONE_FLAG(name_, flag, help_) FLAG_OPTION(flag, &given.name_, help_),
#include "sample/params.def"
    OPTIONS_END,
};

struct sampling_flags *sampling_flags_copy(void)
{
    struct sampling_flags *f = malloc(sizeof *f);
    if (f) *f = given;
    return f;
}

void sampling_flags_set(const struct sampling_flags *f)
{
    given = *f;
}

typedef void given_fn(void *ctx, enum sample_param_id which, double value);

/* Call fn for each given parameter. */
static void for_given(given_fn *fn, void *ctx)
{
#define REAL(name, ...)                                                                            \
    if (!isnan(given.name)) fn(ctx, SAMPLE_##name, given.name);
#define INT(name, ...)                                                                             \
    if (given.name != INT64_MIN) fn(ctx, SAMPLE_##name, (double)given.name);
#define ONE_INT(name, ...) INT(name)
#define ONE_FLAG(name, ...)                                                                        \
    if (given.name) fn(ctx, SAMPLE_##name, 1);
#include "sample/params.def"
}

/* Set one parameter (given_fn). */
static void read_one(void *params, enum sample_param_id which, double value)
{
    sample_param_set(params, &sample_param[which], value);
}

void sampling_read(struct sample_params *p)
{
    for_given(read_one, p);
}

/* Arguments of sampling_put, borrowed for the call. */
struct members {
    struct buf *b;
    const struct json *except;
};

/* Append one parameter as a member of JSON (given_fn), unless the object `except` has it. */
static void put_one(void *members, enum sample_param_id which, double value)
{
    const struct members *m = members;
    const char *name = sample_param[which].name;
    if (json_field(m->except, name)) return;
    if (sample_param[which].kind == SAMPLE_INT)
        json_member_int(m->b, name, (int64_t)value);
    else
        json_member_real(m->b, name, value);
}

void sampling_put(struct buf *b, const struct json *except)
{
    for_given(put_one, &(struct members){b, except});
}

/* Show the values of p as if the flags were given, so that one table prints the range of each
 * value. The flags are restored afterwards. */
void sampling_show(const struct sample_params *p, const struct option *table, FILE *out)
{
    const struct sampling_flags was = given;
#define REAL(name, ...)    given.name = (double)p->name;
#define INT(name, ...)     given.name = p->name;
#define ONE_INT(name, ...) given.name = p->name;
#include "sample/params.def"
    options_show(table, out);
    given = was;
}
