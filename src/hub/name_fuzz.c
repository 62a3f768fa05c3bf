/* name_fuzz.c - any text is rejected, or gives a name whose text gives an equal name again. The
 * parts of a name are not paths to other folders. */
#include "hub_impl.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void check_part(const char *part)
{
    assert(!strstr(part, "..") && part[0] != '.' && part[0] != '/' && part[0] != '-');
    for (const char *c = part; *c; c++) assert(*c > ' ' && *c < 127 && *c != '\\');
}

FUZZ(hub_name)
{
    struct hub_name a, b;
    char text[HUB_NAME_BYTES], *copy = strndup((const char *)data, n);
    assert(copy);
    if (hub_name_read(&a, copy, NULL) == 0) {
        fuzz_accepted();
        hub_name_text(text, &a);
        assert(hub_name_read(&b, text, NULL) == 0 && memcmp(&a, &b, sizeof a) == 0);
        const char *const part[] = {a.repo, a.quant, a.revision, a.host, a.space, a.model, a.tag};
        for (size_t i = 0; i < sizeof part / sizeof *part; i++) check_part(part[i]);
        assert(!strchr(a.quant, '/') && !strchr(a.host, '/') && !strchr(a.tag, '/'));
    }
    free(copy);
}
