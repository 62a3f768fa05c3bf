/* seq.c - one sequence's memory, and the lists that sequences are in. All of it is taken when a
 * request arrives: a decode step allocates nothing. */
#include "engine_impl.h"

#include <stdlib.h>
#include <string.h>

struct seq *seq_open(struct request *take_r)
{
    struct seq *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->n_prompt = s->n_token = (int)take_r->prompt.n;
    s->n_token_max = s->n_prompt + take_r->max_tokens;
    s->token = malloc((size_t)s->n_token_max * sizeof *s->token);
    if (!s->token) {
        free(s);
        return NULL;
    }
    memcpy(s->token, take_r->prompt.v, take_r->prompt.n * sizeof *s->token);
    s->request = take_r;
    s->stop_id = -1;
    return s;
}

void seq_close(struct seq *s, struct pages *p)
{
    /* last first: see pages.c on its LRU */
    while (s->n_page > 0) page_drop(p, s->page[--s->n_page]);
    request_close(s->request);
    free(s->page);
    free(s->token);
    free(s);
}

int seq_len_max(const struct seq *s)
{
    return s->n_token_max;
}

void list_push(struct seq_list *l, struct seq *s)
{
    if (!l->tail) l->tail = &l->head;
    s->next = NULL;
    *l->tail = s;
    l->tail = &s->next;
    l->n++;
}

/* `at` is the link that points to the sequence. */
void list_remove(struct seq_list *l, struct seq **at)
{
    struct seq *s = *at;
    *at = s->next;
    if (l->tail == &s->next) l->tail = at;
    s->next = NULL;
    l->n--;
}
