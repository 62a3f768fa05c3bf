/* choose.c - the files of a model in a repository of Hugging Face.
 *
 *   GGUF          the files of one number format: one file, or NAME-0000i-of-0000n.gguf
 *   safetensors   model.safetensors, or its shards, or all .safetensors at the top, with the
 *                 configuration, the tokenizer, and the layers of sentence-transformers
 *
 * A folder of safetensors has precedence over GGUF files if no format is requested. Among GGUF
 * files, the first format of `preferred` has precedence. One function selects files from a server's
 * list and from a snapshot. */
#include "hub_impl.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Order of the formats if none is requested: the default of other programs, then formats of similar
 * size. */
static const char *const preferred[] = {"Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q6_K",
                                        "Q8_0",   "F16",    "BF16", "F32"};

/* Parse "-0000i-of-0000n" at the end of a name of n_name bytes (without ".gguf"). Return the number
 * of bytes before it, or n_name with i = n = 1 if the name has no such end. */
static size_t split_of(const char *name, size_t n_name, int *i, int *n)
{
    enum { END = 15 }; /* bytes of "-00001-of-00002" */
    int used = 0;
    *i = *n = 1;
    if (n_name <= END) return n_name;
    const char *end = name + n_name - END;
    for (int k = 1; k < 6; k++)
        if (!isdigit((unsigned char)end[k]) || !isdigit((unsigned char)end[k + 9])) return n_name;
    if (end[0] != '-' || memcmp(end + 6, "-of-", 4) != 0) return n_name;
    for (int k = 1, first = 0, last = 0; k < 6; k++, used++) {
        first = first * 10 + end[k] - '0', last = last * 10 + end[k + 9] - '0';
        *i = first, *n = last;
    }
    return n_name - END;
}

/* A GGUF file of a repository. */
struct gguf {
    const char *path; /* borrowed */
    size_t n_stem;    /* bytes of the path without its split and its end */
    int i, n;         /* number of the file in its split, and of all its files */
};

/* Return false for files that are not the weights of a model. */
static bool read_gguf(struct gguf *g, const char *path)
{
    const char *name = path_name(path);
    if (!text_ends_with(path, ".gguf") || strncasecmp(name, "mmproj", 6) == 0 ||
        strcasestr(name, "-mmproj") || strcasestr(name, "imatrix"))
        return false;
    g->path = path;
    g->n_stem = split_of(path, strlen(path) - 5, &g->i, &g->n);
    return g->i >= 1 && g->i <= g->n;
}

static bool is_mark(char c)
{
    return c == '-' || c == '_' || c == '.' || c == '/';
}

/* Return true if the stem contains the format as a word: after a mark, and before "-", "." or the
 * end. Q4_K_M does not contain Q4_K. UD-Q4_K_XL contains Q4_K_XL. */
static bool has_word(const char *stem, size_t n_stem, const char *word)
{
    size_t n = strlen(word);
    for (size_t at = 0; at + n <= n_stem; at++) {
        bool begins = at == 0 || is_mark(stem[at - 1]), ends = at + n == n_stem;
        if (begins && strncasecmp(stem + at, word, n) == 0 &&
            (ends || (is_mark(stem[at + n]) && stem[at + n] != '_')))
            return true;
    }
    return false;
}

/* Return true if the file has the requested format or name. */
static bool matches(const struct gguf *g, const char *quant)
{
    const char *name = path_name(g->path);
    size_t n_name = g->n_stem - (size_t)(name - g->path), n = strlen(quant);
    if (text_ends_with(quant, ".gguf")) n -= 5;
    return has_word(g->path, g->n_stem, quant) ||
           (n == n_name && strncasecmp(name, quant, n) == 0) || strcasecmp(name, quant) == 0;
}

/* Return true for a word of a number format: Q4_K_M, IQ2_XXS, BF16, MXFP4_MOE ... */
static bool is_format(const char *word, size_t n)
{
    static const char *const begin[] = {"IQ", "TQ", "Q", "BF16", "F16", "F32", "MXFP", "NVFP"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        size_t k = strlen(begin[i]);
        if (n < k || strncasecmp(word, begin[i], k) != 0) continue;
        bool whole = isdigit((unsigned char)begin[i][k - 1]);
        if (whole ? n == k : n > k && isdigit((unsigned char)word[k])) return true;
    }
    return false;
}

bool gguf_label(char out[static 200], const char *path)
{
    struct gguf g;
    if (!read_gguf(&g, path) || g.i != 1) return false;
    size_t name = (size_t)(path_name(path) - path);
    for (size_t end = g.n_stem, at; end > name; end = at - (at > name)) {
        for (at = end; at > name && !strchr("-./", path[at - 1]);) at--;
        if (is_format(path + at, end - at)) {
            snprintf(out, 200, "%.*s", (int)(end - at), path + at);
            return true;
        }
        if (at == name) break;
    }
    snprintf(out, 200, "%.*s", (int)(g.n_stem - name), path + name);
    return true;
}

/* Append the label of each GGUF model to the text. */
static void put_labels(char *out, size_t n_out, const struct hub_files *f)
{
    char label[200];
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < f->n && n < n_out; i++)
        if (gguf_label(label, f->v[i].path))
            n += (size_t)snprintf(out + n, n_out - n, "%s%s", n ? ", " : "", label);
}

