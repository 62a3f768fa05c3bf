/* serve_models.c - several models of quoth serve: the list of models, and the opening of a model.
 *
 *   --models-dir     each .gguf and each folder of Hugging Face below it   --.
 *   --models-preset  sections of an INI file, as of llama.cpp's router     --+--> entries
 *   --models-hub     models of quoth list; clients may add others (add)    --'
 *
 *   entry --measure--> bytes of its plan --load--> session, engine, chat --> struct api
 *
 * The plan of a model has 1/--models-max of the memory, but at least the weights and a quarter of
 * their size. A plan that is too small is doubled. The plan and the context of a model therefore do
 * not depend on the other models in memory. All models share one pool.
 *
 * Options are variables of the process (option/), so two models cannot have different values at one
 * time. set_options therefore applies the sections of one entry, copies the result to the entry,
 * and restores the variables before the next entry.
 *
 * Entries never move or disappear: the registry's thread, handlers and the thread of the hub's jobs
 * have pointers to them. A removed model keeps its entry until the end of the program, and
 * N_MODEL_MAX limits the number of entries. */
#include "serve_models.h"

#include "answer.h"

#include "base/check.h"
#include "base/ini.h"
#include "base/log.h"
#include "base/os.h"
#include "base/pool.h"
#include "base/text.h"
#include "base/utf8.h"
#include "hub/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    DEPTH_MAX = 8, /* depth of folders below --models-dir */
    N_MODEL_MAX = 4096,
    PRESET_BYTES_MAX = 1 << 20,
    /* default of --models-max; with --models-max 0 also the number of parts of the memory */
    N_SHARE = 4,
};
/* smallest part of a plan beyond the weights */
static const int64_t REST_BYTES = 64 << 20;

static const char *dir, *preset;
static int64_t n_loaded_max = -1, idle_s = -1; /* -1: not given */
static bool autoload = true, sleeps, stores;
static struct text_list pinned;

const struct option serve_models_options[] = {
    TEXT_OPTION("models-dir", "FOLDER", &dir,
                "serve each .gguf file and Hugging Face folder below FOLDER, loaded on demand"),
    TEXT_OPTION("models-preset", "FILE", &preset,
                "serve the models of an INI file: a section per model with its options"),
    FLAG_OPTION("models-hub", &stores,
                "serve the models of quoth list; Ollama's clients may pull and delete models"),
    INT_OPTION("models-max", "N", &n_loaded_max, 0, 1 << 20,
               "maximum number of loaded models; 0: limited by memory only (default 4)"),
    WORDS_OPTION("models-pinned", "NAME...", &pinned,
                 "models that are loaded at the start and never unloaded for other models"),
    INT_OPTION("sleep-idle-seconds", "S", &idle_s, -1, 1 << 30,
               "unload a model that is not used for S seconds; -1: never (default -1)"),
    FLAG_OPTION("models-autoload", &autoload,
                "load a model if a request needs it (default on; --no-...)"),
    FLAG_OPTION("enable-sleep-mode", &sleeps,
                "let POST /sleep unload MODEL, and POST /wake_up load it"),
    OPTIONS_END,
};

bool serve_models_given(void)
{
    return dir || preset || stores;
}

bool serve_models_hub(void)
{
    return stores;
}

bool serve_models_needed(void)
{
    return serve_models_given() || sleeps || idle_s >= 0 || !autoload;
}

int serve_models_check(struct err *e)
{
    const char *flag = n_loaded_max >= 0 ? "models-max" : pinned.n > 0 ? "models-pinned" : NULL;
    if (!flag || serve_models_given()) return 0;
    return err_set(e, ERR_ARG, "--%s needs --models-dir, --models-preset or --models-hub", flag);
}

