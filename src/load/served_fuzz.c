/* served_fuzz.c - read mutated answers of servers and mutated lines of datasets. */
#include "../../tests/fuzz/fuzz.h"

#include "served.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The first byte selects the kind of answer, its status, and the size of the pieces. */
FUZZ(served_answer)
{
    struct served_answer a;
    struct served_memory own = {0};
    struct client_trace s = {0};
    const uint8_t how = n ? data[0] : 0;
    const int status = how & 4 ? 400 : 200;
    const size_t piece = (size_t)(how >> 3) * 8 + 1;
    served_answer_begin(&a, how & 1, how & 2);
    int64_t now_us = 1;
    for (size_t at = 1; at < n; at += piece) {
        const size_t m = n - at < piece ? n - at : piece;
        if (!served_answer_feed(&a, status, (const char *)data + at, m, now_us++)) break;
    }
    const bool finished = a.finished;
    served_answer_end(&a, &(struct fetch_result){.status = status}, now_us, &s, &own);
    if (!own.error) {
        fuzz_accepted();
        assert(status == 200 && finished);
    }
    free(own.token_us), free(own.text), free(own.error);
}

FUZZ(dataset_line)
{
    struct prompts p = {0};
    struct err e = {0};
    char *line = malloc(n + 1);
    if (!line) return;
    memcpy(line, data, n);
    line[n] = '\0';
    if (prompts_add_line(&p, line, &e) == 0) {
        fuzz_accepted();
        assert(p.t.n == 1 && p.text[0] && p.t.v[0].n_output >= 1);
    } else {
        assert(p.t.n == 0 && e.text[0]);
    }
    free(line);
    prompts_close(&p);
}
