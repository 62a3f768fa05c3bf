/* hub_impl.h - parts of the hub that only this folder uses. Any thread, unless a comment names
 * one. */
#ifndef QUOTH_HUB_HUB_IMPL_H
#define QUOTH_HUB_HUB_IMPL_H

#include "hub.h"

#include "base/buf.h"
#include "base/json.h"
#include "fetch/fetch.h"

#define OLLAMA_HOST     "registry.ollama.ai"
#define ACCEPT_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"

/* ---- place.c: paths of the stores ---- */

/* Write the path of the cache of huggingface_hub to out, from HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME
 * or HOME. ERR_MISSING if none is set, ERR_ARG if the path is too long. */
int hf_cache(char out[static HUB_PATH_BYTES], struct err *e);
/* Write the path of Ollama's store, from OLLAMA_MODELS or HOME. Errors: those of hf_cache. */
int ollama_store(char out[static HUB_PATH_BYTES], struct err *e);
/* Write the folder of a repository: CACHE/models--ORG--REPO. Errors: those of hf_cache. */
int hf_folder(char out[static HUB_PATH_BYTES], const char *cache, const struct hub_name *n,
              struct err *e);
/* Write the path of a manifest: STORE/manifests/HOST/NAMESPACE/NAME/TAG. ERR_ARG. */
int manifest_path(char out[static HUB_PATH_BYTES], const char *store, const struct hub_name *n,
                  struct err *e);
