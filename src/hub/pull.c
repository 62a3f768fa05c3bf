/* pull.c - download a model by its name. A file that reaches the size limit (RLIMIT_FSIZE) causes
 * an error, not a signal. */
#include "hub_impl.h"

#include <signal.h>

int hub_pull(struct hub_model *out, const struct hub_name *n, const struct hub_pull_options *o,
             struct err *e)
{
    if (hub_offline()) {
        char name[HUB_NAME_BYTES];
        hub_name_text(name, n);
        return err_set(e, ERR_ARG, "%s: HF_HUB_OFFLINE forbids downloads", name);
    }
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    int rc = n->kind == HUB_HF ? pull_hf(n, o, e) : pull_ollama(n, o, e);
    signal(SIGXFSZ, before);
    return rc ? rc : hub_find(out, n, e);
}
