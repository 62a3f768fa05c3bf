/* template_impl.h - a compiled template, and the steps from a conversation to its rendering.
 *
 * template.c renders; probe.c detects the features of the template; shape.c adapts messages to
 * them; family.c holds conventions of model families that a probe cannot find in their
 * templates. */
#ifndef QUOTH_CHAT_TEMPLATE_IMPL_H
#define QUOTH_CHAT_TEMPLATE_IMPL_H

#include "chat/chat.h"
#include "chat/jinja_impl.h"

/* Form of an assistant's turn with reasoning: [opening] open reasoning close content. */
struct thinking {
    const char *opening;      /* start of the turn; NULL: the generation prompt up to `open` */
    const char *open, *close; /* NULL: no reasoning                                        */
};

/* A convention, recognized by texts in the template's source. */
struct family {
    const char *name;
    const char *has[4]; /* the source contains all of these */
    const char *lacks;  /* and not this  */
    void (*adjust)(struct render *r, const struct template *t,
                   struct list *messages); /* NULL: nothing */
    struct thinking thinking;
    const char *closed; /* replaces `open reasoning close` if there is no reasoning; NULL: empty */
    const char *turn_end, *turn_begin; /* a prompt that ends with turn_end gets turn_begin */
    bool keeps_developer;              /* the template supports the role "developer" */
};

struct template
{
    struct arena arena;
    const char *source;
    size_t n;
    struct node *root;
    struct template_caps caps;
    const struct family *family; /* NULL: no special convention */
    struct thinking thinking;
    bool thinking_blocks; /* reasoning is a block of an assistant's content (Mistral) */
};

int render_begin(struct render *r, const struct template *t, const struct template_limits *limits,
                 int64_t now, struct err *e);
int render_run(struct render *r, const struct template *t); /* renders to r->out */
void render_end(struct render *r);

/* Set r->globals to the variables of a conversation, with its messages adapted. */
int shape_conversation(struct render *r, const struct template *t, const struct conversation *c);
bool shape_names_date(const char *source); /* true if the template uses a date variable */
void shape_dates(struct render *r);        /* sets the date variables to today's date   */
struct val message_field(struct render *r, struct val message,
                         const char *name); /* undefined: absent */
bool message_role_is(struct render *r, struct val message, const char *role);

/* Detect the features of the template. Fails only with ERR_MEMORY: a template that rejects every
 * conversation has few features. */
int template_probe(struct template *t, struct err *e);

const struct family *family_of(const char *source);

#endif
