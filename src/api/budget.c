/* budget.c - thinking_token_budget: the maximum number of tokens inside the reasoning. After this
 * number of tokens, the reasoning's closing mark is forced (session/thinking.h). reasoning_effort
 * becomes a budget if the chat template does not use that variable. */
#include "api_impl.h"

#include "session/session.h"

#include <string.h>

static const char field[] = "thinking_token_budget";
/* Fields of a budget. vLLM's field precedes llama.cpp's fields. */
static const char *const names[] = {field, "reasoning_budget_tokens", "thinking_budget_tokens"};
enum { N_NAME = sizeof names / sizeof *names };

/* A negative number means no limit. */
int api_read_budget(const struct api *a, const struct json *body, int *budget, struct err *e)
{
    int i = 0;
    int64_t n = -1;
    while (i < N_NAME - 1 && !body_field(body, names[i])) i++;
    int rc = body_int(body, names[i], INT32_MIN, INT32_MAX, &n, e);
    *budget = n < 0 ? -1 : (int)n;
    if (rc != 0 || n < 0 || (a->chat && a->chat->reasoning_parser)) return rc;
    return err_field(e, ERR_UNSUPPORTED, names[i],
                     ": the marks of this model's reasoning are not known; choose a parser with "
                     "--reasoning-parser (a wrong name lists them)");
}

int effort_budget(const struct api *a, const struct json *body)
{
    /* LiteLLM has the same budgets for minimal and low. Other efforts have no limit. */
    static const struct {
        const char *effort; /* static */
        int budget;
    } row[] = {{"minimal", 128}, {"low", 1024}, {"medium", 4096}};
    const char *effort = json_text(body_field(body, "reasoning_effort"), NULL);
    const struct chat *chat = a->chat;
    if (!effort || !chat->reasoning_parser || !chat->t || a->constrain_reasoning) return -1;
    for (int i = 0; i < N_NAME; i++)
        if (body_field(body, names[i])) return -1;
    if (strcmp(effort, "none") == 0) return template_can_skip_reasoning(chat->t) ? -1 : 0;
    for (size_t i = 0; i < sizeof row / sizeof *row && !template_knows_effort(chat->t); i++)
        if (strcmp(effort, row[i].effort) == 0) return row[i].budget;
    return -1;
}

/* Search the text of a prompt for the last reasoning block. */
static void track_prompt(struct chat_track *t, const struct tokenizer *tokenizer,
                         const struct ids *prompt)
{
    for (size_t i = 0; i < prompt->n; i++) {
        size_t n = 0;
        const char *text = tokenizer_bytes(tokenizer, prompt->v[i], &n);
        chat_track_push(t, text, n);
    }
}

int api_limit_reasoning(struct constraint **c, const struct api *a, int budget,
                        const struct text_span *begun, const struct ids *prompt, struct err *e)
{
    struct thinking_options o = {
        .tokenizer = a->session->tokenizer, .n_vocab = a->session->info->n_vocab, .budget = budget};
    if (budget < 0) return 0;
    if (!begun && *c)
        return err_field(e, ERR_UNSUPPORTED, field,
                         ": must not come with a constraint of the whole text, which includes "
                         "the reasoning");
    chat_track_begin(&o.track, a->chat->reasoning_parser, !begun);
    if (begun)
        chat_track_push(&o.track, begun->text, begun->n);
    else
        track_prompt(&o.track, o.tokenizer, prompt);
    struct err why = {0};
    struct constraint *inner = *c;
    int rc = thinking_open(c, &o, inner, &why);
    return rc ? err_field(e, rc, field, ": %s", why.text) : 0;
}
