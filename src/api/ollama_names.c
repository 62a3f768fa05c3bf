/* ollama_names.c - names of Ollama's fields in errors about the neutral form.
 *
 *   messages[1].role                    ->  messages[4].role, if earlier messages were dropped
 *   repetition_penalty                  ->  options.repeat_penalty
 *   response_format.json_schema.schema  ->  format */
#include "ollama.h"

#include <stdio.h>
#include <string.h>

static const struct rename names[] = {
#define OPTION(name, kind, neutral) {#neutral, "", "options", "." #name},
#define OWN(name, kind)
#define IDLE(name, kind, why)
#define ONLY(name, kind, value)
#include "ollama_options.def"
    {"response_format", ".json_schema.schema", "format", ""},
    {"response_format", "", "format", ""},
    {"reasoning_effort", "", "think", ""},
    {"continue_final_message", "", "messages", ""},
};

/* Replace the index of a message of the neutral form. The messages of /api/generate are its system
 * and prompt. */
static void name_message(const struct api_call *c, struct err *e)
{
    const struct ollama *own = c->own;
    char path[64];
    size_t i = 0, n = rename_index(e, &i);
    if (strcmp(c->dialect->prompt, "prompt") == 0) {
        rename_field(e, n, "prompt", "");
        return;
    }
    if (n == 0 || i >= own->n_place) return;
    snprintf(path, sizeof path, "[%d]", own->place[i].message);
    rename_field(e, n, "messages", path);
}

/* Rename a sampling parameter, which is a member of `options`. */
static void name_parameter(struct err *e)
{
    char path[80];
    for (int i = 0; i < N_SAMPLE_PARAM; i++) {
        if (strcmp(e->field, sample_param[i].name) != 0) continue;
        snprintf(path, sizeof path, ".%s", sample_param[i].name);
        rename_field(e, 0, "options", path);
        return;
    }
}

/* Begin the sentence with Ollama's words, which clients compare. */
static void name_lack(const struct api_call *c, const char *what, struct err *e)
{
    size_t i;
    char old[sizeof e->text];
    if (e->code != ERR_UNSUPPORTED || rename_index(e, &i) > 0) return;
    memcpy(old, e->text, sizeof old);
    err_set(e, e->code, "\"%.100s\" does not support %s: %s", c->model ? c->model : "the model",
            what, old);
}

void ollama_name_option(struct err *e)
{
    if (!rename_by(e, names, sizeof names / sizeof *names)) name_parameter(e);
}

void ollama_name_error(const struct api_call *c, struct err *e)
{
    const struct ollama *own = c->own;
    if (!own || !e->field[0]) return;
    if (strcmp(e->field, "messages") == 0) return name_message(c, e);
    if (strcmp(e->field, "tools") == 0) return name_lack(c, "tools", e);
    if (strcmp(e->field, "model") == 0) {
        const struct ollama_form *form = c->dialect->form;
        name_lack(c, form ? form->task : "this endpoint", e);
        return;
    }
    ollama_name_option(e);
}
