/* hub.h - models by name: two stores on disk, and the servers that fill them.
 *
 *   "hf:org/repo:Q4_K_M" --hub_name_read--> struct hub_name --hub_find--> struct hub_model
 *                                                           --hub_pull-->   (its path is a MODEL)
 *
 * The stores are those of other programs, which use the same files: the cache of huggingface_hub
 * (HF_HUB_CACHE, HF_HOME) and the store of Ollama (OLLAMA_MODELS). hub_find, hub_list and
 * hub_remove use the disk only. hub_pull uses the network.
 *
 * (1) A blob with its final name has the hash of that name, because the blob gets the name after
 *     the comparison of the hash. A partial file has another name.
 * (2) A reference (refs/REVISION, a manifest) is written after all its blobs.
 * (3) The characters of a name cannot form a path outside of the store. Paths and hashes of a
 *     server are validated before they become paths of files.
 *
 * Any thread. Several processes may pull and remove at the same time (lock.c). */
#ifndef QUOTH_HUB_HUB_H
#define QUOTH_HUB_HUB_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- name.c: names of models ---- */

enum hub_kind { HUB_HF, HUB_OLLAMA };
enum { HUB_NAME_BYTES = 1024, HUB_PATH_BYTES = 4096, HUB_HASH_BYTES = 65 };

/* A validated name. Texts that the name omits have their defaults, except `quant`. */
struct hub_name {
    enum hub_kind kind;
    char repo[200];     /* HF: ORG/REPO, or REPO */
    char quant[200];    /* HF: number format or file of a GGUF; "": the default, or safetensors */
    char revision[256]; /* HF: branch, tag or commit; "main" by default */
    char host[256];     /* Ollama: HOST or HOST:PORT; "registry.ollama.ai" by default */
    char space[84];     /* Ollama: namespace; "library" by default */
    char model[84], tag[84]; /* Ollama: name, and "latest" by default */
};

/* Return true if the text begins with hf: or ollama:. An existing path has precedence over a name;
 * the caller checks this. */
bool hub_is_name(const char *text);
/* Validate "hf:ORG/REPO[:QUANT][@REVISION]" or "ollama:[[HOST/]NAMESPACE/]NAME[:TAG]". ERR_ARG with
 * the reason. */
int hub_name_read(struct hub_name *out, const char *text, struct err *e);
/* Validate a name as clients of Ollama write it: without "ollama:" unless it begins with hf: or
 * ollama:. ERR_ARG. */
int hub_name_typed(struct hub_name *out, const char *text, struct err *e);
/* Write the shortest text that hub_name_typed reads as n: without "ollama:". */
void hub_served_name(char out[static HUB_NAME_BYTES], const struct hub_name *n);
/* Write the name without its hub, format and revision: ORG/REPO, or Ollama's name with the tag. */
void hub_own_name(char out[static HUB_NAME_BYTES], const struct hub_name *n);
/* Write the shortest text of a name. */
void hub_name_text(char out[static HUB_NAME_BYTES], const struct hub_name *n);

/* ---- files.c: lists of files ---- */

/* A file of a model. */
struct hub_file {
    char *path; /* path below the snapshot, validated; or the media type of a layer; owned */
    char hash[HUB_HASH_BYTES]; /* SHA-256 (64 digits) or SHA-1 of git (40); "" if unknown */
    uint64_t n_byte;
    bool chosen; /* true if the model needs the file */
};
struct hub_files { /* array of n, owned; hub_files_deinit frees it */
    struct hub_file *v;
    size_t n, cap;
    size_t n_omitted; /* files of a folder whose names are not valid paths of a list */
};
void hub_files_deinit(struct hub_files *f); /* free the files; accepts a zeroed list */

/* ---- find.c: models on disk ---- */

/* A complete model on disk. Initialize with zeros, free with hub_model_deinit. */
struct hub_model {
    struct hub_name name;
    char path[HUB_PATH_BYTES];   /* MODEL: a GGUF file, or a folder of safetensors */
    char root[HUB_PATH_BYTES];   /* folder with the files: a snapshot, or Ollama's blobs */
    char commit[HUB_HASH_BYTES]; /* commit, or SHA-256 of Ollama's GGUF */
    uint64_t n_byte;             /* sum of the chosen files */
    int64_t modified_us;         /* time of the reference, since 1970 UTC */
    struct hub_files file;       /* all files of the snapshot or layers of the manifest */
};
void hub_model_deinit(struct hub_model *m); /* free the files of m; accepts a zeroed struct */

