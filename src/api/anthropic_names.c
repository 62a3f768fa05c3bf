/* anthropic_names.c - names of Anthropic's fields in errors about the neutral form.
 *
 *   messages[3].role                   ->  messages[2].content[0].role (struct message_place)
 *   tools[0].function.parameters       ->  tools[0].input_schema
 *   response_format.json_schema.schema ->  output_config.format.schema
 *   stop                               ->  stop_sequences */
#include "anthropic.h"

#include <stdio.h>
#include <string.h>

static const struct rename names[] = {
    {"response_format", ".json_schema", "output_config", ".format"},
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
static const struct rename members[] = {
    {"tools", ".function.parameters", "tools", ".input_schema"},
    {"tools", ".function", "tools", ""},
};

/* Replace the index of a message of the neutral form. */
static void name_message(const struct anthropic *own, struct err *e)
{
    char path[64] = "";
    size_t i = 0, n = rename_index(e, &i);
    if (n == 0 || i >= own->n_place) return;
    const struct message_place at = own->place[i];
    if (at.message >= 0 && at.block >= 0)
        snprintf(path, sizeof path, "[%d].content[%d]", at.message, at.block);
    else if (at.message >= 0)
        snprintf(path, sizeof path, "[%d]", at.message);
    rename_field(e, n, at.message < 0 ? "system" : "messages", path);
}

/* Rename the field of the answer's schema, which has two places in bodies. */
static void name_format(struct err *e)
{
    static const struct rename row[] = {
        {"response_format", ".json_schema", "output_format", ""},
        {"response_format", "", "output_format", ""},
    };
    (void)rename_by(e, row, sizeof row / sizeof *row);
}

void anthropic_name_error(const struct api_call *c, struct err *e)
{
    const struct anthropic *own = c->own;
    if (!own || !e->field[0]) return;
    if (strcmp(e->field, "messages") == 0) return name_message(own, e);
    if (strcmp(e->field, "tools") == 0)
        return rename_tool(e, members, sizeof members / sizeof *members);
    if (strcmp(e->field, "response_format") == 0 && own->old_format) return name_format(e);
    (void)rename_by(e, names, sizeof names / sizeof *names);
}
