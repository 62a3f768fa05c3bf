/* generate.c - the smallest program that runs a model. The program prints the continuation of each
 * prompt while the model generates it.
 *
 *     cc generate.c $(pkg-config --cflags --libs quoth) -o generate
 *     ./generate model.gguf "Once upon a time" */
#include <quoth.h>

#include <stdio.h>
#include <string.h>

static int answer(quoth_queue *q, const char *prompt)
{
    char why[512];
    quoth_request r = {0};
    const quoth_event *e;
    r.size = sizeof r;
    r.prompt = prompt;
    r.n_prompt = strlen(prompt);
    r.params = "{\"temperature\": 0, \"max_tokens\": 32}";
    if (quoth_submit(q, &r, NULL, why, sizeof why) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    while ((e = quoth_poll(q, -1))) {
        fwrite(e->text, 1, e->n_text, stdout);
        fflush(stdout);
        if (e->kind == QUOTH_EVENT_DONE)
            printf("\n[%s, %d tokens]\n", e->finish_reason, e->n_output_token);
    }
    return 0;
}

int main(int argc, char **argv)
{
    char why[512];
    quoth_model *m;
    quoth_queue *q;
    int i, failed = 0;
    if (argc < 3) return fprintf(stderr, "usage: generate MODEL PROMPT...\n"), 2;
    if (quoth_open(&m, argv[1], NULL, 0, why, sizeof why) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    q = quoth_queue_open(m);
    for (i = 2; q && i < argc; i++) failed |= answer(q, argv[i]);
    quoth_queue_close(q);
    quoth_close(m);
    return failed;
}
