/* sentence.c - the places of sentence-transformers' files in a Hugging Face directory. Older
 * directories have the model, its tokenizer and its settings in the folder of the first module,
 * such as 0_Transformer. Newer ones have them in the directory itself. */
#include "format_impl.h"

#include <stdio.h>
#include <string.h>

enum { MODULES_BYTES_MAX = 1 << 20 };

const char *sentence_file(size_t i)
{
    static const char *const name[] = {
        "sentence_bert_config.json",       "sentence_roberta_config.json",
        "sentence_distilbert_config.json", "sentence_camembert_config.json",
        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
        "sentence_xlnet_config.json"};
    return i < sizeof name / sizeof name[0] ? name[i] : NULL;
}

const char *sentence_class(const char *type)
{
    static const struct {
        const char *name, *type; /* static */
    } known[] = {
#define MODULE(name, path) {name, "sentence_transformers." path "." name},
#include "modules.def"
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].type, type) == 0) return known[i].name;
    return NULL;
}

bool sentence_inner(char *out, size_t n_out, const char *path)
{
    out[0] = 0;
    if (*path == '/') return false;
    while (*path) {
        const size_t n = strcspn(path, "/");
        if (n > 0 && !(n == 1 && path[0] == '.')) {
            if (out[0] || n >= n_out || (n == 2 && memcmp(path, "..", 2) == 0)) return false;
            memcpy(out, path, n);
            out[n] = 0;
        }
        path += n + (path[n] == '/');
    }
    return true;
}

int sentence_folder(char path[static 4096], bool *modules, const char *dir, struct err *e)
{
    struct json *list = NULL;
    char inner[201] = "";
    *modules = false;
    int rc = hf_path(path, 4096, dir, "modules.json", e);
    if (rc == 0) rc = file_find(modules, path, e);
    if (rc == 0 && *modules) rc = json_read_file(&list, path, MODULES_BYTES_MAX, e);
    const struct json *first = json_item(list, 0);
    const char *type = json_text(json_field(first, "type"), NULL),
               *name = json_text(json_field(first, "path"), NULL),
               *class = type ? sentence_class(type) : NULL;
    const bool is_own = class && name && strcmp(class, "Transformer") == 0 &&
                        sentence_inner(inner, sizeof inner, name) && *inner;
    if (rc == 0 && is_own) rc = hf_path(path, 4096, dir, inner, e);
    if (rc == 0 && !is_own) snprintf(path, 4096, "%s", dir); /* fits, as dir/modules.json did */
    json_drop(list);
    return rc;
}
