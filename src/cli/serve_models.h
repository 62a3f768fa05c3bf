/* serve_models.h - private to cli: the models of a quoth serve with several models. The main thread
 * opens and closes this object. */
#ifndef QUOTH_CLI_SERVE_MODELS_H
#define QUOTH_CLI_SERVE_MODELS_H

#include "api/api.h"
#include "option/option.h"

/* --models-dir, --models-preset, --models-max ... */
extern const struct option serve_models_options[];
/* Return true if the flags give models in place of MODEL. */
bool serve_models_given(void);
/* Return true if clients may change the stores of the hub (--models-hub). */
bool serve_models_hub(void);
/* Return true if models are loaded while the server runs: several models, or one model that may
 * sleep. */
bool serve_models_needed(void);
/* Return ERR_ARG if a flag needs several models, but there is only one model. */
int serve_models_check(struct err *e);

struct serve_models; /* opaque */
struct serve_models_options {
    /* the only model, borrowed, and its names [n_name], borrowed until the end; NULL: the names of
     * the flags. n_name 0: the model's own name */
    const char *model;
    const char *const *name;
    int n_name;
    const struct api *common; /* fields that all models share, borrowed for the call */
    const char *pooling;      /* value of --pooling, borrowed */
    int n_queue;              /* maximum number of waiting requests of a model; 0: the default */
    size_t body_bytes;        /* memory of bodies, which models do not get */
};
/* Read the list of models: the files below --models-dir, those of the hub, and the preset file. No
 * model is opened.
 * The caller owns *out, NULL after an error. ERR_ARG for an option or two models of one name,
 * ERR_IO or ERR_FORMAT for a file, ERR_MISSING if there is no model, ERR_LIMIT, ERR_MEMORY. */
int serve_models_open(struct serve_models **out, const struct serve_models_options *o,
                      struct err *e);
/* Set *out to the options of a registry with these models. The registry borrows m. */
void serve_models_registry(struct models_options *out, struct serve_models *m);
/* free m after all models were closed; NULL is allowed */
void serve_models_close(struct serve_models *m);

#endif
