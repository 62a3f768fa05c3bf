/* convert_impl.h - a model whose checkpoint is converted: shared by convert.c, to_gguf.c,
 * to_hf.c and same_config.c. Only the converting thread calls its functions. */
#ifndef QUOTH_CONVERT_IMPL_H
#define QUOTH_CONVERT_IMPL_H

#include "model_impl.h"

#include <signal.h>

/* Order of the rows of a matrix in a directory and in a GGUF (convert.c). TRANSPOSED: the directory
 * has the matrix transposed. TILED: heads in another order (struct tiles). */
enum row_order { ORDER_SAME, ORDER_LANES, ORDER_GROUPS, ORDER_TRANSPOSED, ORDER_TILED };

/* Function of values in a GGUF. DECAY: -exp(x) of a directory's x. */
enum value_map { MAP_SAME, MAP_DECAY };

/* Bytes of a source that become a tensor: its values, or the codes or the exponents of its blocks
 * of MXFP4 in the order of form/mxfp4.c. */
enum source_piece { PIECE_VALUES, PIECE_CODES, PIECE_EXPONENTS };

/* Heads of rows or columns in groups: a directory has the heads of the first group, then of the
 * second ... A GGUF has the first head of every group, then the second ... The first `keep` rows
 * are the same. */
struct tiles {
    int n_group, n_head;
    int64_t keep;
};

/* Rows before row `end`, or values of a vector, that are multiplied by a factor. */
struct row_factor {
    int64_t end;
    float by;
};
enum { ROW_FACTORS_MAX = 5 };

/* The source of a tensor of the view: consecutive parts with equal numbers of rows. */
struct source {
    int *tensor; /* positions of the parts in the checkpoint, owned [n_part] */
    int n_part;
    bool parted;   /* true: the last dimension is that of the parts, also if there is one part */
    int64_t first; /* first row of each part */
    /* numbers of values by which two parts alternate: run[0] values of the first part, run[1] of
     * the second, the next run[0] values of the first ...; 0: one part follows the other */
    int64_t run[2];
    enum source_piece piece;
    enum row_order order;
    bool first_only;    /* true: only the first part is transposed */
    int n_head;         /* number of heads (LANES) or of KV heads (GROUPS) */
    int64_t n_lane;     /* LANES: number of the first rows of a head that change places */
    int64_t d_head;     /* GROUPS: rows of a head */
    struct tiles tiles; /* TILED, or `columns` */
    bool columns;       /* true: the columns of each row are tiled */
    bool squeezed;      /* true: the directory has a dimension of size 1 before the last */
    bool spread;        /* true: a GGUF has such a dimension, which random weights lack */
    int n_dim;          /* number of dimensions in the directory; 0: that in the GGUF */
    int64_t row;        /* a GGUF has a vector as rows of this length; 0: as one row */
    /* true: a GGUF has the values as one vector. flat_row: length of the directory's rows; 0: one
     * row with two dimensions of size 1 */
    bool flat;
    int64_t flat_row;
    enum value_map map;
    /* factors of all rows in ascending order, of a source with one part in the same order; none:
     * the values are not multiplied */
    struct row_factor factor[ROW_FACTORS_MAX];
    int n_factor;
    bool back; /* true: GGUF's order and values become those of a directory */
    float add; /* number that is added to each value */
    /* values that are not from a tensor of the checkpoint, in the model's arena */
    const float *value;
    const struct published *form; /* published forms of the parts, borrowed [n_part]; NULL: plain */
};

/* Decoded columns of a matrix that is transposed, f32 [columns, rows of the matrix]. */
struct panel {
    const struct tensor_info *from; /* tensor of the matrix, borrowed; NULL: no values */
    int64_t at;                     /* number of the panel in the tensor */
    float *v;                       /* owned [n] */
    size_t n;
};

struct conversion {
    const struct checkpoint *c;        /* borrowed */
    struct model *m;                   /* model that is bound to the checkpoint, owned */
    struct checkpoint *view;           /* owned */
    const volatile sig_atomic_t *stop; /* borrowed; NULL if none */
    VEC(struct source) source;         /* sources by position in the view */
    uint8_t *made; /* bytes of the last tensor that `make` made, owned [n_made] */
    size_t n_made;
    float *row; /* two buffers for the values of one row, owned */
    size_t n_row;
    struct panel panel[2]; /* of the parts of a source */
    bool *used;            /* true for each tensor that binding used, owned [n_tensor] */
    int n_left_out;        /* number of tensors without a use */
    const char *type;      /* number format or mix of formats, borrowed; NULL: the files' formats */
    bool pure;             /* true: all matrices have the format */
};

