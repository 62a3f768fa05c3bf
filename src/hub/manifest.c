/* manifest.c - Ollama's manifest of a model: a list of layers, each a blob with its SHA-256.
 *
 *   {"config":{"mediaType":"...","digest":"sha256:<hash>","size":1},"layers":[{...}, ...]}
 *
 * The layer "model" is a GGUF file. Template, parameters, system prompt, messages and license are
 * kept in the store. A model with a layer for an adapter or separate tensors is rejected, because
 * this layer would change the weights. */
#include "hub_impl.h"

#include <stdio.h>
#include <string.h>

const char *layer_kind(const char *type)
{
    const size_t n = sizeof LAYER_TYPE - 1;
    return strncmp(type, LAYER_TYPE, n) == 0 ? type + n : NULL;
}

/* Append a layer as a file whose path is its media type. The digest must be SHA-256, because it
 * becomes the name of the blob. */
static int read_layer(struct hub_files *f, const struct json *j, struct err *e)
{
    static const char begin[] = "sha256:";
    size_t n_type = 0;
    const char *type = json_text(json_field(j, "mediaType"), &n_type),
               *digest = json_text(json_field(j, "digest"), NULL);
    int64_t n_byte = json_int(json_field(j, "size"), -1);
    if (!type || memchr(type, 0, n_type) || !digest || n_byte < 0 ||
        strncmp(digest, begin, sizeof begin - 1) != 0 || !is_hex(digest + sizeof begin - 1, 64))
        return err_set(e, ERR_FORMAT,
                       "the manifest is damaged: expected mediaType, digest and size of a layer");
    return files_add(f, type, n_type, digest + sizeof begin - 1, (uint64_t)n_byte, e);
}

/* Set *model to the layer with the weights. */
static int find_model(struct hub_files *f, int *model, struct err *e)
{
    *model = -1;
    for (size_t i = 0; i < f->n; i++) {
        const char *kind = layer_kind(f->v[i].path);
        if (kind && (strcmp(kind, "adapter") == 0 || strcmp(kind, "tensor") == 0))
            return err_set(e, ERR_UNSUPPORTED, "layers of the kind \"%s\" are not supported yet",
                           kind);
        if (!kind || strcmp(kind, "model") != 0) continue;
        if (*model >= 0)
            return err_set(e, ERR_UNSUPPORTED, "two layers of weights are not supported yet");
        *model = (int)i;
    }
    if (*model < 0)
        return err_set(e, ERR_UNSUPPORTED, "a layer \"%smodel\" (a GGUF file) is missing",
                       LAYER_TYPE);
    return 0;
}

int manifest_read(struct hub_files *f, int *model, const char *text, size_t n, struct err *e)
{
    struct json *j;
    int rc = json_parse(&j, text, n, &(struct json_limits){.depth_max = 16, .node_max = 100000}, e);
    if (rc != 0) return err_prefix(e, rc, "the manifest");
    const struct json *list = json_field(j, "layers"), *config = json_field(j, "config");
    if (json_kind(list) != JK_LIST || json_kind(config) != JK_OBJECT)
        rc = err_set(e, ERR_FORMAT, "the manifest is damaged: expected config and layers");
    for (size_t i = 0; rc == 0 && i < json_count(list); i++)
        rc = read_layer(f, json_item(list, i), e);
    if (rc == 0) rc = read_layer(f, config, e);
    json_drop(j);
    if (rc == 0) rc = find_model(f, model, e);
    for (size_t i = 0; i < f->n; i++) f->v[i].chosen = true;
    return rc;
}

void hub_unapplied(char out[static 100], const struct hub_model *m)
{
    static const char *const kinds[] = {"system", "params", "messages", "projector"};
    size_t n = 0;
    *out = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool found = false;
        for (size_t i = 0; m->name.kind == HUB_OLLAMA && i < m->file.n; i++) {
            const char *kind = layer_kind(m->file.v[i].path);
            found |= kind && strcmp(kind, kinds[k]) == 0;
        }
        if (found) n += (size_t)snprintf(out + n, 100 - n, "%s%s", n ? ", " : "", kinds[k]);
    }
}
