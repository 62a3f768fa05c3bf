/* rope.c - conversion of the options of rope to values that replace values of the model
 * (checkpoint_changes).
 *
 *   vLLM        --rope-scaling '{"rope_type": "yarn", "factor": 4, ...}' --rope-theta BASE
 *   llama.cpp   --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx N ... --rope-freq-base BASE
 *
 * Options of llama.cpp become an object of vLLM's form. The type of the model has no effect if it
 * has no parameters. Options of the other form, or of another type, are errors. */
#include "session.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

NAMES(types, "none", "linear", "dynamic", "yarn", "longrope", "llama3", "mrope")

int session_rope_form(const char *text, struct err *e)
{
    for (int i = 0; types(i); i++)
        if (strcmp(types(i), text) == 0) return 0;
    return *text == '{' ? json_object_form(text, e)
                        : form_wrong(e,
                                     "none, linear, dynamic, yarn, longrope, llama3, mrope or a "
                                     "JSON object",
                                     text);
}

/* A parameter of llama.cpp's form. */
struct rope_parameter {
    const char *flag, *field; /* static; field of rope_scaling */
    double value;             /* value; 0: not given */
    bool yarn;                /* true: the parameter belongs to YaRN only */
};

/* Set p to the parameters. Return the first given parameter; NULL if none. */
static const struct rope_parameter *parameters(struct rope_parameter p[5],
                                               const struct session_options *o)
{
    const double share = o->rope_freq_scale;
    const struct rope_parameter all[] = {
        {"rope-scale", "factor", o->rope_scale, false},
        {"rope-freq-scale", "factor", share > 0 ? 1 / share : 0, false},
        {"yarn-orig-ctx", "original_max_position_embeddings", (double)o->yarn_orig_ctx, true},
        {"yarn-beta-fast", "beta_fast", o->yarn_beta_fast, true},
        {"yarn-beta-slow", "beta_slow", o->yarn_beta_slow, true}};
    memcpy(p, all, sizeof all);
    for (int i = 0; i < 5; i++)
        if (p[i].value > 0) return &p[i];
    return NULL;
}

/* Reject a parameter that the type lacks. */
static int check(const char *type, const struct rope_parameter *p, struct err *e)
{
    const bool scales = strcmp(type, "none") != 0 && strcmp(type, "mrope") != 0;
    if (p->yarn && strcmp(type, "yarn") != 0)
        return err_set(e, ERR_ARG, "--%s needs --rope-scaling yarn", p->flag);
    return scales
               ? 0
               : err_set(e, ERR_ARG, "--rope-scaling %s: must not come with --%s", type, p->flag);
}

/* Write the object of a type and its parameters. */
static int put_object(char *out, const struct rope_parameter p[5], const char *type, struct err *e)
{
    const bool none = strcmp(type, "none") == 0;
    struct buf b = {0};
    int rc = 0;
    buf_addf(&b, "{\"rope_type\":\"%s\"", none ? "default" : type);
    for (int i = 0; i < 5 && rc == 0; i++) {
        if (!(p[i].value > 0)) continue;
        rc = check(type, &p[i], e);
        if (strcmp(p[i].flag, "yarn-orig-ctx") == 0)
            json_member_int(&b, p[i].field, (int64_t)p[i].value);
        else
            json_member_real(&b, p[i].field, p[i].value);
    }
    buf_add_char(&b, '}');
    if (b.failed && rc == 0) rc = err_memory(e, "--rope-scaling", b.n);
    if (rc == 0) snprintf(out, SESSION_ROPE_BYTES, "%s", b.data);
    buf_deinit(&b);
    return rc;
}

int session_rope(struct checkpoint_changes *changes, char out[SESSION_ROPE_BYTES],
                 const struct session_options *o, struct err *e)
{
    struct rope_parameter p[5];
    const struct rope_parameter *first = parameters(p, o);
    const char *type = o->rope_scaling;
    changes->rope_theta = o->rope_theta;
    if (first && !type) return err_set(e, ERR_ARG, "--%s needs --rope-scaling", first->flag);
    if (!type) return 0;
    if (first && *type == '{')
        return err_set(e, ERR_ARG, "--rope-scaling: a JSON object must not come with --%s",
                       first->flag);
    if (o->rope_scale > 0 && o->rope_freq_scale > 0)
        return err_set(e, ERR_ARG, "--rope-scale: must not come with --rope-freq-scale");
    changes->rope = type;
    if (*type == '{') return 0;
    changes->rope = out;
    changes->rope_adds = true;
    return put_object(out, p, type, e);
}