struct hf_class;

/* Bind the checkpoint, record its used tensors, and create the view. The caller closes *out, also
 * after an error. Errors: those of model_open. */
int conversion_open(struct conversion **out, const struct checkpoint *c,
                    const struct conversion_options *o, struct err *e);
/* Set the source to tensor i of the checkpoint. ERR_MEMORY. */
int conversion_source(struct source *s, int i, struct err *e);
/* Add a tensor to the view. The conversion owns the lists of `source` afterwards, also after an
 * error. Errors: those of checkpoint_build_tensor. */
int conversion_add(struct conversion *g, const char *name, enum qtype type, int n_dim,
                   const int64_t *dim, const struct source *source, struct err *e);
/* Return the largest window of the layers; 0 if no layer has a window. */
int conversion_window(const struct config *c);
/* Set the order of the rows of a tensor in the architecture `a` of a directory. `name` is the
 * tensor's name in a GGUF. */
void conversion_order(struct source *s, const struct model *m, const struct arch *a,
                      const char *name);

/* Compare the configs a of `want` and b of the result (same_config.c). reorders: one of the files
 * has rows of q and k in another order. to_gguf: the result is a GGUF. ERR_UNSUPPORTED if a value
 * differs. */
int compare_configs(const struct checkpoint *want, const struct config *a, const struct config *b,
                    bool reorders, bool to_gguf, struct err *e);

/* ---- parts of one architecture ---- */

enum { NAME_BYTES = 200 }; /* size of a tensor's name */

/* The config.json that is written from a bound GGUF. */
struct config_writer {
    struct buf *b;            /* borrowed */
    const struct model *m;    /* bound GGUF, borrowed */
    const struct arch *class; /* architecture of the directory, static */
    const struct config *c;   /* config of m, borrowed */
};
/* Append a member of config.json. */
void hf_put_name(struct config_writer *w, const char *name);
/* Append an integer member. */
void hf_put_int(struct config_writer *w, const char *name, int64_t x);
/* Append a member with a real number. */
void hf_put_real(struct config_writer *w, const char *name, double x);
/* Append a member with true or false. */
void hf_put_bool(struct config_writer *w, const char *name, bool x);
/* Append a member with a text. */
void hf_put_text(struct config_writer *w, const char *name, const char *text);
/* Append a list with the name of each layer's kind. */
void hf_put_kinds(struct config_writer *w, const char *name, const char *recurrent,
                  const char *other);
/* Append a limit of values; null if the limit is 0. */
void hf_put_limit(struct config_writer *w, const char *name, double limit);
/* Append an integer of the GGUF; nothing if the GGUF lacks the key. */
void hf_put_own_int(struct config_writer *w, const char *name, const char *key);
/* Append the number of rows of a tensor; `other` if the file lacks it. */
void hf_put_rows(struct config_writer *w, const char *name, const char *tensor, int64_t other);
/* Return true if the GGUF has the tensor. */
bool hf_has(const struct config_writer *w, const char *tensor);

/* The keys of a GGUF that is written from a bound directory. */
struct key_writer {
    struct checkpoint *view; /* borrowed */
    const char *arch;        /* name of the architecture in the GGUF, static */
    const struct arch *gguf; /* architecture that reads the GGUF, static */
    const struct model *m;   /* model that is bound to the directory, borrowed */
    struct arena *arena;     /* arena of m, borrowed; it has the lists */
    struct err *e;           /* borrowed */
    int rc;                  /* first error */
};

/* Add an integer, a float, or a boolean. key: after "ARCH.". */
void gguf_put_int(struct key_writer *w, const char *key, int64_t x);
void gguf_put_real(struct key_writer *w, const char *key, double x);
void gguf_put_bool(struct key_writer *w, const char *key, bool x);
/* Add a list with a boolean per layer. key: after "ARCH.". */
void gguf_put_flags(struct key_writer *w, const char *key, bool (*of)(const struct layer_config *));
/* Add a copy of a list of n floats to the GGUF. key: the whole name of the key. */
void gguf_put_floats(struct key_writer *w, const char *key, const float *v, size_t n);

/* A member of config.json, by the key that the class reads. Texts are static. */
struct hf_field {
    const char *key;
    void (*put)(struct config_writer *w, const char *name);
};

/* Parts of the conversion that only one architecture has, in addition to the tables and the common
 * parts. Any member may be NULL. Lists end with NULL or a zeroed row. All pointers are static. */
