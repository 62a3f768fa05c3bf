/* adapter.c - open, bind and close the adapters of a model.
 *
 * The order in time:
 *
 *   adapters_open     read configurations, map the files, sum the device memory (n_byte)
 *   model_open        the caller reserves n_byte
 *   adapters_bind     match tensors and matrices, convert to f32, move to the device, close files
 *   model_forward     reads the additions; one forward pass at a time uses the scratch
 *   adapters_close    free the device's and the host's memory
 *
 * Opening and binding are separate, because model_open must reserve memory for the adapters. */
#include "adapter_impl.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- open ---- */

/* Return the path of a file in the folder; the path is in the arena. NULL if memory is
 * exhausted. */
static char *path_in(struct adapters *a, const char *folder, const char *name)
{
    const size_t n = strlen(folder) + strlen(name) + 2;
    char *path = arena_push(&a->arena, n, 1);
    if (path) snprintf(path, n, "%s/%s", folder, name);
    return path;
}

/* Open the two files of a folder. adapter_model.bin has its own error, because older versions of
 * PEFT save it. ERR_UNSUPPORTED if the path is not a folder. */
static int open_source(struct adapters *a, struct adapter_source *s, const char *folder,
                       struct err *e)
{
    const char *config = path_in(a, folder, "adapter_config.json"),
               *tensors = path_in(a, folder, "adapter_model.safetensors"),
               *pickle = path_in(a, folder, "adapter_model.bin");
    if (!config || !tensors || !pickle) return err_memory(e, "a path", strlen(folder));
    if (!dir_exists(folder))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: expected a folder with adapter_config.json and "
                       "adapter_model.safetensors, got %s",
                       folder, file_exists(folder) ? "a file" : "nothing");
    int rc = peft_open(&s->peft, config, e);
    bool found = false;
    if (rc == 0) rc = file_find(&found, tensors, e);
    if (rc == 0 && !found && file_exists(pickle))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: not supported, because it could run code; PEFT saves "
                     "adapter_model.safetensors with safe_serialization=True",
                     pickle);
    return rc ? rc : checkpoint_open(&s->file, tensors, e);
}

/* Return the number of bytes of the file's values on a device: f32, in panels of 16 rows. Weights
 * on the CPU backend are panels of rows (kern/panel.c), so each number of rows is rounded up.
 * adapter_bind checks the types of the tensors later. */
static int64_t device_bytes(const struct checkpoint *c)
{
    int64_t n = 0;
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        if (t->n_byte) n += (t->dim[1] + 15) / 16 * 16 * t->dim[0] * (int64_t)sizeof(float);
    }
    return n;
}

/* Copy name and path to the set. The options may be freed before the sets. */
static int set_texts(struct adapters *a, struct addition_set *set, const char *name, size_t n_name,
                     const char *path, struct err *e)
{
    set->name = arena_text(&a->arena, name, n_name);
    set->path = arena_text(&a->arena, path, strlen(path));
    return set->name && set->path ? 0 : err_memory(e, "a name", n_name + strlen(path));
}

/* Read vLLM's form {"name": NAME, "path": PATH, "base_model_name": ...}; base_model_name has no
 * effect. */
static int read_object(struct adapters *a, struct addition_set *set, const char *text,
                       struct err *e)
{
    static const struct json_limits limits = {.unique = true};
    struct json *j = NULL;
    int rc = json_parse(&j, text, strlen(text), &limits, e);
    if (rc != 0) return rc == ERR_MEMORY ? rc : err_prefix(e, ERR_ARG, "lora-modules");
    const char *name = json_text(json_field(j, "name"), NULL),
               *path = json_text(json_field(j, "path"), NULL);
    const size_t n = 2 + (json_field(j, "base_model_name") != NULL);
    if (name && *name && path && *path && json_count(j) == n)
        rc = set_texts(a, set, name, strlen(name), path, e);
    else
        rc = err_field(e, ERR_ARG, "lora-modules",
                       ": must have \"name\", \"path\" and at most \"base_model_name\", got %.60s",
                       text);
    json_drop(j);
    return rc;
}

/* Set name and path of a set. The name must differ from the names of the sets before it. i is in
 * [1, n_set). ERR_ARG contains the field, so one message is sufficient for the option and the JSON
 * key. */
static int name_set(struct adapters *a, int i, const char *text, struct err *e)
{
    struct addition_set *set = &a->set[i];
    const char *equal = strchr(text, '=');
    const bool is_object = *text == '{';
    if (!is_object && (!equal || equal == text || !equal[1]))
        return err_field(e, ERR_ARG, "lora-modules", ": must be NAME=PATH, got \"%.60s\"", text);
    int rc = is_object ? read_object(a, set, text, e)
                       : set_texts(a, set, text, (size_t)(equal - text), equal + 1, e);
    for (int k = 1; k < i && rc == 0; k++)
        if (strcmp(a->set[k].name, set->name) == 0)
            rc = err_field(e, ERR_ARG, "lora-modules",
                           ": must have one path for each name, got two for \"%.60s\"", set->name);
    return rc;
}