/* Write a formatted path to out. ERR_ARG if it is too long. */
int path_put(char out[static HUB_PATH_BYTES], struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Make the folder of a file, and its missing parents. ERR_IO, ERR_ARG if the path is too long. */
int parent_make(const char *path, struct err *e);
/* Write a file with its folder, unless it has this text already. Its time is therefore that of the
 * last change. ERR_IO, ERR_ARG, ERR_MEMORY. */
int text_write(const char *path, const char *text, size_t n, struct err *e);
/* Append the user's token of Hugging Face (HF_TOKEN, or the file that `hf auth login` writes);
 * append nothing if there is no token. ERR_ARG for a token with characters that no header may
 * have. */
int hf_token(struct buf *out, struct err *e);
/* Return the URL of the hub without slashes at its end. ERR_ARG if HF_ENDPOINT is not a URL. */
int hf_endpoint(char out[static HUB_PATH_BYTES], struct err *e);
/* Return true if the text has n digits of lowercase hexadecimal and nothing else. */
bool is_hex(const char *text, size_t n);
/* Return true for a hash of a blob: 40 or 64 digits. */
bool is_hash(const char *text);

/* ---- files.c ---- */

/* Return true for a relative path [n] of ordinary names, without a control character or
 * backslash. */
bool files_is_path(const char *path, size_t n);
/* Append a file. The path is n_path bytes. ERR_FORMAT for a path that could leave its folder, or
 * for a size above 2^50, ERR_LIMIT for more than 100,000 files, ERR_MEMORY. */
int files_add(struct hub_files *f, const char *path, size_t n_path, const char *hash,
              uint64_t n_byte, struct err *e);
/* Return the sum of the sizes of the chosen files, in bytes. */
uint64_t files_bytes(const struct hub_files *f);

/* ---- find.c, walk.c: files of the stores ---- */

enum { MANIFEST_MAX = 4 << 20 }; /* maximum bytes of a manifest */
/* Receive a file or link: its path, and its path below the folder. Return 0, or an error, which
 * ends the walk. */
typedef int walk_fn(void *ctx, const char *path, const char *name, struct err *e);
/* Call fn for all files and links below a folder, in order of their names. Links to folders are not
 * followed. A missing folder has no files. Errors: those of fn; ERR_IO, ERR_MEMORY, ERR_ARG. */
int walk(const char *folder, walk_fn *fn, void *ctx, struct err *e);
/* Remove the empty folders from that of `path` up to `top`, which stays. */
void remove_empty(const char *path, const char *top);
/* Append the files of a snapshot with their hashes. Errors: those of walk. */
int snapshot_files(struct hub_files *f, const char *folder, struct err *e);
/* Write the hash in the target of a snapshot's link to out; "" for another target. */
void read_hash(char out[static HUB_HASH_BYTES], const char *link);

/* ---- choose.c: the files of a model in a repository ---- */

/* Set `chosen` of the files that make the model. *main_file: index of the file to open; -1: the
 * folder of safetensors. ERR_MISSING if the list does not have all files of a model, ERR_ARG if
 * several models match. The sentence lists the available formats. */
int files_choose(struct hub_files *f, const char *quant, int *main_file, struct err *e);
/* Write the number format of a GGUF's name to out: "Q4_K_M" for "x-Q4_K_M-00001-of-00002.gguf".
 * Write the name without ".gguf" and without the number of a split if it has no format. Return
 * false if the path is not the first file of a GGUF model. */
bool gguf_label(char out[static 200], const char *path);

/* ---- tree.c, manifest.c: answers of the servers ---- */

/* limits of the JSON that a hub returns */
extern const struct json_limits answer_limits;
/* Append the files of a list of a repository (api/models/REPO/tree). ERR_FORMAT, ERR_LIMIT,
 * ERR_MEMORY. */
int tree_read(struct hub_files *f, const char *text, size_t n, struct err *e);
/* Write the URL of the relation "next" of a Link header to out[n_out]. Return false if there is
 * none. */
bool link_next(char *out, size_t n_out, const char *header);
/* Append the layers of a manifest, with the config as the last layer. Mark the layer of the model
 * as chosen. *model: index of this layer. ERR_FORMAT, ERR_UNSUPPORTED for layers of weights that
 * quoth does not read, ERR_MEMORY. */
int manifest_read(struct hub_files *f, int *model, const char *text, size_t n, struct err *e);
/* Return the kind of a layer, the end of its media type; NULL for other media types. */
const char *layer_kind(const char *type);
#define LAYER_TYPE "application/vnd.ollama.image." /* beginning of the media types of layers */

/* ---- digest.c ---- */

/* A hash in progress. */
struct digest {
    void *context; /* OpenSSL's context, owned */
};
/* Begin the hash that has the form of `hash`: SHA-256 for 64 digits, else git's SHA-1 of a file of
 * n_byte bytes. ERR_MEMORY. */
int digest_open(struct digest *d, const char *hash, uint64_t n_byte, struct err *e);
bool digest_add(struct digest *d, const void *data,
                size_t n); /* return false if memory is exhausted */
/* Write the hash as digits. Return false if memory is exhausted. */
bool digest_end(struct digest *d, char out[static HUB_HASH_BYTES]);
void digest_close(struct digest *d); /* accepts a zeroed struct */

/* ---- lock.c ---- */

/* Acquire a lock of a file, which is created if needed. The kernel releases it at the end of the
 * process. *fd: the lock, which lock_close releases. ERR_IO, ERR_BUSY if the thread's work is
 * cancelled (base/cancel.h). Blocks. */
int lock_open(int *fd, const char *path, bool shared, const char *what,
              const struct hub_pull_options *o, struct err *e);
void lock_close(int fd); /* release the lock; fd -1: none */

/* ---- remote.c: requests to one hub ---- */

/* Connections to a hub, and to the servers that it redirects to. One thread at a time. */
struct remote {
    struct fetch *fetch;              /* owned */
    char origin[HUB_PATH_BYTES];      /* URL of the hub: the only receiver of the token */
    struct buf token;                 /* header with the token; empty if none; owned */
    char name[HUB_NAME_BYTES];        /* name of the model, for errors */
    const struct hub_pull_options *o; /* borrowed */
};
/* Open a client. Texts are copied. Errors: those of fetch_open. */
int remote_open(struct remote *c, const char *origin, const struct hub_name *n,
                const struct hub_pull_options *o, struct err *e);
void remote_close(struct remote *c); /* accepts a zeroed struct */
/* Return true if the URL is a URL of the hub, which may receive the token. */
bool remote_owns(const struct remote *c, const char *url);
/* Send a GET request, follow redirects, and retry temporary failures. Append the body to `body`.
 *   accept  value of Accept, NULL if none
 *   next    URL of the following part of a list, "" if none; NULL: not needed
 * ERR_MISSING for 404, ERR_ARG for 401 and 403, ERR_IO, ERR_FORMAT, ERR_LIMIT, ERR_MEMORY, ERR_BUSY
 * if the thread's work is cancelled. After ERR_BUSY, c can only be closed. */
int remote_get(struct remote *c, const char *url, const char *accept, struct buf *body,
               char next[HUB_PATH_BYTES], struct err *e);

/* State of retries: the number of failures without progress, and the time of the next try. */
struct patience {
    int n_fail;
    int64_t until_us; /* time (time_us) before which no request begins */
    char why[300];    /* reason of the last failure */
};
/* Record a temporary failure. `progress`: true if bytes have arrived since the last failure. ERR_IO
 * if the request must not be retried again, or the server requires a wait that is too long. */
int patience_fail(struct patience *p, const struct remote *c, const struct fetch_result *r,
                  const char *why, bool progress, struct err *e);
/* Replace a URL by the one that its answer names; to NULL or "": none. *n_redirect: number of
 * redirects of the request so far. ERR_FORMAT for a redirect that is invalid, leads from https to
 * another scheme, or is one too many. ERR_ARG for a too long URL. */
int remote_redirect(const struct remote *c, char url[static HUB_PATH_BYTES], const char *to,
                    int *n_redirect, struct err *e);
/* Set an error for a status that a retry cannot change. Return 0 for a status of a temporary
 * failure. */
int remote_status_error(const struct remote *c, int status, const char *url, struct err *e);
/* Append the text with every byte except letters, digits and "-_.~/" as %XX; `slash` false: also
 * the slash. */
void url_put(struct buf *b, const char *text, bool slash);

/* ---- partial.c: a partial file with its journal ---- */

enum { CHUNK_BYTES = 4 << 20 };

/* A blob in progress: PATH.quoth.incomplete, and a journal of the XXH3 of its verified chunks. One
 * thread at a time, except partial_write and partial_read. */
struct partial {
    char path[HUB_PATH_BYTES], temp[HUB_PATH_BYTES], journal[HUB_PATH_BYTES];
    uint64_t n_byte;
    uint32_t n_chunk;
    uint64_t *hash; /* hash of each chunk [n_chunk]; 0: the journal does not have the chunk */
    int fd, journal_fd;
    int64_t journal_at; /* offset of the journal's next entry */
    uint64_t n_known;   /* bytes of the chunks that the journal has */
};
/* Open or create the files of the blob at `path`. ERR_IO, ERR_MEMORY, ERR_ARG. */
int partial_open(struct partial *p, const char *path, uint64_t n_byte, struct err *e);
/* Return the number of bytes of a chunk. */
size_t partial_chunk_bytes(const struct partial *p, uint32_t chunk);
/* Write n bytes at offset `at`. ERR_IO. Any thread. */
int partial_write(const struct partial *p, uint64_t at, const void *data, size_t n, struct err *e);
/* Read a chunk to `out`. ERR_IO. Any thread. */
int partial_read(const struct partial *p, uint32_t chunk, void *out, struct err *e);
/* Append a chunk's hash to the journal, and begin to write the chunk to the disk. A failure only
 * causes a repeated download of the chunk. */
void partial_note(struct partial *p, uint32_t chunk, uint64_t hash);
/* Flush the file to the disk and give it its final name. ERR_IO. */
int partial_keep(struct partial *p, struct err *e);
void partial_discard(struct partial *p); /* remove the partial file and its journal */
void partial_close(struct partial *p);   /* accepts a zeroed struct; the files stay */

/* ---- download.c ---- */

/* A blob to download. Texts are borrowed for the call. */
struct blob {
    const char *url, *hash;
    const char *path;       /* final path */
    const char *lock;       /* path of the lock file */
    const char *title;      /* name of the file for the progress and errors */
    uint64_t n_byte;        /* size of the file */
    uint64_t n_done, n_all; /* sizes of the earlier files, and of all files, for the progress */
};
/* Download a blob unless its path has a file of its size. ERR_IO, ERR_FORMAT if the hash differs,
 * ERR_MEMORY, and the errors of remote_get. After an error, the struct remote can only be closed.
 * Blocks. */
int download(struct remote *c, const struct blob *b, struct err *e);

/* ---- pull_hf.c, pull_ollama.c: the two kinds of hub_pull ---- */

/* Download a model of Hugging Face. Errors: those of hub_pull. */
int pull_hf(const struct hub_name *n, const struct hub_pull_options *o, struct err *e);
/* Download a model of Ollama. Errors: those of hub_pull. */
int pull_ollama(const struct hub_name *n, const struct hub_pull_options *o, struct err *e);

#endif