/* A model that can be opened. */
struct model_entry {
    char *name, *path;        /* owned */
    const char *alias;        /* ORG/REPO of the name hf:ORG/REPO, in name; NULL if none */
    const char *name_list[2]; /* name and alias, for its spec */
    const char *const *names; /* names for its spec [n_name], borrowed; NULL: name_list */
    int n_name;
    struct session_options o;        /* texts are valid until the program ends */
    struct sampling_flags *sampling; /* defaults of the model's requests, owned */
    bool pinned, loads;
    bool stored;                 /* true: a model of the hub's stores; `sampling` may be shared */
    int64_t n_byte, modified_us; /* of its files */
    /* the open model */
    struct session session;
    struct chat chat;
    struct ollama_defaults layers; /* of a model of Ollama's store */
};

struct serve_models {
    /* entries, which do not move after the list was read, because other threads use them */
    VEC(struct model_entry) entry;
    struct model_entry later; /* options of models that clients add */
    struct served_spec *spec; /* owned [entry.n] */
    struct session host;      /* opener of the backend whose pool all models share, owned */
    struct api common;
    const char *pooling; /* borrowed */
    int n_queue;
    int64_t bytes_max; /* memory of all plans */
    bool alone;        /* true: there is one model, which has all the memory */
    VEC(struct preset_line) line;
};

/* ---- the folder ---- */

/* Return the length of a file's name without ".gguf" or "-00001-of-0000N.gguf"; 0 if it is not the
 * first file of a model. */
static size_t stem_of(const char *name)
{
    enum { SPLIT = sizeof "-00001-of-00002" - 1 };
    if (!text_ends_with(name, ".gguf") || strncmp(name, "mmproj", 6) == 0) return 0;
    const size_t n = strlen(name) - 5;
    const char *split = n > SPLIT ? name + n - SPLIT : "";
    if (strncmp(split + 6, "-of-", *split ? 4 : 0) != 0 || *split != '-') return n;
    return strncmp(split, "-00001", 6) == 0 ? n - SPLIT : 0;
}

/* Return true if the entry has this name, with or without ":latest". */
static bool has_name(const struct model_entry *n, const char *name)
{
    return session_same_name(n->name, name) || (n->alias && session_same_name(n->alias, name));
}

/* Return the entry of a name; NULL if none. */
static struct model_entry *find_entry(struct serve_models *m, const char *name)
{
    for (size_t i = 0; i < m->entry.n; i++)
        if (has_name(&m->entry.v[i], name)) return &m->entry.v[i];
    return NULL;
}

/* Return false for a name that clients cannot write, or that contains control characters. */
static bool is_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) return false;
    return *name && strlen(name) < 256 && utf8_valid(name, strlen(name));
}

/* Add a model. The name has n bytes. old: another model may have had this name. */
static int push_entry(struct serve_models *m, const char *name, size_t n, const char *path,
                      bool old, struct err *e)
{
    struct model_entry new = {.name = strndup(name, n), .path = path ? strdup(path) : NULL};
    int rc = 0;
    if (!new.name || (path && !new.path))
        rc = err_memory(e, "models", n);
    else if (!is_name(new.name))
        rc = err_set(e, ERR_ARG,
                     "--models-dir, --models-preset: a name must not contain control "
                     "characters and must have at most 255 bytes");
    else if (!old && find_entry(m, new.name))
        rc = err_set(
            e, ERR_ARG,
            "--models-dir, --models-preset: %.200s and %.200s have the same name \"%.100s\"; "
            "rename or move one of them",
            find_entry(m, new.name)->path ? find_entry(m, new.name)->path : "a preset",
            new.path ? new.path : "a preset", new.name);
    else if (m->entry.n >= N_MODEL_MAX)
        rc = err_set(e, ERR_LIMIT, "the server has had more than %d models", N_MODEL_MAX);
    else if (!vec_push(&m->entry, new))
        rc = err_memory(e, "models", sizeof new);
    if (rc == 0) return 0;
    free(new.name);
    free(new.path);
    return rc;
}

