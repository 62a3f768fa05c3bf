/* expr_limit.c - limits of the work on expressions: bytes, states, time and steps; see expr.h.
 *
 * Time is processor time of the thread, so the rejection of a constraint does not depend on the
 * load of the machine. The clock is read once per STEPS steps. Work with fewer steps never reads
 * the clock. Work is counted in these steps, so a limit of work has the same result on every
 * machine.
 *
 * The results of tasks are cached. A piece of work costs less with a warm cache than with a cold
 * cache. exprs_spent_by_all bounds the cost of the piece with a cold cache, because the piece needs
 * only results of completed tasks. A derivative is cheaper if a part of it has a row; `saved` is
 * the difference. */
#include "expr.h"

#include "base/cancel.h"
#include "base/os.h"

/* steps between two readings of the clock: 10000 steps take about 170 us (CONSTRAINT_STEP_WORK),
 * and a reading of the thread's clock takes less than 1 us */
enum { STEPS = 10000 };

static int64_t thread_us(void)
{
    return time_thread_ns() / 1000;
}

/* The result may lack the last steps after a failure, because x->n_step is then 0. */
int64_t exprs_work(const struct exprs *x)
{
    return x->n_work + (x->n_step && x->n_step < STEPS ? STEPS - (int64_t)x->n_step : 0);
}

/* ---- accounts ---- */

/* Charge the steps since the last charge to the task in progress, or to the piece of work. */
static void charge(struct exprs *x)
{
    int64_t now = exprs_work(x), n = now - x->spent.at;
    x->spent.at = now;
    if (n > 0) *(x->spent.task ? &x->spent.task->n : &x->spent.call) += n;
}

void exprs_begin(struct exprs *x, struct expr_task *t)
{
    charge(x);
    *t = (struct expr_task){.up = x->spent.task};
    x->spent.task = t;
}

void exprs_end(struct exprs *x, struct expr_task *t, bool kept)
{
    charge(x);
    x->spent.task = t->up;
    if (kept) x->spent.kept += t->n;
}

void exprs_repeat(struct exprs *x)
{
    charge(x);
    x->spent.call = 0;
    x->n_work = exprs_work(x);
    x->n_step = x->failed ? 0 : STEPS;
    x->us_end = 0;
}

void exprs_resume(struct exprs *x)
{
    exprs_repeat(x);
    x->spent.kept_before = x->spent.kept;
}

void exprs_forget(struct exprs *x)
{
    x->spent.forgotten = x->spent.kept + x->spent.saved;
}

/* Return the steps of this piece of work outside of finished tasks. */
static int64_t spent_outside(struct exprs *x)
{
    charge(x);
    int64_t n = x->spent.call;
    for (const struct expr_task *t = x->spent.task; t; t = t->up) n += t->n;
    return n;
}

int64_t exprs_spent(struct exprs *x)
{
    return spent_outside(x) + x->spent.kept - x->spent.kept_before;
}

int64_t exprs_spent_by_all(struct exprs *x)
{
    return spent_outside(x) + x->spent.kept + x->spent.saved - x->spent.forgotten;
}

/* ---- limits ---- */

size_t exprs_bytes(const struct exprs *x)
{
    size_t each = sizeof *x->e + sizeof *x->memo + sizeof *x->memo_of + sizeof *x->seen;
    return x->cap * each + x->n_slot * sizeof *x->slot + x->list.cap * sizeof *x->list.v +
           x->set.cap * sizeof *x->set.v + x->work.cap * sizeof *x->work.v + x->arena.n_byte +
           x->n_byte_other;
}

bool exprs_check(struct exprs *x, size_t n)
{
    const int64_t work_max = x->limit.work_max;
    if (x->failed) return false;
    x->n_work = exprs_work(x) + (int64_t)n;
    x->n_step = STEPS;
    if (x->limit.bytes_max && exprs_bytes(x) > x->limit.bytes_max)
        expr_fail(x, EXPR_BYTES);
    else if (x->limit.grow && !x->limit.grow(x->limit.grow_arg, exprs_bytes(x)))
        expr_fail(x, EXPR_CROWDED);
    else if (cancelled())
        expr_fail(x, EXPR_CANCELLED);
    else if (work_max && exprs_spent(x) > work_max + work_max / WORK_SLACK)
        expr_fail(x, EXPR_WORK);
    else if (x->limit.us_max && x->us_end == 0)
        x->us_end = thread_us() + x->limit.us_max;
    else if (x->limit.us_max && thread_us() > x->us_end)
        expr_fail(x, EXPR_TIME);
    return x->failed == EXPR_OK;
}

struct expr_limits exprs_left(struct exprs *x)
{
    struct expr_limits l = x->limit;
    size_t used = exprs_bytes(x);
    l.grow = NULL; /* bytes of temporary expressions count as those of x after exprs_adopt */
    if (l.bytes_max) l.bytes_max = used + 1 < l.bytes_max ? l.bytes_max - used : 1;
    if (l.us_max && x->us_end == 0) x->us_end = thread_us() + l.us_max;
    if (l.us_max) l.us_max = x->us_end - thread_us();
    if (x->limit.us_max && l.us_max < 1) l.us_max = 1;
    return l;
}

void exprs_adopt(struct exprs *x, struct exprs *other)
{
    x->n_byte_other += exprs_bytes(other);
    other->limit.us_max = x->limit.us_max;
}

int exprs_error(const struct exprs *x, struct err *why)
{
    switch (x->failed) {
    case EXPR_OK:
        return 0;
    case EXPR_NO_MEMORY:
        return err_memory(why, "a grammar", 0);
    case EXPR_CANCELLED:
        return err_cancelled(why);
    case EXPR_BYTES:
        return err_set(why, ERR_LIMIT, "too large: more than %zu MiB of memory",
                       x->limit.bytes_max >> 20);
    case EXPR_CROWDED:
        return err_set(why, ERR_BUSY, "the grammars in use hold too much memory; retry later");
    case EXPR_STATES:
        return err_set(why, ERR_LIMIT, "too large: more than %zu states", x->limit.row_max);
    case EXPR_TIME:
        return err_set(why, ERR_LIMIT, "too large: more than %lld ms of processor time",
                       (long long)x->limit.us_max / 1000);
    case EXPR_WORK:
        return err_set(why, ERR_LIMIT, "too large: more than %lld steps of work for one token",
                       (long long)x->limit.work_max);
    case EXPR_TOO_DEEP:
        break;
    }
    return err_set(why, ERR_LIMIT,
                   "too large: nested too deeply, or too many alternatives at once");
}