int adapters_open(struct additions *out, const char *base, const struct text_list *named,
                  struct err *e)
{
    const int n = 1 + (int)named->n;
    struct adapters *a = calloc(1, sizeof *a);
    *out = (struct additions){.owner = a};
    if (!a) return err_memory(e, "adapters", sizeof *a);
    a->set = arena_push0(&a->arena, (size_t)n, sizeof *a->set);
    a->source = arena_push0(&a->arena, (size_t)n, sizeof *a->source);
    int rc = a->set && a->source ? 0 : err_memory(e, "adapters", (size_t)n * sizeof *a->source);
    a->n_set = rc == 0 ? n : 0;
    out->set = a->set;
    out->n_set = a->n_set;
    if (rc == 0) a->set[0].path = base;
    for (int i = 1; i < n && rc == 0; i++) rc = name_set(a, i, named->v[i - 1], e);
    for (int i = 0; i < n && rc == 0; i++)
        if (a->set[i].path) rc = open_source(a, &a->source[i], a->set[i].path, e);
    for (int i = 0; i < n && rc == 0; i++)
        if (a->source[i].file) out->n_byte += device_bytes(a->source[i].file);
    if (rc != 0) adapters_close(out);
    return rc;
}

/* ---- bind ---- */

/* Close the file and the configuration. A second call for the same source has no effect. */
static void close_source(struct adapter_source *s)
{
    checkpoint_close(s->file);
    peft_close(&s->peft);
    s->file = NULL;
}

/* Return n uninitialized f32 values in device memory; NULL if memory is exhausted. Set *n_byte to
 * the size, which the release also needs. */
static float *scratch(struct adapters *a, size_t n, size_t *n_byte)
{
    *n_byte = n * sizeof(float);
    return a->backend->op->alloc(a->backend, *n_byte);
}

/* Move the matrices to the device and allocate the scratch.
 *   inner   f32 [n_row, rank_max]    x A, before the product with B
 *   outer   f32 [n_row, out_max]   the addition, before it is added to the layer's output */
static int move_to_device(struct adapters *a, size_t n_row, struct err *e)
{
    int rc = a->tensor.n ? a->backend->op->weights(a->backend, &a->weights, a->tensor.v,
                                                   (int)a->tensor.n, NULL, NULL, e)
                         : 0;
    if (rc != 0) return rc;
    a->inner = scratch(a, n_row * (size_t)a->rank_max, &a->inner_bytes);
    a->outer = scratch(a, n_row * (size_t)a->out_max, &a->outer_bytes);
    return a->inner && a->outer ? 0 : err_memory(e, "adapters", a->inner_bytes + a->outer_bytes);
}

/* Bind all adapters, and close the source files, also after an error. Free the arena `values`
 * before the first request, because the values are then on the device. */
int adapters_bind(struct additions *out, const struct model *m, struct backend *b, struct err *e)
{
    struct adapters *a = out->owner;
    int rc = 0;
    a->backend = b;
    for (int i = 0; i < a->n_set && rc == 0; i++)
        if (a->source[i].file) rc = adapter_bind(a, &a->set[i], &a->source[i], model_info(m), e);
    if (rc == 0 && (a->tensor.n || a->vector.n))
        rc = move_to_device(a, (size_t)model_batch_limits(m)->n_row, e);
    for (int i = 0; i < a->n_set; i++) close_source(&a->source[i]);
    arena_deinit(&a->values);
    /* the names were in the files, which are closed */
    for (size_t i = 0; i < a->tensor.n; i++) a->tensor.v[i]->name = NULL;
    out->inner = a->inner;
    out->outer = a->outer;
    return rc;
}

void adapters_close(struct additions *out)
{
    struct adapters *a = out->owner;
    if (!a) return;
    for (int i = 0; i < a->n_set; i++) close_source(&a->source[i]);
    if (a->backend) {
        const struct backend_ops *op = a->backend->op;
        if (a->inner) op->release(a->backend, a->inner, a->inner_bytes);
        if (a->outer) op->release(a->backend, a->outer, a->outer_bytes);
        for (size_t i = 0; i < a->vector.n; i++)
            op->release(a->backend, a->vector.v[i].v, a->vector.v[i].n_byte);
        op->weights_close(a->backend, a->weights);
    }
    vec_deinit(&a->tensor);
    vec_deinit(&a->vector);
    arena_deinit(&a->values);
    arena_deinit(&a->arena);
    free(a);
    *out = (struct additions){0};
}
