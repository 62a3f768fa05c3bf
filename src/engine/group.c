/* group.c - a request and its sequences, from submission to the last event.
 *
 *   group_submit -> engine.groups -> last sequence DONE: engine.ended -> group_reap_all: freed
 *
 * A request has n choices, which are emitted as they are generated. With best_of, more choices are
 * computed, and the n choices with the highest mean logprob are emitted at the end. The first
 * sequence computes the prompt once. All choices pick from the first logits of this sequence, each
 * with a separate random stream, and continue from its pages. The first choice that writes into the
 * open page copies it (hold.c).
 *
 * (1) engine.ended has the groups without live sequences, each once.
 * (2) Only group_reap_all frees groups. group_reap_all is never called inside a loop over a list of
 * sequences. Therefore a pointer to a sequence is valid until the next call of group_reap_all. */
#include "engine_impl.h"

#include "base/check.h"

#include <stdlib.h>

/* ---- open and close ---- */

static int fail_limit(const struct group *g, struct err *e)
{
    return err_field(e, ERR_LIMIT, "n",
                     ": must need less memory than a request may have, got %d sequences of up to "
                     "%d tokens",
                     g->n_seq, (int)g->request->prompt.n + g->request->max_tokens);
}

/* Allocate the memory of g in its arena. */
static bool open_memory(struct group *g, const struct engine *en)
{
    g->seq = arena_push0(&g->arena, (size_t)g->n_seq, sizeof *g->seq);
    if (!g->seq) return false;
    for (int i = 0; i < g->n_seq; i++)
        if (!seq_open(&g->seq[i], en, g)) return false;
    if (g->ranked) {
        g->answer = arena_push0(&g->arena, (size_t)g->n_answer, sizeof *g->answer);
        if (!g->answer) return false;
    }
    if (g->request->beam_width && !beam_open(g, en)) return false;
    return !g->request->pooling || pooling_open(g, en);
}

/* Open a sampler for each sequence. */
static int open_samplers(struct group *g, const struct engine *en, int64_t bytes_max, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < g->n_seq && rc == 0; i++) {
        rc = seq_open_sampler(&g->seq[i], en, e);
        if (rc == 0) g->n_byte += sampler_bytes(g->seq[i].sampler);
        if (rc == 0 && bytes_max && g->n_byte > bytes_max) rc = fail_limit(g, e);
    }
    return rc;
}

/* Fork the constraint for each sequence. Return ERR_LIMIT if the request exceeds bytes_max. */
static int open_constraints(struct group *g, int64_t bytes_max, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < g->n_seq && rc == 0; i++) {
        rc = constraint_open(&g->seq[i], e);
        if (rc == 0 && bytes_max && g->n_byte > bytes_max) rc = fail_limit(g, e);
    }
    return rc;
}

/* Open memory, lists, constraints and samplers of the sequences, so that a step allocates nothing.
 * g->n_byte is the sum. */
static int open_seqs(struct group *g, const struct engine *en, int64_t bytes_max, struct err *e)
{
    const struct request *r = g->request;
    int rc = 0;
    if (!open_memory(g, en))
        return g->arena.limited ? fail_limit(g, e)
                                : err_memory(e, "a request's sequences", g->arena.n_byte);
    seq_name_pages(en, &g->seq[0]);
    g->n_byte = (int64_t)g->arena.n_byte;
    bool samples = !g->beam && !r->pooling;
    if (samples && !r->params.lists) rc = sample_lists_open(&g->lists, &r->params, &en->vocab, e);
    g->n_byte += sample_lists_bytes(g->lists);
    if (rc == 0 && r->constraint) rc = open_constraints(g, bytes_max, e);
    if (rc == 0 && samples) rc = open_samplers(g, en, bytes_max, e);
    return rc;
}

/* Open the group of take_r. On failure the caller keeps the request. */
int group_open(struct group **out, const struct engine *en, struct request *take_r,
               int64_t bytes_max, struct err *e)
{
    struct group *g = calloc(1, sizeof *g);
    if (!g) return err_memory(e, "a request", sizeof *g);
    g->arena.bytes_max = (size_t)bytes_max;
    g->request = take_r;
    g->n_seq = take_r->best_of > take_r->n ? take_r->best_of : take_r->n;
    if (take_r->beam_width) g->n_seq = take_r->beam_width;
    g->ranked = g->n_seq > take_r->n || take_r->beam_width;
    g->n_answer = take_r->n;
    g->n_live = g->n_seq;
    int rc = open_seqs(g, en, bytes_max, e);
    if (rc == 0) {
        *out = g;
        return 0;
    }
    g->request = NULL;
    group_close(g);
    return rc;
}

void group_close(struct group *g)
{
    if (!g) return;
    for (int i = 0; i < g->n_seq && g->seq; i++) {
        sampler_close(g->seq[i].sampler);
        constraint_close(&g->seq[i]);
    }
    sample_lists_drop(g->lists);
    request_close(g->request);
    arena_deinit(&g->arena);
    free(g);
}

/* ---- the engine's groups ---- */

/* Link the group, and move its first sequence to WAITING. The other sequences join at the fork. */
void group_submit(struct engine *en, struct group *take_g)
{
    CHECK(!take_g->at && take_g->n_live == take_g->n_seq, "%d of %d live", take_g->n_live,
          take_g->n_seq);
    take_g->next = en->groups;
    if (take_g->next) take_g->next->at = &take_g->next;
    take_g->at = &en->groups;
    en->groups = take_g;
    for (int i = 0; i < take_g->n_seq; i++) {
        take_g->seq[i].entity.arrival = en->n_arrived++;
        take_g->seq[i].n_before = i;
    }
    if (take_g->next) en->contended_us = en->now_us;
    portion_submitted(en, take_g->request->holder);
    seq_wait(en, &take_g->seq[0]);
}

