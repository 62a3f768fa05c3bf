/* defaults.c - default sampling parameters of requests: serve and batch.
 *
 *   the model's generation_config, or quoth's own
 *     <- --temperature, ...
 *     <- --override-generation-config
 *
 * A later source overrides the earlier ones. The parameters of a request override all defaults. */
#include "answer.h"

#include "base/json.h"

#include <string.h>

NAMES(sources, "auto", "vllm")
static const char *source = "auto", *overrides;

/* options_judge checks a value, options_set stores it. */
typedef int member_fn(const struct option *table, const char *name, const char *value,
                      struct err *e);

/* Call `with` for a member of the overrides, as for a flag. The value is the member's JSON text. */
static int for_member(void *member, member_fn *with, struct err *e)
{
    char name[64];
    struct buf value = {0};
    size_t n;
    const char *key = json_it_key(member, &n);
    snprintf(name, sizeof name, "%.*s", (int)n, key);
    json_put(&value, json_it_value(member));
    int rc =
        value.failed ? err_memory(e, name, value.n) : with(sampling_options, name, value.data, e);
    buf_deinit(&value);
    return rc;
}

/* Call `with` for each member of a JSON object. The form of the option checks the members, so a
 * wrong member is reported before a model is loaded. */
static int for_overrides(const char *text, member_fn *with, struct err *e)
{
    struct json *root = NULL;
    int rc = json_object_form(text, e);
    if (rc == 0) rc = json_parse(&root, text, strlen(text), NULL, e);
    for (void *it = rc == 0 ? json_first(root) : NULL; rc == 0 && it; it = json_next(root, it))
        rc = for_member(it, with, e);
    json_drop(root);
    return rc;
}

/* Check the members of --override-generation-config (form_fn), before a model is loaded. */
static int overrides_form(const char *text, struct err *e)
{
    return for_overrides(text, options_judge, e);
}

const struct option request_default_options[] = {
    NAME_OPTION("generation-config", "auto|vllm", &source, sources,
                "defaults of requests: the model's generation_config (auto) or none (vllm) "
                "(default auto)"),
    FORM_OPTION(
        "override-generation-config", "JSON", &overrides, overrides_form,
        "defaults of requests, e.g. {\"temperature\": 0.5}; sampling flags also set defaults"),
    OPTIONS_OF(sampling_options),
    OPTIONS_END,
};

int request_defaults(struct api *a, const struct checkpoint *c, struct err *e)
{
    const bool own = strcmp(source, "auto") == 0;
    a->defaults = own ? session_sample_defaults(c, 1) : sample_params_default;
    a->max_tokens = own ? session_max_tokens(c) : 0;
    int rc = overrides ? for_overrides(overrides, options_set, e) : 0;
    sampling_read(&a->defaults);
    return rc;
}