/* Select all files of the split that begins with file `first`. */
static int choose_split(struct hub_files *f, int first, struct err *e)
{
    struct gguf a = {0}, b;
    int n_found = 0;
    read_gguf(&a, f->v[first].path);
    for (size_t i = 0; i < f->n; i++) {
        if (!read_gguf(&b, f->v[i].path) || b.n_stem != a.n_stem || b.n != a.n ||
            memcmp(a.path, b.path, a.n_stem) != 0 || (a.n == 1 && (int)i != first))
            continue;
        f->v[i].chosen = true;
        n_found++;
    }
    if (n_found == a.n) return 0;
    return err_set(e, ERR_MISSING, "%s: %d of its %d files are missing", a.path, a.n - n_found,
                   a.n);
}

/* Set *first to the first file of a GGUF model with the format `quant`; NULL: any format. Return
 * the number of models with the format. */
static int find_gguf(const struct hub_files *f, const char *quant, int *first)
{
    struct gguf g;
    int n = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (!read_gguf(&g, f->v[i].path) || g.i != 1 || (quant && !matches(&g, quant))) continue;
        if (n++ == 0) *first = (int)i;
    }
    return n;
}

/* Select the GGUF model. A model whose label is the format has precedence over models whose path
 * contains the format. */
static int choose_gguf(struct hub_files *f, const char *quant, int *first, struct err *e)
{
    char labels[700], label[200];
    int n = *quant ? find_gguf(f, quant, first) : 0, n_label = 0;
    for (size_t i = 0; !*quant && n == 0 && i < sizeof preferred / sizeof *preferred; i++)
        n = find_gguf(f, preferred[i], first);
    if (!*quant && n == 0) n = find_gguf(f, NULL, first);
    for (size_t i = 0; n > 1 && *quant && i < f->n; i++) {
        if (!gguf_label(label, f->v[i].path) || strcasecmp(label, quant) != 0) continue;
        if (n_label++ == 0) *first = (int)i;
    }
    put_labels(labels, sizeof labels, f);
    if (n == 0 && *quant)
        return err_set(e, ERR_MISSING, "%s not found; available: %s", quant,
                       *labels ? labels : "no GGUF file");
    if (n > 1 && n_label != 1)
        return err_set(e, ERR_ARG,
                       "%d GGUF models match; give one as hf:ORG/REPO:NAME; available: %s", n,
                       labels);
    return choose_split(f, *first, e);
}

/* ---- safetensors ---- */

static int index_of(const struct hub_files *f, const char *path)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i].path, path) == 0) return (int)i;
    return -1;
}

/* Return true for a shard of model.safetensors.index.json. */
static bool is_shard(const char *path)
{
    int i, n;
    size_t n_path = strlen(path);
    return n_path > 12 && strncmp(path, "model-", 6) == 0 &&
           split_of(path, n_path - 12, &i, &n) < n_path - 12;
}

/* Return true for files of the configuration and the tokenizer, and for folders that quoth reads:
 * layers of sentence-transformers ("1_Pooling"), and further templates. */
static bool is_small(const char *path)
{
    static const char *const end[] = {".json", ".jinja", ".model", ".txt", ".tiktoken"};
    const char *slash = strchr(path, '/');
    bool layer = isdigit((unsigned char)path[0]) && path[1] == '_';
    if (slash && !layer && strncmp(path, "additional_chat_templates/", 26) != 0) return false;
    if (layer && slash && text_ends_with(path, ".safetensors")) return true;
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        if (text_ends_with(path, end[i])) return true;
    return false;
}

/* Return true if file i has weights that the reader of folders opens. */
static bool is_weight(const struct hub_files *f, size_t i)
{
    const char *path = f->v[i].path;
    if (strchr(path, '/') || !text_ends_with(path, ".safetensors")) return false;
    if (index_of(f, "model.safetensors") >= 0) return strcmp(path, "model.safetensors") == 0;
    if (index_of(f, "model.safetensors.index.json") >= 0) return is_shard(path);
    return true;
}

/* Return the number of shards according to the names of the selected shards; 0 without shards. */
static int n_shard(const struct hub_files *f)
{
    int i, n = 0;
    for (size_t k = 0; k < f->n; k++)
        if (is_weight(f, k) && is_shard(f->v[k].path))
            split_of(f->v[k].path, strlen(f->v[k].path) - 12, &i, &n);
    return n;
}

/* Select the files of a folder of safetensors. Return the number of its files of weights. */
static int choose_folder(struct hub_files *f, struct err *e)
{
    int n = 0, want = n_shard(f);
    for (size_t i = 0; i < f->n; i++) {
        bool weight = is_weight(f, i);
        f->v[i].chosen = weight || is_small(f->v[i].path);
        n += weight;
    }
    if (n >= want) return 0;
    return err_set(e, ERR_MISSING, "%d of the %d files model-*.safetensors are missing", want - n,
                   want);
}

static bool has_folder(const struct hub_files *f)
{
    bool weights = false;
    for (size_t i = 0; i < f->n && !weights; i++) weights = is_weight(f, i);
    return weights && index_of(f, "config.json") >= 0;
}

int files_choose(struct hub_files *f, const char *quant, int *main_file, struct err *e)
{
    int first = -1, n_other = 0;
    *main_file = -1;
    for (size_t i = 0; i < f->n; i++) {
        f->v[i].chosen = false;
        n_other += text_ends_with(f->v[i].path, ".bin") || text_ends_with(f->v[i].path, ".pt") ||
                   text_ends_with(f->v[i].path, ".onnx");
    }
    if (!*quant && has_folder(f)) return choose_folder(f, e);
    if (*quant || find_gguf(f, NULL, &first) > 0) return choose_gguf(f, quant, main_file, e);
    return err_set(e, ERR_MISSING, "a GGUF file, or config.json with .safetensors, is missing%s",
                   n_other ? "; files of other formats (.bin, .pt, .onnx) are not supported" : "");
}
