/* multipart_fuzz.c - goal: each mutated body of multipart/form-data is rejected with a message, or
 * its parts are within the body, in order. */
#include "multipart.h"

#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The first line of the input is the media type. */
FUZZ(multipart)
{
    const char *line_end = memchr(data, '\n', n);
    if (!line_end) return;
    const size_t n_type = (size_t)(line_end - (const char *)data);
    char *type = calloc(1, n_type + 1);
    const size_t n_body = n - n_type - 1;
    char *body = malloc(n_body ? n_body : 1); /* exact size, so that sanitizers see its end */
    if (!type || !body) abort();
    memcpy(type, data, n_type);
    memcpy(body, line_end + 1, n_body);
    struct multipart m;
    struct multipart_part p;
    struct err e = {0};
    int rc = multipart_open(&m, type, body, n_body, &e);
    const char *after = body;
    bool any = rc == 0;
    while (rc == 0 && (rc = multipart_next(&m, &p, &e)) == 1) {
        assert(p.data >= after && p.data + p.n <= body + n_body);
        assert(strlen(p.name) <= MULTIPART_NAME_MAX &&
               strlen(p.filename) <= MULTIPART_FILENAME_MAX);
        after = p.data + p.n;
        rc = 0;
    }
    assert((rc == 0) == (e.text[0] == 0));
    if (rc == 0 && any) {
        assert(multipart_next(&m, &p, &e) == 0);
        fuzz_accepted();
    }
    free(type);
    free(body);
}
