/* group.c - several choices of one request: n of them told as they come, or best_of computed and the n of
 * highest mean logprob told at the end.
 *
 * The prompt is computed once, by the first sequence. Its first logits serve all: each choice picks
 * from them with its own random stream, and goes on from the same pages, which the first one to write
 * into the open page copies (hold.c). */
#include "engine_impl.h"

#include <string.h>

/* The child knows the tokens that its parent knows. */
void seq_copy(struct seq *child, const struct seq *parent)
{
    child->n_token = parent->n_token;
    child->n_output = parent->n_output;
    child->n_name = parent->n_name;
    child->first_us = parent->first_us;
    child->last_us = parent->last_us;
    child->n_cached = parent->n_cached;
    memcpy(child->token, parent->token, (size_t)parent->n_token * sizeof *child->token);
    memcpy(child->name, parent->name, (size_t)parent->n_name * sizeof *child->name);
}

/* It goes on from its parent's pages, or waits for a place among the running ones. */
void seq_follow(struct engine *en, struct seq *child, const struct seq *parent)
{
    if (parent->state == SEQ_RUNNING && en->n_running < en->batch.limits.n_seq) {
        hold_fork(en, child, parent);
        seq_run(en, child);
    } else {
        seq_wait(en, child);
    }
}

void group_fork(struct engine *en, struct group *g, const float *logits)
{
    g->forked = true;
    for (int i = 1; i < g->n_seq; i++) {
        struct seq *s = &g->seq[i];
        seq_copy(s, &g->seq[0]);
        emit_pick(en, s, logits);
        if (s->finish != FINISH_NONE)
            seq_end(en, s, s->finish);
        else
            seq_follow(en, s, &g->seq[0]);
    }
}

/* Mean logprob of what it said, the stop token included. */
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
            bool told = false;
            for (int j = 0; j < i; j++) told |= g->answer[j].token == s->token + s->n_prompt;
            if (!told && (!best || score_of(s) > score_of(best))) best = s;
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
