/* constrain.c - the constraint of a call's answers. The constraint is compiled while the body is
 * read, and forked for each request.
 *
 *    body --openai_read_format--> c->spec --call_compile--> c->constraint --fork--> each request
 *
 * Reading and compiling are separate, because the grammar of a message also depends on the tools
 * and the parsers (constrain_message.c). Errors contain the field of the body. */
#include "openai.h"

#include "base/cancel.h"

#include <math.h>
#include <string.h>

/* Keep a constraint of the body. A second constraint is an error, because an answer can satisfy
 * only one grammar. The text is copied, because the body is freed before the call ends. */
int call_constrain(struct api_call *c, const struct constraint_spec *spec, struct err *e)
{
    if (c->spec.field)
        return err_field(e, ERR_ARG, spec->field,
                         ": must not come with another constraint, got %s too", c->spec.field);
    c->spec = *spec;
    c->spec.text = arena_text(&c->arena, spec->n ? spec->text : "", spec->n);
    return c->spec.text ? 0 : err_memory(e, "a constraint", spec->n);
}

/* Compile a constraint into c->constraint. The server's settings can only make the JSON of the
 * constraint stricter. At the request's deadline, set c->late and return 0 without a constraint.
 * ERR_UNSUPPORTED if there is no model. */
int call_compile(struct api_call *c, const struct constraint_spec *spec, struct err *why)
{
    struct constraint_vocab *vocab = c->api->session->vocab;
    struct grammar_options o = spec->options;
    o.no_white_space |= c->api->no_white_space;
    o.no_additional |= c->api->no_additional;
    c->constraint_field = spec->field;
    if (!vocab) return err_set(why, ERR_UNSUPPORTED, "model not found at this endpoint");
    const int64_t limit_us = c->n_part ? c->part->request->deadline_us : 0;
    if (limit_us > 0) cancel_at_us = limit_us + (c->arrival_us ? c->arrival_us : time_us());
    int rc = grammar_constraint_open(&c->constraint, vocab, c->holder, spec->kind, spec->text,
                                     spec->n, &o, why);
    c->late |= rc == ERR_BUSY && cancelled_late();
    cancel_at_us = 0;
    return c->late ? 0 : rc;
}

/* Compile the constraint of a completion. The constraint applies to the whole text. */
int call_constrain_text(struct api_call *c, struct err *e)
{
    struct err why = {0};
    int rc = c->spec.field ? call_compile(c, &c->spec, &why) : 0;
    return rc ? err_field(e, rc, c->spec.field, "%s: %s", c->spec.place, why.text) : 0;
}

/* Check that a request may have the constraint of `field`. */
static int check_constrained(const struct request *r, const char *field, struct err *e)
{
    if (!r->params.ignore_eos) return 0;
    return err_field(e, ERR_UNSUPPORTED, "ignore_eos",
                     ": must not come with %s, which ends the answer", field);
}

/* Give a request a fork of the compiled grammar. Forks share the grammar and have separate
 * states. */
static int fork_for(struct api_call *c, struct part *p, struct err *e)
{
    struct request *r = p->request;
    if (!c->constraint) return 0;
    int rc = check_constrained(r, c->constraint_field, e);
    if (rc != 0) return rc;
    p->constraint_field = c->constraint_field;
    r->constraint = c->constraint->op->fork(c->constraint);
    return r->constraint ? 0
                         : err_memory(e, "a constraint", (unsigned long long)c->constraint->n_byte);
}

int call_constrain_requests(struct api_call *c, struct err *e)
{
    const struct text_span begun = {c->begun ? c->begun : "", c->n_begun};
    const int budget = c->without_reasoning ? -1 : c->budget;
    int rc = 0;
    for (int i = 0; i < c->n_part && rc == 0; i++) {
        struct part *p = &c->part[i];
        rc = fork_for(c, p, e);
        if (rc == 0)
            rc = api_limit_reasoning(&p->request->constraint, c->api, budget,
                                     c->is_message ? &begun : NULL, &p->request->prompt, e);
        if (budget >= 0 && !p->constraint_field) p->constraint_field = "thinking_token_budget";
    }
    return rc;
}

/* A call on the stack is enough, because only its constraint and arena are used. */
int api_constrain(struct request *r, const struct api *a, const struct json *body, struct err *e)
{
    struct api_call c = {.api = a};
    int rc = openai_read_format(&c, body, e);
    if (rc == 0) rc = call_constrain_text(&c, e);
    arena_deinit(&c.arena);
    r->constraint = c.constraint;
    return rc == 0 && c.constraint ? check_constrained(r, c.constraint_field, e) : rc;
}

int api_constrain_message(struct constraint **out, const struct api *a, const struct json *body,
                          const char *begun, size_t n_begun, struct chat_parser_options *parser,
                          struct err *e)
{
    const struct tools_spec no_tools = {0};
    struct api_call c = {.api = a, .n_begun = n_begun};
    c.reasoning_parser = a->chat ? a->chat->reasoning_parser : NULL;
    c.begun = arena_text(&c.arena, n_begun ? begun : "", n_begun);
    int rc = c.begun ? openai_read_format(&c, body, e) : err_memory(e, "a prompt", n_begun);
    if (rc == 0)
        rc = a->chat ? call_constrain_message(&c, &no_tools, e) : call_constrain_text(&c, e);
    *parser = (struct chat_parser_options){.reasoning_parser = c.reasoning_parser,
                                           .expected = c.expected};
    arena_deinit(&c.arena);
    *out = c.constraint;
    return rc;
}

/* ---- constraints in a JSON body ---- */

/* Reject integers of more than 64 bits. Such integers may have lost digits during parsing, which
 * would change the schema. */
int check_numbers(const struct json *j, struct err *e)
{
    int rc = 0;
    if (json_kind(j) == JK_REAL && fabs(json_real(j, 0)) >= 0x1p63)
        return err_set(e, ERR_UNSUPPORTED,
                       "the number %g does not fit 64 bits; send the schema as a string, which "
                       "keeps its digits",
                       json_real(j, 0));
    for (size_t i = 0; json_kind(j) == JK_LIST && rc == 0 && i < json_count(j); i++)
        rc = check_numbers(json_item(j, i), e);
    for (void *it = json_kind(j) == JK_OBJECT ? json_first(j) : NULL; it && rc == 0;
         it = json_next(j, it))
        rc = check_numbers(json_it_value(it), e);
    return rc;
}

/* Set the constraint from a JSON value or its text. A JSON value is written as text, because the
 * compiler of grammars reads texts. */
int call_constrain_json(struct api_call *c, const struct constraint_spec *spec,
                        const struct json *value, struct err *e)
{
    struct constraint_spec one = *spec;
    struct buf b = {0};
    struct err why = {0};
    int rc = 0;
    one.text = json_text(value, &one.n);
    if (!one.text) {
        rc = check_numbers(value, &why);
        if (rc != 0) return err_field(e, rc, one.field, "%s: %s", one.place, why.text);
        json_put(&b, value);
        if (b.failed) rc = err_memory(e, "a constraint", b.n);
        one.text = b.data, one.n = b.n;
    }
    if (rc == 0) rc = call_constrain(c, &one, e);
    buf_deinit(&b);
    return rc;
}
