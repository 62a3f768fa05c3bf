/* template_impl.h - a compiled template, and the steps from a conversation to its rendering.
 *
 * template.c renders; probe.c asks the template what it supports; shape.c brings messages into that
 * form; family.c holds what cannot be probed: conventions of model families that live outside their
 * templates. */
#ifndef QUOTH_CHAT_TEMPLATE_IMPL_H
#define QUOTH_CHAT_TEMPLATE_IMPL_H

#include "chat/chat.h"
#include "chat/jinja_impl.h"

/* How an assistant's turn with reasoning is written: [opening] open reasoning close content. */
struct thinking {
    const char *opening;      /* what begins the turn; NULL: the generation prompt up to `open` */
    const char *open, *close; /* NULL: no reasoning                                        */
};

/* A convention recognized by texts in the template's source. */
struct family {
    const char *name;
    const char *has[4]; /* all of these, */
    const char *lacks;  /* and not this  */
    void (*adjust)(struct render *r, const struct template *t,
                   struct list *messages); /* NULL: nothing */
    struct thinking thinking;
    const char
        *closed; /* `open reasoning close` where there is no reasoning; NULL: written empty */
    const char *turn_end, *turn_begin; /* a prompt that ends with turn_end gets turn_begin */
    bool keeps_developer;              /* the role "developer" is known */
};

struct template
{
    struct arena arena;
    const char *source;
    size_t n;
    struct node *root;
    struct template_caps caps;
    const struct family *family; /* NULL: nothing special */
    struct thinking thinking;
};

int render_begin(struct render *r, const struct template *t, const struct template_limits *limits,
                 int64_t now, struct err *e);
int render_run(struct render *r, const struct template *t); /* to r->out */
void render_end(struct render *r);

/* Variables of a conversation into r->globals, its messages shaped. */
int shape_conversation(struct render *r, const struct template *t, const struct conversation *c);
struct val message_field(struct render *r, struct val message,
                         const char *name); /* undefined: absent */
bool message_role_is(struct render *r, struct val message, const char *role);

void template_probe(struct template *t);

const struct family *family_of(const char *source);

#endif
