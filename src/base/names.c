/* names.c - match and list the legal values of a flag or key; see names.h. */
#include "names.h"

#include "buf.h"

#include <ctype.h>

/* Return true if a equals b, ignoring case, with `-` equal to `_`. */
static bool same_word(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        int x = *a == '-' ? '_' : tolower((unsigned char)*a),
            y = *b == '-' ? '_' : tolower((unsigned char)*b);
        if (x != y) return false;
    }
    return *a == *b;
}

int name_choose(const char **out, const char *field, name_fn *names, const char *text,
                struct err *e)
{
    struct buf list = {0};
    for (int i = 0; names(i); i++) {
        if (same_word(names(i), text)) {
            *out = names(i);
            buf_deinit(&list);
            return 0;
        }
        buf_addf(&list, "%s%s", i == 0 ? "" : names(i + 1) ? ", " : " or ", names(i));
    }
    int rc = err_field(e, ERR_ARG, field, ": must be %s, got \"%.40s\"",
                       list.failed || !list.n ? "one of a list" : list.data, text);
    buf_deinit(&list);
    return rc;
}

int form_wrong(struct err *e, const char *what, const char *text)
{
    return err_set(e, ERR_ARG, "must be %s, got \"%.60s\"", what, text);
}
