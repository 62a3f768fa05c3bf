/* llamacpp_settings.c - the settings of an answer in the form of llama.cpp's server. They are all
 * sampling parameters under llama.cpp's names, and the fields of the body that change the answer.
 * Members of features that quoth does not have are constant. */
#include "llamacpp.h"

#include <string.h>

/* Append the sampling parameters that are numbers. */
static void put_numbers(struct json_out *o, const struct sample_params *p)
{
    for (int i = 0; i < N_SAMPLE_PARAM; i++) {
        const struct sample_param *row = &sample_param[i];
        const char *name = row->alias ? row->alias : row->name;
        if (row->kind == SAMPLE_OTHER) continue;
        const double x = sample_param_get(p, row);
        if (row->kind == SAMPLE_REAL)
            out_float(o, name, (float)x);
        else if (row->kind == SAMPLE_INT)
            out_int(o, name, (int64_t)x);
        else
            out_flag(o, name, x != 0);
    }
}

/* Append a list of texts [n]. */
static void put_texts(struct json_out *o, const char *key, const struct text_span *text, int n)
{
    out_list(o, key);
    for (int i = 0; i < n; i++) out_text(o, NULL, text[i].text, text[i].n);
    out_end(o);
}

/* Append the sampling parameters that are lists. A body without breakers gets the default breakers
 * written out, as in llama.cpp. */
static void put_lists(struct json_out *o, const struct sample_params *p)
{
    static const struct text_span breaker[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};
    const char *name;
    const bool own = p->n_dry_breaker >= 0;
    put_texts(o, "dry_sequence_breakers", own ? p->dry_breaker : breaker,
              own ? p->n_dry_breaker : (int)(sizeof breaker / sizeof *breaker));
    out_list(o, "logit_bias");
    for (int i = 0; i < p->n_bias; i++) {
        out_object(o, NULL);
        out_float(o, "bias", p->bias[i].bias);
        out_int(o, "token", p->bias[i].id);
        out_end(o);
    }
    out_end(o);
    out_list(o, "samplers");
    for (int i = 0; (name = sample_params_sampler(p, i)); i++) out_word(o, NULL, name);
    out_end(o);
}

/* Append the members of features that quoth does not have. */
static void put_constants(struct json_out *o)
{
    out_int(o, "n_keep", 0);
    out_int(o, "n_discard", 0);
    out_flag(o, "grammar_lazy", false);
    out_list(o, "grammar_triggers");
    out_end(o);
    out_list(o, "lora");
    out_end(o);
}

int64_t llamacpp_n_predict(const struct api *a, int max_tokens)
{
    return max_tokens == a->session->info->context_max ? -1 : max_tokens;
}

void llamacpp_put_settings(struct json_out *o, const struct llamacpp_settings *s)
{
    const struct sample_params *p = s->params;
    const struct api_call *c = s->call;
    const struct constraint_spec *grammar =
        c && c->spec.field && strcmp(c->spec.field, "grammar") == 0 ? &c->spec : NULL;
    /* llama.cpp's value of a random seed */
    out_int(o, "seed", p->seeded ? (int64_t)p->seed : (int64_t)UINT32_MAX);
    put_numbers(o, p);
    put_lists(o, p);
    put_texts(o, "stop", s->reply ? s->reply->stop : NULL, s->reply ? s->reply->n_stop : 0);
    out_int(o, "max_tokens", s->n_predict);
    out_int(o, "n_predict", s->n_predict);
    out_int(o, "n_probs", c && c->probs ? p->n_logprob : 0);
    out_flag(o, "post_sampling_probs", p->post_logprob);
    out_flag(o, "stream", c && c->stream);
    out_flag(o, "timings_per_token", c && c->timings);
    out_text(o, "grammar", grammar ? grammar->text : "", grammar ? grammar->n : 0);
    put_constants(o);
}