/* Add a model whose name must be new. */
static int add_entry(struct serve_models *m, const char *name, size_t n, const char *path,
                     struct err *e)
{
    return push_entry(m, name, n, path, false, e);
}

/* A folder whose items are read, and the folders around it. */
struct around {
    const struct around *up; /* borrowed; NULL: the folder of --models-dir */
    dev_t device;
    ino_t inode;
};

static int scan(struct serve_models *m, const char *path, const char *prefix,
                const struct around *up, struct err *e);

/* Set *name and *snapshot [n] to the name and the files of a repository in a cache of Hugging Face.
 * The files are in models--ORG--REPO/snapshots/COMMIT, with the commit of refs/main. Return false
 * for another folder. */
static bool hub_repo(char *name, char *snapshot, size_t n, const char *path, const char *item)
{
    static const char begin[] = "models--";
    struct buf commit = {0};
    char refs[4096];
    size_t n_name = 0;
    if (strncmp(item, begin, sizeof begin - 1) != 0 ||
        !path_join(refs, sizeof refs, path, "refs/main") ||
        file_read(&commit, refs, 256, NULL) != 0)
        return buf_deinit(&commit), false;
    for (const char *c = item + sizeof begin - 1; *c && n_name + 1 < n; c++) {
        const bool slash = c[0] == '-' && c[1] == '-';
        name[n_name++] = slash ? '/' : *c;
        c += slash;
    }
    name[n_name] = 0;
    const char *text = commit.data ? commit.data : "";
    const size_t n_hash = strspn(text, "0123456789abcdef");
    const bool ok = n_hash > 0 &&
                    (size_t)snprintf(snapshot, n, "%s/snapshots/%.*s", path, (int)n_hash, text) < n;
    buf_deinit(&commit);
    return ok && dir_exists(snapshot);
}

/* Add the file or folder `item` of the folder `path`, whose name in lists is `prefix`. */
static int scan_item(struct serve_models *m, const char *path, const char *prefix, const char *item,
                     const struct around *up, struct err *e)
{
    char below[4096], name[4096], config[4096], own[4096], files[4096];
    const size_t n = stem_of(item);
    if (!path_join(below, sizeof below, path, item) ||
        (*prefix ? !path_join(name, sizeof name, prefix, item)
                 : snprintf(name, sizeof name, "%s", item) >= (int)sizeof name) ||
        !path_join(config, sizeof config, below, "config.json"))
        return 0;
    if (n > 0 && file_exists(below))
        return add_entry(m, name, strlen(name) - strlen(item) + n, below, e);
    if (!dir_exists(below)) return 0;
    if (hub_repo(own, files, sizeof own, below, item)) {
        if ((*prefix ? !path_join(name, sizeof name, prefix, own)
                     : snprintf(name, sizeof name, "%s", own) >= (int)sizeof name) ||
            !path_join(config, sizeof config, files, "config.json") ||
            !path_join(below, sizeof below, files, ""))
            return 0;
    }
    if (file_exists(config)) return add_entry(m, name, strlen(name), below, e);
    return scan(m, below, name, up, e);
}

/* Add the models below a folder, unless it is one of the folders around it, to which a link leads
 * back. */
