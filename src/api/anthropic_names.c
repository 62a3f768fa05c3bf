/* anthropic_names.c - names of Anthropic's fields in errors about the neutral form.
 *
 *   messages[3].role                   ->  messages[2].content[0].role (struct anthropic_place)
 *   tools[0].function.parameters       ->  tools[0].input_schema
 *   response_format.json_schema.schema ->  output_config.format.schema
 *   stop                               ->  stop_sequences */
#include "anthropic.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of both forms: field, and beginning of the path below it. The first row that fits is
 * used. */
static const struct name {
    const char *field, *path, *to, *to_path; /* static */
} names[] = {
    {"response_format", ".json_schema.schema", "output_config", ".format.schema"},
    {"response_format", "", "output_config", ".format"},
    {"reasoning_effort", "", "output_config", ".effort"},
    {"thinking_token_budget", "", "thinking", ".budget_tokens"},
    {"stop", "", "stop_sequences", ""},
    {"user", "", "metadata", ".user_id"},
    {"continue_final_message", "", "messages", ""},
    {"parallel_tool_calls", "", "tool_choice", ".disable_parallel_tool_use"},
    {"tool_choice", ".function.name", "tool_choice", ".name"},
};

/* Names below an item of `tools`. */
static const struct name members[] = {
    {"tools", ".function.parameters", "tools", ".input_schema"},
    {"tools", ".function", "tools", ""},
};

/* Replace the field and the first n_old bytes after it in the sentence. */
static void replace(struct err *e, size_t n_old, const char *to, const char *path)
{
    char old[sizeof e->text];
    size_t n = strlen(e->text), at = e->field_at < n ? e->field_at : n,
           end = at + strlen(e->field) + n_old;
    memcpy(old, e->text, sizeof old);
    snprintf(e->text + at, sizeof e->text - at, "%s%s%s", to, path, old + (end < n ? end : n));
    snprintf(e->field, sizeof e->field, "%s", to);
    utf8_show(e->text, strlen(e->text));
}

/* Return the sentence after the field's name. */
static const char *rest_of(const struct err *e)
{
    size_t n = strlen(e->text), end = e->field_at + strlen(e->field);
    return e->text + (end < n ? end : n);
}

/* Return the length of "[123]" at the beginning of a text, and set *i; 0 for another text. */
static size_t read_index(const char *text, size_t *i)
{
    char *end;
    if (text[0] != '[' || text[1] < '0' || text[1] > '9') return 0;
    *i = strtoul(text + 1, &end, 10);
    return *end == ']' ? (size_t)(end - text) + 1 : 0;
}

/* Replace the index of a message of the neutral form. */
static void name_message(const struct anthropic *own, struct err *e)
{
    char path[64] = "";
    size_t i = 0, n = read_index(rest_of(e), &i);
    if (n == 0 || i >= own->n_place) return;
    const struct anthropic_place at = own->place[i];
    if (at.message >= 0 && at.block >= 0)
        snprintf(path, sizeof path, "[%d].content[%d]", at.message, at.block);
    else if (at.message >= 0)
        snprintf(path, sizeof path, "[%d]", at.message);
    replace(e, n, at.message < 0 ? "system" : "messages", path);
}

/* Replace names below an item of `tools`. */
static void name_tool(struct err *e)
{
    char path[96];
    size_t i = 0, n = read_index(rest_of(e), &i);
    for (size_t k = 0; n > 0 && k < sizeof members / sizeof *members; k++) {
        const size_t n_path = strlen(members[k].path);
        if (strncmp(rest_of(e) + n, members[k].path, n_path) != 0) continue;
        snprintf(path, sizeof path, "[%zu]%s", i, members[k].to_path);
        replace(e, n + n_path, "tools", path);
        return;
    }
}

/* The schema of the answer has two places in bodies. */
static void name_format(struct err *e)
{
    static const char path[] = ".json_schema.schema";
    const size_t n = strncmp(rest_of(e), path, sizeof path - 1) == 0 ? sizeof path - 1 : 0;
    replace(e, n, "output_format", n ? ".schema" : "");
}

void anthropic_name_error(const struct api_call *c, struct err *e)
{
    const struct anthropic *own = c->own;
    if (!own || !e->field[0]) return;
    if (strcmp(e->field, "messages") == 0) return name_message(own, e);
    if (strcmp(e->field, "tools") == 0) return name_tool(e);
    if (strcmp(e->field, "response_format") == 0 && own->old_format) return name_format(e);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct name *to = &names[i];
        const size_t n_path = strlen(to->path);
        if (strcmp(e->field, to->field) != 0 || strncmp(rest_of(e), to->path, n_path) != 0)
            continue;
        replace(e, n_path, to->to, to->to_path);
        return;
    }
}