/* Find the model on disk. ERR_MISSING if the store does not have it, or only a part of it. ERR_ARG
 * for a number format that several files have, ERR_UNSUPPORTED for layers that change the weights,
 * ERR_FORMAT for a damaged manifest, ERR_IO, ERR_MEMORY. */
int hub_find(struct hub_model *out, const struct hub_name *n, struct err *e);
/* Like hub_find. The sentence of ERR_MISSING has the command that downloads the model. */
int hub_find_advised(struct hub_model *out, const struct hub_name *n, struct err *e);

/* Write the kinds of Ollama's layers that quoth does not apply ("system, params") to out; "" if
 * none. The list omits the layer "template", because the GGUF has a template. */
void hub_unapplied(char out[static 100], const struct hub_model *m);

struct hub_models { /* array; hub_models_deinit frees it */
    struct hub_model *v;
    size_t n, cap;
};
/* Append all complete models of both stores, in order of their names. Damaged entries are omitted.
 * ERR_MEMORY. ERR_MISSING if no store has a path. */
int hub_list(struct hub_models *out, struct err *e);
void hub_models_deinit(struct hub_models *m); /* free the models; accepts a zeroed list */

/* Remove a model and the blobs that no other model uses. Wait for pulls in progress. *n_byte: freed
 * bytes. Errors: those of hub_find, and ERR_IO if a file cannot be removed. */
int hub_remove(const struct hub_name *n, uint64_t *n_byte, struct err *e);

/* ---- pull.c ---- */

/* Progress of a pull. Texts are borrowed for the call. */
struct hub_progress {
    const char *file, *hash;        /* current file (struct hub_file) */
    uint64_t file_done, file_bytes; /* bytes of this file so far, and of all */
    uint64_t done, n_byte;          /* bytes of all files so far, and of all */
};

/* Callbacks run on the thread of hub_pull. */
struct hub_pull_options {
    int n_connection; /* maximum connections for a file, [1, 64]; 0: 8 */
    /* callback for the progress, several times a second and after each file; NULL if none */
    void (*progress)(void *ctx, const struct hub_progress *p);
    void (*note)(void *ctx, const char *text); /* callback for waits; NULL if none */
    void *ctx;                                 /* argument of the callbacks, borrowed */
};
/* Download the missing files of a model, and find it. The download continues with the partial file
 * of an earlier call. Errors: those of hub_find; ERR_IO for the network or disk, ERR_FORMAT for an
 * answer or a file with a wrong hash. ERR_MISSING for an unknown name, ERR_UNSUPPORTED without
 * libcurl, ERR_BUSY if the work of the thread is cancelled (base/cancel.h). SIGXFSZ is ignored
 * meanwhile, so only one thread of a process at a time may call this function. */
int hub_pull(struct hub_model *out, const struct hub_name *n, const struct hub_pull_options *o,
             struct err *e);
/* Return true if the environment forbids the network (HF_HUB_OFFLINE). */
bool hub_offline(void);

/* ---- create.c: changes of Ollama's store ---- */

/* A layer of a new model: a text, or a blob of the store. */
struct hub_part {
    const char *kind; /* "model", "system", "params", "messages", "license"; "config" */
    const char *text; /* content [n_byte], borrowed; NULL: the blob of `digest` */
    size_t n_byte;
    const char *digest; /* "sha256:" and 64 digits */
};
/* Write the model `to` with the layers of `from` (NULL: none), and with new ones in place of those
 * of their kinds. A model needs a part "model", and a part "config" if from is NULL. ERR_ARG for a
 * model that is not Ollama's, ERR_MISSING for an unknown blob, ERR_IO, ERR_MEMORY, ERR_BUSY as of
 * hub_pull. */
int hub_create(const struct hub_name *to, const struct hub_model *from, const struct hub_part *part,
               size_t n_part, struct err *e);
/* Append the text of layer `index` of a kind to out; nothing if there is none. ERR_LIMIT above 1
 * MiB, ERR_IO, ERR_MEMORY. */
int hub_layer(struct buf *out, const struct hub_model *m, const char *kind, size_t index,
              struct err *e);
/* Write the path of a blob with that digest. ERR_ARG for another form, ERR_MISSING if the store
 * does not have it. */
int hub_blob(char out[static HUB_PATH_BYTES], const char *digest, struct err *e);
/* Add a blob with that digest to Ollama's store. ERR_ARG for another form of the digest, or other
 * data than its own, ERR_IO, ERR_MEMORY, ERR_BUSY as of hub_pull. */
int hub_blob_add(const char *digest, const void *data, size_t n_byte, struct err *e);

#endif
