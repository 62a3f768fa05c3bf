/* keys_rig_test.h - reads the keys of a config.json, or of a GGUF without tensors, as loading does,
 * and compares the result with an expected error. Tests call it in one thread. */
#ifndef QUOTH_MODEL_KEYS_RIG_TEST_H
#define QUOTH_MODEL_KEYS_RIG_TEST_H

#include "../../tests/unit.h"
#include "model_impl.h"

enum {
#define ARCH(id) AT_##id,
#include "arch/arch.def"
#undef ARCH
    N_ARCH
};
extern const struct arch *const all_arches[N_ARCH];

struct read {
    struct checkpoint *c; /* owned */
    struct model m;
    struct err e;
    int rc;
};
struct pair {
    const char *key; /* static: key after "ARCH."; NULL if none */
    double value;
};

/* Values of the caller for the next read_config or read_gguf, borrowed; NULL if none. */
extern const struct checkpoint_changes *read_changes;
/* Required key that read_gguf omits, borrowed; NULL if none. */
extern const char *read_left_out;

/* Return true if the architecture's own list has the key. */
bool declares(const struct config_key *list, const char *key);
/* Return true if the class has no rope, or requires an object of rope parameters per layer type. */
bool lacks_flat_rope(const struct arch *a);
/* Return true if a config.json of the architecture may have the scaling. */
bool has_type(const struct arch *a, enum rope_scaling scaling);
/* Return true if GGUF files of the architecture exist. Some encoders are of architecture bert
 * there. */
bool has_gguf(const struct arch *a);
/* Return the config.json field of an architecture for a declared key. It is static. */
const char *field_of(const struct arch *a, const char *key);
/* Read a config.json of architecture `a` with two layers and `fields`, in single quotes. */
void read_config(struct read *r, const struct arch *a, const char *fields);
/* Read a whole config.json, with single quotes in place of double ones. */
void read_json(struct read *r, const struct arch *a, const char *json);
/* Read a GGUF of architecture `a` with all required sizes and at most two additional keys. `text`
 * is the value of the first additional key; NULL: a number. */
void read_gguf_text(struct read *r, const struct arch *a, const struct pair more[2],
                    const char *text);
/* Read a GGUF of architecture `a` with all required sizes and at most two additional keys, of
 * numbers. */
void read_gguf(struct read *r, const struct arch *a, const struct pair more[2]);
/* Release the results of reading. */
void read_done(struct read *r);
/* Read the config and compare the result. word is a part of the expected error; NULL if the fields
 * are accepted. */
void expect_config(const struct arch *a, const char *fields, const char *word);
/* Call expect_config for each architecture. */
void expect_all(const char *fields, const char *word);
/* Call expect_config for each architecture that does not declare `key` itself. */
void expect_others(const char *key, const char *fields, const char *word);
/* Call expect_config for each architecture with a rope that may have any scaling. */
void expect_scaled(const char *fields, const char *word);
/* Read the key in a GGUF of each architecture that has no declaration of its own for it. */
void expect_gguf(const char *key, double value, const char *word);

#endif
