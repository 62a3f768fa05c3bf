/* ini_fuzz.c - goal: any text is read to its end or rejected with its path. Keys and values are
 * parts of one line. */
#include "ini.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static int check(void *ctx, const char *section, const char *key, const char *value, struct err *e)
{
    const size_t *n = ctx;
    (void)e;
    assert(strlen(section) <= *n && !strchr(section, '\n'));
    if (!key) return 0;
    assert(*key && !strchr(key, '\n') && !strchr(key, '=') && !strchr(value, '\n'));
    assert(strlen(key) + strlen(value) < *n);
    return 0;
}

FUZZ(ini)
{
    struct err e = {0};
    int rc = ini_read((const char *)data, n, "p", check, &n, &e);
    assert(rc == 0 || strncmp(e.text, "p:", 2) == 0);
    if (rc == 0) fuzz_accepted();
}
