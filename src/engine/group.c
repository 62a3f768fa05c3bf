/* group.c - several choices of one request: n of them emitted as they are generated, or best_of
 * computed and the n with the highest mean logprob emitted at the end.
 *
 * The prompt is computed once, by the first sequence. Its first logits serve all choices: each
 * picks from them with its own random stream and continues from the same pages. The first one to
 * write into the open page copies it (hold.c). */
#include "engine_impl.h"

#include <string.h>

/* Copy the parent's tokens and its state to the child. */
void seq_copy(struct seq *child, const struct seq *parent)
{
    child->n_token = parent->n_token;
    child->n_output = parent->n_output;
    child->n_name = parent->n_name;
    child->first_us = parent->first_us;
    child->last_us = parent->last_us;
    child->n_cached = parent->n_cached;
    constraint_follow(child, parent);
    memcpy(child->token, parent->token, (size_t)parent->n_token * sizeof *child->token);
    memcpy(child->name, parent->name, (size_t)parent->n_name * sizeof *child->name);
}

/* Run the child on its parent's pages, or let it wait if there is no place. */
void seq_follow(struct engine *en, struct seq *child, const struct seq *parent)
{
    bool beam = child->group->beam; /* they advance together */
    if (parent->state == SEQ_RUNNING && en->n_running < en->batch.limits.n_seq &&
        (beam || !portion_full(en, parent))) {
        hold_fork(en, child, parent);
        seq_run(en, child);
    } else {
        seq_wait(en, child);
    }
}

void group_fork(struct engine *en, struct group *g, const float *logits, const uint32_t *mask)
{
    g->forked = true;
    for (int i = 1; i < g->n_seq; i++) {
        struct seq *s = &g->seq[i];
        seq_copy(s, &g->seq[0]);
        s->n_more = g->seq[0].n_more;
        emit_pick(en, s, logits, mask);
        emit_forced(en, s);
        s->n_fresh = s->n_token - g->seq[0].n_kv;
        if (s->finish != FINISH_NONE)
            seq_end(en, s, s->finish);
        else
            seq_follow(en, s, &g->seq[0]);
    }
}

void group_fail(struct engine *en, struct group *g)
{
    g->forked = true;
    for (int i = 1; i < g->n_seq; i++) {
        seq_copy(&g->seq[i], &g->seq[0]);
        seq_end(en, &g->seq[i], FINISH_ERROR);
    }
}

/* Return the mean logprob of its output, the stop token included. */
static float score_of(const struct seq *s)
{
    return s->n_output ? (float)(s->sum_logprob / s->n_output) : 0;
}

void group_rank(struct engine *en, struct group *g)
{
    (void)en;
    for (int i = 0; i < g->n_answer; i++) {
        const struct seq *best = NULL;
        for (int k = 0; k < g->n_seq; k++) {
            const struct seq *s = &g->seq[k];
            bool is_taken = false;
            for (int j = 0; j < i; j++) is_taken |= g->answer[j].token == s->token + s->n_prompt;
            if (!is_taken && (!best || score_of(s) > score_of(best))) best = s;
        }
        g->answer[i] = (struct answer){.token = best->token + best->n_prompt,
                                       .record = best->record,
                                       .n = best->n_token - best->n_prompt,
                                       .n_output = best->n_output,
                                       .finish = best->finish,
                                       .stop_id = best->stop_id,
                                       .score = score_of(best)};
    }
}