static int scan(struct serve_models *m, const char *path, const char *prefix,
                const struct around *up, struct err *e)
{
    struct buf list = {0};
    struct stat st;
    int depth = 0;
    if (stat(path, &st) != 0)
        return err_set(e, ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    const struct around own = {.up = up, .device = st.st_dev, .inode = st.st_ino};
    for (; up; up = up->up)
        if (++depth > DEPTH_MAX || (up->device == own.device && up->inode == own.inode)) return 0;
    int rc = dir_list(&list, path, e);
    char *rest = list.data;
    for (char *item; rc == 0 && rest && (item = strsep(&rest, "\n"));)
        if (*item) rc = scan_item(m, path, prefix, item, &own, e);
    buf_deinit(&list);
    return rc;
}

/* ---- the hub ---- */

/* Set the facts of a model of the hub's stores. */
static void set_stored(struct model_entry *n, int64_t n_byte, int64_t modified_us)
{
    n->stored = true;
    n->n_byte = n_byte;
    n->modified_us = modified_us;
}

/* Give a model of Hugging Face its name without "hf:" too, unless another model has that name:
 * ORG/REPO may also be a name of Ollama. */
static void set_alias(struct serve_models *m, struct model_entry *n)
{
    const char *alias = strncmp(n->name, "hf:", 3) == 0 ? n->name + 3 : NULL;
    for (size_t i = 0; alias && i < m->entry.n; i++)
        if (session_same_name(m->entry.v[i].name, alias)) alias = NULL;
    n->alias = alias;
}

/* Add the models of the hub's stores, unless a model of the folder has their name. */
static int add_stored(struct serve_models *m, struct err *e)
{
    char name[HUB_NAME_BYTES];
    struct hub_models all = {0};
    int rc = hub_list(&all, e);
    for (size_t i = 0; rc == 0 && i < all.n; i++) {
        const struct hub_model *h = &all.v[i];
        hub_served_name(name, &h->name);
        if (find_entry(m, name)) continue;
        rc = add_entry(m, name, strlen(name), h->path, e);
        if (rc == 0) set_stored(&m->entry.v[m->entry.n - 1], (int64_t)h->n_byte, h->modified_us);
    }
    hub_models_deinit(&all);
    for (size_t i = 0; rc == 0 && i < m->entry.n; i++)
        if (m->entry.v[i].stored) set_alias(m, &m->entry.v[i]);
    return rc;
}

/* ---- the preset ---- */

/* A line of the preset file. Texts are owned, and values stay until the program ends, because
 * options borrow them. */
struct preset_line {
    char *section, *key, *value;
};

/* targets of the keys that are not options of a session */
static const char *key_model;
static bool key_pinned, key_loads;
static const struct option keys[] = {
    TEXT_OPTION("model", "PATH", &key_model, "file, folder or name of a hub"),
    FLAG_OPTION("pinned", &key_pinned, "never unload the model for other models"),
    FLAG_OPTION("load-on-startup", &key_loads, "load the model at the start"),
    OPTIONS_OF(chat_options),
    OPTIONS_OF(chat_parser_options),
    OPTIONS_OF(model_options),
    OPTIONS_OF(sampling_options),
    OPTIONS_END,
};

/* Keep a line (ini_fn). A section without a line is also a model. */
static int keep_line(void *models, const char *section, const char *key, const char *value,
                     struct err *e)
{
    struct serve_models *m = models;
    if (!*section) {
        if (strcmp(key, "version") == 0 && strcmp(value, "1") == 0) return 0;
        return err_set(e, ERR_ARG, "expected a section, or version = 1");
    }
    if (key && options_judge(keys, key, value, e) != 0) return ERR_ARG;
    if (!key && strcmp(section, "*") != 0 && !find_entry(m, section))
        return add_entry(m, section, strlen(section), NULL, e);
    if (!key) return 0;
    const struct preset_line l = {strdup(section), strdup(key), strdup(value)};
    if (l.section && l.key && l.value && vec_push(&m->line, l)) return 0;
    free(l.section), free(l.key), free(l.value);
    return err_memory(e, "a preset", strlen(value));
}

/* Read the lines of the preset file. They are applied later, when all names are known. */
static int read_preset(struct serve_models *m, struct err *e)
{
    struct buf text = {0};
    int rc = file_read(&text, preset, PRESET_BYTES_MAX, e);
    if (rc == 0) rc = ini_read(text.data ? text.data : "", text.n, preset, keep_line, m, e);
    buf_deinit(&text);
    return rc;
}

/* Apply the lines of the entry's sections to the flags. */
static int apply(struct serve_models *m, const struct model_entry *n, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->line.n; i++)
        if (has_name(n, m->line.v[i].section))
            rc = options_set(keys, m->line.v[i].key, m->line.v[i].value, e);
    return rc ? err_prefix(e, rc, "%s [%s]", preset, n->name) : 0;
}

