/* rig_test.c - goal: engine tests open models in one way; see rig_test.h. */
#include "rig_test.h"

#include "../../tests/unit.h"
#include "base/os.h"

static const char *golden(const char *model, const char *file)
{
    char path[96];
    snprintf(path, sizeof path, "tests/golden/%s/%s", model, file);
    return repo_path(path);
}

int golden_open(struct rig *r, const struct rig_options *o, struct err *e)
{
    *r = (struct rig){0};
    int rc = checkpoint_open(&r->c, golden(o->model, "model.gguf"), e);
    struct backend_options bo = {.n_thread = o->n_thread, .act = ACT_CHOICE_F32};
    if (rc == 0) rc = backend_open(&r->b, "cpu", &bo, e);
    struct model_options mo = o->m;
    mo.backend = r->b;
    if (rc == 0) rc = model_open(&r->m, r->c, &mo, e);
    if (rc == 0) rc = file_read(&r->ids, golden(o->model, "tokens.i32"), 1 << 20, e);
    if (rc != 0) return rc;
    struct engine_options eo = o->e;
    eo.executor = executor_of_model(r->m);
    eo.executor.copy_rate = o->copy_rate;
    eo.check = true;
    return engine_open(&r->en, &eo, e);
}

void golden_close(struct rig *r)
{
    engine_close(r->en);
    model_close(r->m);
    backend_close(r->b);
    checkpoint_close(r->c);
    buf_deinit(&r->ids);
}
