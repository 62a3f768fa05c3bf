/* report.c - print an open session's properties and memory plan.
 *
 * The report is on stderr, because stdout belongs to answers and to JSON of measurements. Lines of
 * the memory plan have one column of MiB. "together" is the sum of the lines, without the file's
 * weights, because only the packed form remains in memory. */
#include "session.h"

#include "base/os.h"

#include <stdio.h>

static double mib(int64_t n_byte)
{
    return (double)n_byte / 1048576.0;
}

/* Print the source of the packed weights: the pack cache with the time, or packing with its
 * rate. */
static void report_packed(const struct weights_info *w)
{
    double seconds = (double)w->us * 1e-6,
           rate = seconds > 0 ? (double)w->n_byte / seconds * 1e-9 : 0;
    fprintf(stderr, "  packed   %9.1f MiB  ", mib(w->n_byte));
    if (w->how == WEIGHTS_MAPPED || w->how == WEIGHTS_COPIED)
        fprintf(stderr, "%s from %s in %.1f ms\n", w->how == WEIGHTS_MAPPED ? "mapped" : "copied",
                pack_cache_dir(), seconds * 1e3);
    else
        fprintf(stderr, "in %.1f ms (%.2f GB/s)%s\n", seconds * 1e3, rate,
                w->how == WEIGHTS_KEPT ? ", kept for the next start" : "");
}

void session_report(const struct session *s)
{
    const struct model_info *i = s->info;
    fprintf(stderr, "%s: %s, %.1f M parameters, %d layers, %d wide, %d/%d heads, vocabulary %d\n",
            i->name, i->arch, (double)i->n_param * 1e-6, i->n_layer, i->d_model, i->n_head,
            i->n_head_kv, i->n_vocab);
    fprintf(stderr, "%s, opened in %.1f ms\n", s->backend->description, (double)s->open_us * 1e-3);
    fprintf(stderr, "  weights  %9.1f MiB  %s\n", mib(i->weight_bytes),
            checkpoint_file_bytes(s->checkpoint) ? "in the file" : "random");
    report_packed(&i->weights);
    fprintf(stderr, "  KV pages %9.1f MiB  %d pages of %d tokens, %s: %lld tokens\n",
            mib(i->kv_bytes), i->n_page, i->page_rows, kv_type_name(i->kv_type),
            (long long)i->n_page * i->page_rows);
    if (i->n_state > 0)
        fprintf(stderr, "  states   %9.1f MiB  %d recurrent states of %.3f MiB\n",
                mib(i->states_bytes), i->n_state, mib(i->state_bytes));
    fprintf(stderr, "  scratch  %9.1f MiB  %d rows, %d outputs a step\n", mib(i->scratch_bytes),
            model_batch_limits(s->model)->n_row, model_batch_limits(s->model)->n_out);
    struct executor x = executor_of_model(s->model);
    int64_t queues = engine_bytes(&x, 0);
    fprintf(stderr, "  queues   %9.1f MiB  page table, batch of %d sequences, requests\n",
            mib(queues), x.limits->n_seq);
    fprintf(stderr, "  swap     %9.1f MiB  %d pages in host memory\n", mib(i->swap_bytes),
            i->n_host_page);
    fprintf(stderr, "  together %9.1f MiB  of %.1f\n",
            mib(i->weights.n_byte + i->kv_bytes + i->states_bytes + i->scratch_bytes + queues +
                i->swap_bytes),
            mib((int64_t)os_memory_bytes()));
}
