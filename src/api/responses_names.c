/* responses_names.c - names of the Responses API's fields in errors about the neutral form.
 *
 *   messages[3].content                ->  input[2].content, instructions.content
 *   tools[0].function.parameters       ->  tools[0].parameters
 *   response_format.json_schema.schema ->  text.format.schema
 *   max_tokens                         ->  max_output_tokens */
#include "responses.h"

#include <stdio.h>
#include <string.h>

static const struct rename names[] = {
    {"response_format", ".json_schema", "text", ".format"},
    {"response_format", "", "text", ".format"},
    {"reasoning_effort", "", "reasoning", ".effort"},
    {"max_tokens", "", "max_output_tokens", ""},
    {"tool_choice", ".function.name", "tool_choice", ".name"},
    {"tool_choice", ".allowed_tools", "tool_choice", ""},
};

/* Names below an item of `tools`. */
static const struct rename members[] = {
    {"tools", ".custom.format.grammar", "tools", ".format"},
    {"tools", ".function", "tools", ""},
    {"tools", ".custom", "tools", ""},
};

/* Replace the index of a message of the neutral form. */
static void name_message(const struct responses *own, struct err *e)
{
    char path[32] = "";
    size_t i = 0, n = rename_index(e, &i);
    const bool known = n > 0 && i < own->n_place;
    const int item = known ? own->place[i].message : 0;
    if (known && item >= 0) snprintf(path, sizeof path, "[%d]", item);
    rename_field(e, known ? n : 0,
                 item == PLACE_INSTRUCTIONS ? "instructions"
                 : item == PLACE_PREVIOUS
                     ? (own->conversation ? "conversation" : "previous_response_id")
                     : "input",
                 path);
}

void responses_name_error(const struct api_call *c, struct err *e)
{
    const struct responses *own = c->own;
    if (!own || !e->field[0]) return;
    if (strcmp(e->field, "messages") == 0) return name_message(own, e);
    if (strcmp(e->field, "tools") == 0)
        return rename_tool(e, members, sizeof members / sizeof *members);
    (void)rename_by(e, names, sizeof names / sizeof *names);
}