/* Set the options of an entry: those of the command line, of the section [*], and of its own
 * section. The options of all models share variables, so entries are read one after the other. */
static int set_options(struct serve_models *m, struct model_entry *n, struct err *e)
{
    const struct session_options common = session_flags;
    struct sampling_flags *sampling = sampling_flags_copy();
    if (!sampling) return err_memory(e, "models", 0);
    key_model = NULL;
    key_pinned = key_loads = false;
    session_flags.memory_limit = session_defaults.memory_limit; /* that of all models */
    static const struct model_entry all = {.name = "*"};
    int rc = apply(m, &all, e);
    if (rc == 0) rc = apply(m, n, e);
    if (rc == 0 && session_flags.lora_modules.n > common.lora_modules.n)
        rc = err_set(e, ERR_UNSUPPORTED, "%s: lora-modules: not supported yet with several models",
                     preset);
    if (session_flags.lora_modules.v != common.lora_modules.v) {
        free(session_flags.lora_modules.v);
        session_flags.lora_modules = common.lora_modules;
    }
    n->o = session_flags;
    n->sampling = sampling_flags_copy();
    if (rc == 0 && !n->sampling) rc = err_memory(e, "models", 0);
    session_flags = common;
    sampling_flags_set(sampling);
    free(sampling);
    n->pinned = key_pinned;
    n->loads = key_loads;
    if (rc == 0 && key_model) rc = model_path(&key_model, e);
    if (rc != 0) return rc;
    if (key_model || (!n->path && n->o.shape)) {
        free(n->path);
        n->path = strdup(key_model ? key_model : n->o.shape);
        if (!n->path) return err_memory(e, "models", 0);
    }
    return n->path ? 0
                   : err_set(e, ERR_MISSING,
                             "%s [%s]: key \"model\" is missing, and --models-dir "
                             "has no such model",
                             preset, n->name);
}

/* ---- the list ---- */

/* Add the size of a file, and record the time of its last change. */
static void add_file(struct model_entry *n, const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0 || !S_ISREG(file.st_mode)) return;
    const int64_t us = (int64_t)file.st_mtim.tv_sec * 1000000 + file.st_mtim.tv_nsec / 1000;
    n->n_byte += (int64_t)file.st_size;
    if (us > n->modified_us) n->modified_us = us;
}

/* Set the size of a model's files. The errors are those of dir_list. */
static int describe(struct model_entry *n, struct err *e)
{
    struct buf list = {0};
    char path[4096];
    add_file(n, n->path);
    if (!dir_exists(n->path)) return 0;
    int rc = dir_list(&list, n->path, e);
    char *rest = rc == 0 ? list.data : NULL;
    for (char *item; rest && (item = strsep(&rest, "\n"));)
        if (text_ends_with(item, ".safetensors") && path_join(path, sizeof path, n->path, item))
            add_file(n, path);
    buf_deinit(&list);
    return rc;
}

/* Mark the models of --models-pinned. An unknown name is an error, because the flag would have no
 * effect. */
static int set_pinned(struct serve_models *m, struct err *e)
{
    for (size_t i = 0; i < pinned.n; i++) {
        struct model_entry *n = find_entry(m, pinned.v[i]);
        if (!n)
            return err_set(e, ERR_ARG, "--models-pinned: model \"%.100s\" not found", pinned.v[i]);
        n->pinned = true;
    }
    return 0;
}

