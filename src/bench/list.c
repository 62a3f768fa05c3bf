/* list.c - lists of numbers and of names in flags: "1,2,8"; see measure.h.
 *
 * A list is a text until its command runs, so that the parser of options needs no type for it. The
 * form of a flag therefore reads the list and discards it, and the command reads the list again. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

/* An empty text and "none" are empty lists. Numbers too large for a long are clamped by strtol and
 * are then above `hi`. */
int list_read_ints(struct ids *out, const char *text, int lo, int hi, struct err *e)
{
    if (!*text || strcmp(text, "none") == 0) return 0;
    for (const char *at = text;; at++) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || v < lo || v > hi)
            return err_set(e, ERR_ARG, "must be integers N,N,... in [%d, %d], got \"%.60s\"", lo,
                           hi, text);
        if (!vec_push(out, (int32_t)v)) return err_memory(e, "numbers", sizeof v);
        at = end;
        if (!*end) return 0;
    }
}

int list_form_ints(const char *text, int lo, int hi, struct err *e)
{
    struct ids list = {0};
    int rc = list_read_ints(&list, text, lo, hi, e);
    vec_deinit(&list);
    return rc;
}

int list_max_int(const struct ids *list, int fallback)
{
    int max = fallback;
    for (size_t i = 0; i < list->n; i++) max = list->v[i] > max ? list->v[i] : max;
    return max;
}

/* Infinities are legal if the range includes them. NaN is rejected, because the comparison with the
 * range is negated. */
int list_read_reals(struct samples *out, const char *text, double lo, double hi, struct err *e)
{
    for (const char *at = text; *text; at++) {
        char *end;
        double x = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(x >= lo && x <= hi))
            return err_set(e, ERR_ARG, "must be numbers N,N,... in [%g, %g], got \"%.60s\"", lo, hi,
                           text);
        if (!vec_push(out, x)) return err_memory(e, "numbers", sizeof x);
        at = end;
        if (!*end) break;
    }
    return 0;
}

int list_form_reals(const char *text, double lo, double hi, struct err *e)
{
    struct samples list = {0};
    int rc = list_read_reals(&list, text, lo, hi, e);
    vec_deinit(&list);
    return rc;
}

bool list_has(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list;; at++) {
        size_t k = strcspn(at, ",");
        if (k == n && strncmp(at, name, n) == 0) return true;
        at += k;
        if (!*at) return false;
    }
}
