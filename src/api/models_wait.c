/* models_wait.c - requests that wait for a model (models_impl.h).
 *
 * The life of a wait, with the function on each edge. The owner frees a waiter only after
 * served_leave, so no list contains a freed waiter:
 *
 *   (none) --served_take--> in m->first --served_end_waits--> ended, with a reference or an error
 *                                |                                | served_taken: the api or the
 *                                |                                | error
 *                                '--------- served_leave ---------'--> (none)
 *
 * Holders share the places of waiting requests. The newest request of the largest holder loses its
 * place to a request of another holder. */
#include "models_impl.h"

#include "base/check.h"
#include "base/share.h"

void waiter_unlink(struct served_waiter *w)
{
    struct served *m = w->model;
    *(w->prev ? &w->prev->next : &m->first) = w->next;
    *(w->next ? &w->next->prev : &m->last) = w->prev;
    w->waits = false;
    m->n_waiting--;
    share_release(m->models->place, w->holder, 1);
}

/* The number orders waits of all models, so that refuse_newest
 * finds the newest wait of a holder. */
void waiter_link(struct served *m, struct served_waiter *w)
{
    w->model = m;
    w->waits = true;
    w->granted = false;
    w->rc = 0;
    w->prev = m->last;
    w->next = NULL;
    *(m->last ? &m->last->next : &m->first) = w;
    m->last = w;
    m->n_waiting++;
    w->number = ++m->models->last_wait;
}

void served_end_waits(struct served *m, int rc, const struct err *why)
{
    while (m->first) {
        struct served_waiter *w = m->first;
        waiter_unlink(w);
        w->rc = rc;
        if (rc != 0) w->why = *why;
        w->granted = rc == 0;
        m->n_ref += rc == 0;
        m->n_patient += rc == 0 && w->patient;
        w->wake(w->arg);
    }
}

bool served_is_urgent(const struct served *m)
{
    const struct served_waiter *w = m->first;
    while (w && w->patient) w = w->next;
    return w != NULL;
}

/* End the wait of the holder's newest request with ERR_BUSY. A victim has a waiting request. */
static void refuse_newest(struct models *m, uint64_t holder)
{
    struct served_waiter *newest = NULL;
    for (int i = 0; i < m->n; i++)
        for (struct served_waiter *w = m->v[i].first; w; w = w->next)
            if (w->holder == holder && (!newest || w->number > newest->number)) newest = w;
    CHECK(newest, "a holder without a waiting request");
    waiter_unlink(newest);
    newest->rc = err_set(&newest->why, ERR_BUSY, "the queue is full; try again later");
    newest->wake(newest->arg);
}

bool waiter_acquire_place(struct models *m, const struct served_waiter *w)
{
    for (;;) {
        uint64_t victim;
        const double weight = w->weight > 0 ? w->weight : 1;
        const enum share_answer a = share_acquire(m->place, w->holder, weight, 1, &victim);
        if (a != SHARE_EVICT) return a == SHARE_TAKEN;
        refuse_newest(m, victim);
    }
}
