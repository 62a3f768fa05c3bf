/* context_test.c - rendering of templates with any variables (context_test.h). */
#include "context_test.h"

#include "template_impl.h"

int render_context(const struct template *t, const struct json *context,
                   const struct template_limits *limits, int64_t now, struct buf *out,
                   struct err *e)
{
    struct render r;
    render_begin(&r, t, limits, now, e);
    struct val v = json_kind(context) == JK_OBJECT ? val_from_json(&r, context) : VAL_UNDEFINED;
    if (v.kind == V_DICT) r.globals = v.dict;
    int rc = render_run(&r, t);
    if (rc == 0) buf_add(out, r.out.data ? r.out.data : "", r.out.n);
    if (rc == 0 && out->failed) rc = err_memory(e, "a rendered prompt", r.out.n);
    render_end(&r);
    return rc;
}
