/* hf_quanto.c - quanto_qmap.json, the list of quantized modules of optimum-quanto:
 *
 *     {"model.layers.0.self_attn.q_proj": {"weights": "qint4", "activations": "none"}, ...}
 *
 * A folder with quanto_qmap.json has no quantization_config, so this file replaces a
 * quantization_config with quant_method "quanto". The tensors repeat the types of weights
 * (model/form/quanto.c). */
#include "hf_impl.h"

#include <string.h>

static bool among(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (text && strcmp(text, *list) == 0) return true;
    return false;
}

/* Check the types of a module's weights and activations. */
static int check_module(const struct config_reader *h, const char *module, const struct json *types)
{
    static const char *const weights[] = {"qint2",   "qint4",          "qint8",
                                          "qfloat8", "qfloat8_e4m3fn", NULL},
                             *const activations[] = {"none", NULL};
    for (void *it = json_first(types); it; it = json_next(types, it)) {
        const char *field = json_it_key(it, NULL), *type = json_text(json_it_value(it), NULL);
        const bool of_weights = strcmp(field, "weights") == 0,
                   known = of_weights || strcmp(field, "activations") == 0;
        if (!known || !among(type, of_weights ? weights : activations))
            return err_set(h->e, ERR_UNSUPPORTED,
                           "%s/%s: %.100s: %.40s: \"%.40s\" is not supported%s", h->dir, h->file,
                           module, field, type ? type : "",
                           known && !of_weights ? ": activations are not quantized" : "");
    }
    return 0;
}

int hf_read_qmap(struct config_reader *h, const struct json *root)
{
    static const char text[] = "{\"quant_method\":\"quanto\",\"quanto_qmap.json\":true}";
    struct json *q = NULL;
    int rc = 0;
    for (void *it = json_first(root); it && rc == 0; it = json_next(root, it)) {
        const char *module = json_it_key(it, NULL);
        if (json_kind(json_it_value(it)) != JK_OBJECT)
            rc = err_set(h->e, ERR_FORMAT, "%s/%s: %.100s: expected an object, got %s", h->dir,
                         h->file, module, json_kind_name(json_kind(json_it_value(it))));
        else
            rc = check_module(h, module, json_it_value(it));
    }
    if (rc == 0) rc = json_parse(&q, text, sizeof text - 1, NULL, h->e);
    if (rc == 0) rc = hf_add_other(h, "", "quantization_config", q);
    for (void *it = json_first(q); it && rc == 0; it = json_next(q, it))
        rc = hf_add_other(h, "quantization_config", json_it_key(it, NULL), json_it_value(it));
    json_drop(q);
    return rc;
}