struct arch_convert {
    const struct hf_field *field; /* members of config.json; they precede the common members */
    const char *const *f32;       /* ends of the names of tensors that are F32 in a GGUF */
    /* pairs of different ends of tensor names: in tensors.def (raw), in a GGUF (name) */
    const struct name_pair *name;
    /* end of the name of a tensor in a GGUF, and the ends of the vectors that are its rows */
    const char *const *rows;
    const char *key_tensors; /* text in the names of all tensors that are keys in a GGUF */
    /* function that returns the architecture's name in a GGUF of a bound directory, static; NULL:
     * the name in tensors.def */
    const char *(*gguf_name)(const struct model *m);
    /* function that changes the name that a tensor of a bound directory gets in a GGUF */
    void (*rename)(char name[NAME_BYTES], const struct model *m);
    /* function that changes the order and the function of a tensor's values; name: its name in a
     * GGUF; m: the bound model. `back` is final */
    void (*place)(struct source *s, const struct model *m, const char *name);
    /* function that sets the values of a directory's config that a GGUF has in its tensors to those
     * of the GGUF. own: c->own */
    void (*fold)(struct config *c, void *own);
    /* function that adds keys to a GGUF; w keeps the first error */
    void (*put_keys)(struct key_writer *w);
    /* function that adds tensors to a GGUF. Errors: those of put_tensors */
    int (*put_gguf_tensors)(struct conversion *g, struct err *e);
    /* function that adds tensors to a directory. ERR_MEMORY, and errors of conversion_add. */
    int (*put_tensors)(struct conversion *g, const struct hf_class *class, struct err *e);
};
/* Add an F32 tensor of one value, with n_dim dimensions. ERR_MEMORY, and the errors of
 * conversion_add. */
int conversion_add_value(struct conversion *g, const char *name, int n_dim, float x, struct err *e);
/* Write the GGUF name for the name of a tensor in tensors.def. back: write the name in tensors.def
 * for a GGUF name. */
void conversion_rename(char out[NAME_BYTES], const struct arch *a, const char *name, bool back);
/* Write the Hugging Face name of part `part` of a tensor; -1: of the whole tensor. Names of a model
 * without a head lack the prefix of the base. Return false if the tensor has no Hugging Face
 * name. */
bool conversion_raw_name(char *out, size_t n_out, const struct conversion *g,
                         const struct hf_class *class, const char *name, int part);

/* Add the keys of the model to the view (to_gguf_keys.c). Errors: those of checkpoint_add_u32. */
int gguf_put_keys(struct conversion *g, struct err *e);

/* Append the config.json of a bound GGUF (to_hf_config.c). `class` is the architecture of the
 * directory. name and model_type are those of the class in transformers. `type` is the number
 * format of the matrices. ERR_UNSUPPORTED for a feature that the class lacks, ERR_MEMORY. */
struct hf_class {
    const char *arch, *name, *model_type; /* static */
    float norm_add;
    bool keeps_codes; /* true: the directory has the codes of the experts' matrices */
};
int hf_put_config(struct buf *b, const struct model *m, const struct hf_class *class,
                  enum qtype type, struct err *e);
/* Return the type of a tensor in the directory. A float matrix keeps its type. A vector has the
 * type of the matrices if this type can represent its values exactly. */
enum qtype hf_type_of(const struct conversion *g, const struct tensor_info *t,
                      const struct source *s);

/* Two tensors of a GGUF that are one tensor of a directory (to_hf_pair.c). The tensors are borrowed
 * from the checkpoint. */
struct hf_pair {
    const struct tensor_info *t[2];
    bool of_heads;         /* true: the expansion of keys and values of latent attention */
    char name[NAME_BYTES]; /* name of the whole in tensors.def */
    char raw[NAME_BYTES];  /* Hugging Face name of the whole */
};
/* Set p to the pair with the tensor t. Return false if t is not one of a pair. */
bool hf_pair_of(struct hf_pair *p, const struct conversion *g, const struct hf_class *class,
                const struct tensor_info *t);
/* Add a pair as one tensor, or as its codes and exponents. ERR_MEMORY, and errors of
 * conversion_add. */
int hf_put_pair(struct conversion *g, const struct hf_class *class, const struct hf_pair *p,
                struct err *e);
/* Return true if the directory gets the codes of the experts' matrices: the class has tensors for
 * them, all these matrices are MXFP4, and the caller gave no type. */
bool hf_keeps_codes(const struct conversion *g, const struct hf_class *class);
/* Add the codes and the exponents of MXFP4 matrices: of t[0], or of t[0] and t[1] as one tensor.
 * name: in tensors.def. Errors: those of hf_put_pair. */
int hf_put_codes(struct conversion *g, const struct hf_class *class, const char *name,
                 const struct tensor_info *const t[2], struct err *e);

#endif
