/* order.c - the order of stages in a request, by llama.cpp's names of samplers.
 *
 *   "penalties" "dry" ... | "top_k" "temperature" "top_p" ... "adaptive_p"
 *
 * Samplers that are not named are off. A cut may be named several times. The penalties change the
 * logits of all tokens, so they precede the cuts. The temperature comes once, because its stage
 * sets the divisor of the logits. adaptive_p is always last. The order does not affect stages
 * without a name of llama.cpp (bias, permitted tokens, mirostat). */
#include "sample_impl.h"

static const struct {
    const char *name; /* static; NULL: not part of an order */
    const struct stage *stage;
} rows[] = {
#define STAGE(name, sampler) {sampler, &stage_##name},
#include "stages.def"
#undef STAGE
};

enum {
#define STAGE(name, sampler) INDEX_##name,
#include "stages.def"
#undef STAGE
};

bool order_places(int i)
{
    return rows[i].name != NULL;
}

static bool has_temperature(const struct sample_params *p)
{
    for (int i = 0; i < p->n_order; i++)
        if (p->order[i] == INDEX_temperature) return true;
    return false;
}

bool order_is_greedy(const struct sample_params *p)
{
    return p->temperature == 0 && !(p->dynatemp_range > 0) &&
           (p->n_order < 0 || has_temperature(p));
}

/* Return the index of a sampler's stage; -1 if the name is unknown. */
static int index_of(const struct text_span *text)
{
    for (int i = 0; i < N_STAGE; i++)
        if (rows[i].name && strlen(rows[i].name) == text->n &&
            memcmp(rows[i].name, text->text, text->n) == 0)
            return i;
    return -1;
}

/* Append a stage if its place is legal: edits of logits precede cuts, and the temperature occurs
 * once. */
static int add(struct sample_params *p, int index, int i, struct err *e)
{
    const bool edits = rows[index].stage->kind == STAGE_EDIT;
    for (int k = 0; edits && k < p->n_order; k++)
        if (rows[p->order[k]].stage->kind != STAGE_EDIT)
            return err_field(e, ERR_UNSUPPORTED, "samplers", "[%d]: must have %s before %s", i,
                             rows[index].name, rows[p->order[k]].name);
    if (index == INDEX_temperature && has_temperature(p))
        return err_field(e, ERR_UNSUPPORTED, "samplers", "[%d]: must have temperature once", i);
    p->order[p->n_order++] = (uint8_t)index;
    return 0;
}

int sample_params_order(struct sample_params *p, const struct text_span *text, int n, struct err *e)
{
    int rc = 0;
    bool adapts = false;
    if (n > SAMPLER_MAX)
        return err_field(e, ERR_LIMIT, "samplers", ": must have at most %d samplers, got %d",
                         SAMPLER_MAX, n);
    p->n_order = 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        const int index = index_of(&text[i]);
        if (index < 0)
            return err_field(
                e, ERR_ARG, "samplers",
                "[%d]: must be penalties, dry, temperature, top_n_sigma, top_k, typ_p, "
                "top_p, min_p, xtc or adaptive_p, got \"%.*s\"",
                i, text[i].n < 40 ? (int)text[i].n : 40, text[i].text);
        adapts |= index == INDEX_adaptive_p;
        if (index != INDEX_adaptive_p) rc = add(p, index, i, e);
    }
    return rc == 0 && adapts ? add(p, INDEX_adaptive_p, 0, e) : rc;
}

const char *sample_params_sampler(const struct sample_params *p, int i)
{
    if (p->n_order >= 0) return i < p->n_order ? rows[p->order[i]].name : NULL;
    for (int k = 0; k < N_STAGE; k++)
        if (order_places(k) && i-- == 0) return rows[k].name;
    return NULL;
}