/* End all live sequences of the group for the same reason. */
void group_end(struct engine *en, struct group *g, enum finish f)
{
    g->ended = f;
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].state != SEQ_DONE) seq_end(en, &g->seq[i], f);
}

/* Cancel a choice; -1: the whole request. All choices end if the group is ranked, because they have
 * a common result. */
void group_cancel(struct engine *en, uint64_t request_id, int choice)
{
    struct group *g = en->groups;
    while (g && g->request->id != request_id) g = g->next;
    if (!g) return;
    if (g->n_live == 0) { /* the group's answers are being emitted */
        if (g->ranked && (choice < 0 || g->n_answer == 1)) g->ended = FINISH_ABORT;
        return;
    }
    if (choice < 0 || g->n_seq == 1 || g->ranked)
        group_end(en, g, FINISH_ABORT);
    else if (choice < g->n_seq && g->forked && g->seq[choice].state != SEQ_DONE)
        seq_end(en, &g->seq[choice], FINISH_ABORT);
}

/* End requests that are past their deadline or refused. */
void group_end_expired(struct engine *en)
{
    for (struct group *g = en->groups; g; g = g->next) {
        const struct request *r = g->request;
        if (g->n_live == 0) {
            continue;
        } else if (r->deadline_us > 0 && en->now_us - r->arrival_us >= r->deadline_us &&
                   !g->seq[0].padding) { /* the answer of a padding sequence was in time */
            group_end(en, g, FINISH_TIMEOUT);
        } else if (door_refused(g)) {
            group_end(en, g, FINISH_REFUSED);
        }
    }
}

/* ---- choices ---- */

/* Pick the first tokens of the other choices from the logits of sequence 0's last prompt position.
 * Sequence 0 picks its token in pick_row, after this function. */
void group_fork(struct engine *en, struct group *g, const float *logits, const uint32_t *mask)
{
    CHECK(!g->forked && !g->beam, "a group of %d sequences is forked a second time", g->n_seq);
    g->forked = true;
    for (int i = 1; i < g->n_seq; i++) {
        struct seq *s = &g->seq[i];
        seq_copy(s, &g->seq[0]);
        s->plan.n_more = g->seq[0].plan.n_more;
        emit_pick(en, s, logits, mask);
        emit_forced(en, s);
        s->n_fresh = s->n_token - g->seq[0].n_kv;
        if (s->finish != FINISH_NONE)
            seq_end(en, s, s->finish);
        else
            seq_follow(en, s, &g->seq[0]);
    }
}

/* End the other choices as sequence 0 ends, before the fork. */
void group_fail(struct engine *en, struct group *g)
{
    CHECK(!g->forked, "a group of %d sequences is already forked", g->n_seq);
    g->forked = true;
    for (int i = 1; i < g->n_seq; i++) {
        seq_copy(&g->seq[i], &g->seq[0]);
        g->seq[i].cause = g->seq[0].cause;
        g->seq[i].forbids = g->seq[0].forbids;
        seq_end(en, &g->seq[i], FINISH_ERROR);
    }
}

/* Return the mean logprob of the output of s, the stop token included. */
static float score_of(const struct seq *s)
{
    return s->n_output ? (float)(s->sum_logprob / s->n_output) : 0;
}

/* Set the answers of g, whose sequences are all done, to the best sequences. */
static void rank_answers(struct group *g)
{
    for (int i = 0; i < g->n_answer; i++) {
        const struct seq *best = NULL;
        for (int k = 0; k < g->n_seq; k++) {
            const struct seq *s = &g->seq[k];
            bool is_taken = false;
            for (int j = 0; j < i; j++) is_taken |= g->answer[j].token == s->token + s->n_prompt;
            if (!is_taken && (!best || score_of(s) > score_of(best))) best = s;
        }
        g->answer[i] = (struct ranked_answer){.token = best->token + best->n_prompt,
                                              .record = best->record,
                                              .n = best->n_token - best->n_prompt,
                                              .n_output = best->n_output,
                                              .finish = best->finish,
                                              .cause = best->cause,
                                              .forbids = best->forbids,
                                              .stop_id = best->stop_id,
                                              .score = score_of(best)};
    }
}

/* ---- the end ---- */

/* Emit the last events of the group for which the queue has room. Return false if events are left
 * for the next step. */
static bool emit_end(struct engine *en, struct group *g)
{
    if (g->ranked && (g->ended == FINISH_NONE || g->ended == FINISH_LENGTH)) {
        if (!g->answer[0].token) rank_answers(g);
        if (!emit_answers(en, g)) return false;
    }
    emit_done(en, g);
    return true;
}

/* End groups whose sequences are all done. Return true if the queues had room for some events of
 * the groups. */
bool group_reap_all(struct engine *en)
{
    bool emitted = false;
    for (struct group **at = &en->ended, *g; (g = *at);) {
        CHECK(g->n_live == 0 && g->n_reserved == 0, "%d live, %d events reserved", g->n_live,
              g->n_reserved);
        emitted |= g->ranked && emit_room(g) > 0;
        if (!emit_end(en, g)) {
            at = &g->next_ended;
            continue;
        }
        *at = g->next_ended;
        *g->at = g->next;
        if (g->next) g->next->at = g->at;
        door_leave(&en->door, g);
        group_close(g);
    }
    return emitted;
}