/* Reject flags that apply to one model only. */
static int check_flags(struct err *e)
{
    const bool several = serve_models_given();
    const struct {
        const char *name;
        bool set;
    } flag[] = {{"lora", several && session_flags.lora},
                {"lora-modules", session_flags.lora_modules.n > 0},
                {"shape", several && session_flags.shape},
                {"trace-file", session_flags.trace_file}};
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (flag[i].set)
            return err_set(e, ERR_ARG, "--%s: must not come with %s", flag[i].name,
                           dir       ? "--models-dir"
                           : preset  ? "--models-preset"
                           : several ? "--models-hub"
                                     : "--enable-sleep-mode");
    return 0;
}

/* Add the only model. The model has its name on the hub, else its own, if no names are given. A
 * damaged file is detected before the server opens. */
static int add_only(struct serve_models *m, const struct serve_models_options *o, struct err *e)
{
    struct checkpoint *c = NULL;
    int rc = session_checkpoint(&c, o->model, &session_flags, true, e);
    if (rc == 0) rc = model_check_arch(c, e);
    const char *own = model_hub_name(o->model);
    const char *name = rc != 0 ? "" : o->n_name ? o->name[0] : own ? own : model_name(c);
    if (rc == 0) rc = add_entry(m, name, strlen(name), o->model, e);
    checkpoint_close(c);
    if (rc != 0) return rc;
    m->entry.v[0].names = o->n_name ? o->name : NULL;
    m->entry.v[0].n_name = o->n_name;
    return 0;
}

/* Prepare for models that clients add: their options, and the memory of their entries. */
static int set_later(struct serve_models *m, struct err *e)
{
    m->later.name = strdup("");
    m->later.path = strdup("");
    if (!m->later.name || !m->later.path || !vec_reserve(&m->entry, N_MODEL_MAX))
        return err_memory(e, "models", N_MODEL_MAX * sizeof *m->entry.v);
    return set_options(m, &m->later, e);
}

/* Read all sources of models. The preset is last, because its sections may change models of the
 * folder. */
static int read_list(struct serve_models *m, const struct serve_models_options *o, struct err *e)
{
    int rc = check_flags(e);
    if (rc == 0 && o->model) rc = add_only(m, o, e);
    if (rc == 0 && dir) rc = scan(m, dir, "", NULL, e);
    if (rc == 0 && stores) rc = add_stored(m, e);
    if (rc == 0 && preset) rc = read_preset(m, e);
    for (size_t i = 0; rc == 0 && i < m->entry.n; i++) {
        rc = set_options(m, &m->entry.v[i], e);
        if (rc == 0 && !m->entry.v[i].stored) rc = describe(&m->entry.v[i], e);
    }
    if (rc == 0) rc = set_pinned(m, e);
    if (rc == 0 && stores) rc = set_later(m, e);
    m->alone = m->entry.n == 1 && !stores;
    if (rc == 0 && m->entry.n == 0 && !stores)
        rc = err_set(e, ERR_MISSING, "%s: model not found: it has no .gguf and no config.json",
                     dir ? dir : preset);
    return rc;
}

/* ---- loading; the registry's thread ---- */

/* Return the memory of a plan: a share of the memory, or more if the weights need it. */
static int64_t plan_bytes(const struct serve_models *m, int64_t weights, int attempt)
{
    const int64_t n = m->alone ? 1 : n_loaded_max > 0 ? n_loaded_max : N_SHARE;
    int64_t least = weights + weights / 4 + REST_BYTES, plan = m->bytes_max / n;
    if (plan < least) plan = least;
    for (int i = 0; i < attempt && plan < m->bytes_max; i++) plan *= 2;
    /* a model whose weights fit may get all memory */
    return plan > m->bytes_max && weights < m->bytes_max ? m->bytes_max : plan;
}

/* Return the memory of a plan (served_loader.measure). ERR_LIMIT ends the attempts: the next plan
 * would not be larger. */
