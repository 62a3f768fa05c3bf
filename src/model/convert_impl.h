/* convert_impl.h - a model whose checkpoint is converted: shared by to_gguf.c and to_hf.c. */
#ifndef QUOTH_CONVERT_IMPL_H
#define QUOTH_CONVERT_IMPL_H

#include "model_impl.h"

/* The source of a tensor of the view. */
struct source {
    int *tensor; /* owned; positions in the directory's checkpoint, one per expert [n_tensor] */
    int n_tensor;
    int n_head;         /* rows of these heads are reordered; 0: the order stays */
    bool back;          /* true: GGUF's order becomes that of a directory */
    float add;          /* added to each value */
    const float *value; /* values that are no tensor of the directory, in the model's arena */
};

struct model_gguf {
    const struct checkpoint *c; /* borrowed */
    struct model *m;            /* owned; the directory, bound */
    struct checkpoint *view;    /* owned */
    const volatile int *stop;   /* borrowed; NULL: none */
    VEC(struct source) source;  /* by position in the view */
    uint8_t *made;              /* owned [n_made]; bytes of the last tensor that `make` made */
    size_t n_made;
    float *row; /* owned; values of one row */
    size_t n_row;
    bool *used;       /* owned [n_tensor]: true for tensors that binding used */
    int n_left_out;   /* number of tensors without a use */
    const char *type; /* number format or mixture, borrowed; NULL: the files' formats */
};

/* Bind the checkpoint, note its used tensors, and create the view. The caller closes *out, also
 * after an error. Errors: those of model_open. */
int conversion_open(struct model_gguf **out, const struct checkpoint *c,
                    const struct model_gguf_options *o, struct err *e);
/* Add a tensor of the view. The conversion owns the lists of `source` afterwards, also after an
 * error. Errors: those of checkpoint_build_tensor. */
int conversion_add(struct model_gguf *g, const char *name, enum qtype type, int n_dim,
                   const int64_t *dim, const struct source *source, struct err *e);
/* Return the largest window of the layers; 0 if none has one. */
int conversion_window(const struct config *c);
/* Return the number of heads whose rows have another order in GGUF; 0 if the order stays. */
int conversion_heads(const struct model *m, const char *name);

#endif