static int measure(void *models, int i, int attempt, int64_t *n_byte, struct err *e)
{
    struct serve_models *m = models;
    const struct model_entry *n = &m->entry.v[i];
    const int64_t fixed = session_bytes(n->o.memory_limit);
    struct session s = {0};
    int rc = session_checkpoint(&s.checkpoint, n->path, &n->o, true, e);
    if (rc == 0) rc = session_quantization(&s.quantization, &n->o, s.checkpoint, e);
    const int64_t weights = rc == 0 ? session_weight_bytes(&s) : 0;
    session_close(&s);
    if (rc != 0) return rc;
    *n_byte = fixed ? fixed : plan_bytes(m, weights, attempt);
    const bool larger = attempt == 0 || (!fixed && *n_byte > plan_bytes(m, weights, attempt - 1));
    return larger ? 0 : err_set(e, ERR_LIMIT, "the model needs more memory");
}

/* Apply the layers of a model of Ollama's store. Its files are those at the time of the load. */
static int apply_layers(struct model_entry *n, struct api *a, struct err *e)
{
    struct hub_name name;
    struct hub_model m = {0};
    int rc = hub_name_typed(&name, n->name, e);
    if (rc == 0) rc = hub_find(&m, &name, e);
    if (rc == 0) rc = ollama_defaults_read(&n->layers, &m, e);
    if (rc == 0) ollama_defaults_apply(&n->layers, a, &n->chat);
    hub_model_deinit(&m);
    return rc;
}

/* Open session, engine and chat of an entry. The caller closes them after an error (unload). */
static int open_entry(const struct serve_models *m, struct model_entry *n, struct api *a,
                      struct err *e)
{
    int rc = session_open_as(&n->session, n->path, &n->o, &session_many, e);
    if (rc == 0) rc = session_start(&n->session, &n->o, n->name, m->n_queue, e);
    if (rc == 0) rc = chat_open(&n->chat, &n->session, &n->o, e);
    sampling_flags_set(n->sampling); /* no other thread uses these flags at this time */
    if (rc == 0) rc = request_defaults(a, n->session.checkpoint, e);
    if (rc == 0) rc = session_pooling(&a->pooling, &n->session, m->pooling, e);
    return rc || !n->stored ? rc : apply_layers(n, a, e);
}

/* Close what open_entry has opened (served_loader.unload). */
static void unload(void *models, int i)
{
    struct serve_models *m = models;
    struct model_entry *n = &m->entry.v[i];
    chat_close(&n->chat);
    n->chat = (struct chat){0};
    ollama_defaults_deinit(&n->layers);
    session_close(&n->session);
}

/* Load a model into a plan of n_byte (served_loader.load). The plan is the model's memory limit
 * during the opening only. */
static int load(void *models, int i, int64_t n_byte, struct api *out, struct err *e)
{
    struct serve_models *m = models;
    struct model_entry *n = &m->entry.v[i];
    const struct session_options o = n->o;
    char limit[24];
    snprintf(limit, sizeof limit, "%lld", (long long)n_byte);
    n->o.memory_limit = limit;
    n->o.pool = m->host.backend->pool;
    *out = m->common;
    out->session = &n->session;
    out->chat = &n->chat;
    out->name = n->name;
    os_memory_scope(true);
    int rc = open_entry(m, n, out, e);
    os_memory_scope(false);
    n->o = o;
    if (rc != 0) unload(m, i);
    return rc;
}

/* ---- later models; thread of the hub's jobs ---- */

/* Return the registry's view of an entry, which borrows its texts. */
static struct served_spec spec_of(struct model_entry *n)
{
    n->name_list[0] = n->name;
    n->name_list[1] = n->alias;
    return (struct served_spec){.name = n->names ? n->names : n->name_list,
                                .n_name = n->names   ? n->n_name
                                          : n->alias ? 2
                                                     : 1,
                                .path = n->path,
                                .loads = n->loads,
                                .pinned = n->pinned,
                                .stored = n->stored,
                                .n_byte = n->n_byte,
                                .modified_us = n->modified_us};
}

/* Add a model of the hub's stores (served_loader.add). */
static int add(void *models, int i, const struct served_spec *spec, struct served_spec *out,
               struct err *e)
{
    struct serve_models *m = models;
    CHECK((size_t)i == m->entry.n, "model %d of %zu", i, m->entry.n);
    int rc = push_entry(m, spec->name[0], strlen(spec->name[0]), spec->path, true, e);
    if (rc != 0) return rc;
    struct model_entry *n = &m->entry.v[i];
    n->o = m->later.o;
    n->sampling = m->later.sampling;
    set_stored(n, spec->n_byte, spec->modified_us);
    set_alias(m, n);
    *out = spec_of(n);
    return 0;
}

/* ---- opening and closing ---- */

/* Set the memory of all plans: the limit without the memory of the process and of bodies. */
static int set_memory(struct serve_models *m, size_t body_bytes, struct err *e)
{
    const int64_t flag = session_bytes(session_flags.memory_limit), own = os_memory_own();
    const int64_t all = flag ? flag : (int64_t)os_memory_free();
    m->bytes_max = all - (own > 0 ? own : 0) - (int64_t)body_bytes;
    if (m->bytes_max > 0) return 0;
    return err_set(e, ERR_LIMIT,
                   "--memory-limit: this program and bodies of requests take more than %lld MiB",
                   (long long)(all >> 20));
}

int serve_models_open(struct serve_models **out, const struct serve_models_options *o,
                      struct err *e)
{
    struct serve_models *m = *out = calloc(1, sizeof *m);
    if (!m) return err_memory(e, "models", sizeof *m);
    m->common = *o->common;
    m->pooling = o->pooling;
    m->n_queue = o->n_queue;
    int rc = read_list(m, o, e);
    if (rc == 0) rc = session_open_backend(&m->host, &session_flags, e);
    if (rc == 0) rc = set_memory(m, o->body_bytes, e);
    if (rc == 0) pool_share(m->host.backend->pool);
    m->spec = rc == 0 ? calloc(m->entry.n + 1, sizeof *m->spec) : NULL;
    if (rc == 0 && !m->spec) rc = err_memory(e, "models", m->entry.n);
    for (size_t i = 0; rc == 0 && i < m->entry.n; i++) {
        m->spec[i] = spec_of(&m->entry.v[i]);
        m->spec[i].loads |= o->model && autoload;
    }
    if (rc == 0) return 0;
    serve_models_close(m);
    *out = NULL;
    return rc;
}

void serve_models_registry(struct models_options *out, struct serve_models *m)
{
    *out = (struct models_options){.spec = m->spec,
                                   .n = (int)m->entry.n,
                                   .n_max = stores ? N_MODEL_MAX : 0,
                                   .loader = {.measure = measure,
                                              .load = load,
                                              .unload = unload,
                                              .add = stores ? add : NULL,
                                              .ctx = m},
                                   .only_by_load = !autoload,
                                   .n_loaded_max = n_loaded_max < 0 ? N_SHARE : (int)n_loaded_max,
                                   .bytes_max = m->bytes_max,
                                   .idle_us = idle_s < 0 ? -1 : idle_s * 1000000,
                                   .n_waiting_max = m->n_queue};
}

void serve_models_close(struct serve_models *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->entry.n; i++) {
        free(m->entry.v[i].name);
        free(m->entry.v[i].path);
        if (m->entry.v[i].sampling != m->later.sampling) free(m->entry.v[i].sampling);
    }
    free(m->later.name);
    free(m->later.path);
    free(m->later.sampling);
    for (size_t i = 0; i < m->line.n; i++) {
        free(m->line.v[i].section);
        free(m->line.v[i].key);
        free(m->line.v[i].value);
    }
    free(m->entry.v);
    free(m->line.v);
    free(m->spec);
    session_close(&m->host);
    free(m);
}
