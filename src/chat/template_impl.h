/* template_impl.h - a compiled template, and the steps from a conversation to its rendering.
 *
 * template.c renders. probe.c detects the features of the template, and shape.c adapts messages to
 * them. family.c has the conventions of model families that a probe cannot detect. Any thread
 * renders a compiled template, which is immutable. */
#ifndef QUOTH_CHAT_TEMPLATE_IMPL_H
#define QUOTH_CHAT_TEMPLATE_IMPL_H

#include "chat/chat.h"
#include "chat/jinja_impl.h"

/* Form of an assistant's turn with reasoning: [opening] open reasoning close content. The texts are
 * static or in the template's arena. */
struct turn_form {
    const char *opening; /* start of the turn; NULL: the generation prompt up to `open` */
    /* texts around the reasoning; NULL if the template has no reasoning */
    const char *open, *close;
};

/* A convention, detected by texts in the template's source. All texts are static. */
struct family {
    const char *name;
    const char *has[4]; /* texts that the source contains */
    const char *lacks;  /* text that the source must not contain; NULL if none */
    /* Adapt the messages; NULL if no message must be adapted. */
    void (*adjust)(struct render *r, const struct template *t, struct list *messages);
    struct turn_form thinking;
    /* text that replaces `open reasoning close` in a turn without reasoning; NULL: "" */
    const char *closed;
    /* turn_begin: text that is appended to a prompt that ends with turn_end */
    const char *turn_end, *turn_begin;
    bool keeps_developer; /* true: the template supports the role "developer" */
};

struct template
{
    struct arena arena; /* owned */
    const char *source; /* arena [n], NUL-terminated */
    size_t n;
    struct node *root; /* arena; NULL if the template is empty */
    struct template_caps caps;
    const struct family *family; /* static: conventions of the template's family; NULL if none */
    struct turn_form thinking;
    bool thinking_blocks; /* true: reasoning is a block of an assistant's content (Mistral) */
    /* true: the template prints messages of the role "tool" (detected by a probe) */
    bool prints_tool;
    /* true: the template prints messages of users and assistants, first and last ones too */
    bool prints_turns;
};

/* Begin a rendering. limits NULL: the defaults; now 0: the system's time. t and e are borrowed
 * until render_end, which the caller calls also after an error. ERR_MEMORY, ERR_LIMIT. */
int render_begin(struct render *r, const struct template *t, const struct template_limits *limits,
                 int64_t now, struct err *e);
/* Render to r->out. Return r->rc: ERR_ARG if the template fails, ERR_LIMIT, ERR_MEMORY. */
int render_run(struct render *r, const struct template *t);
void render_end(struct render *r); /* free all values and r->out */

/* Append the rendering of a conversation, without the text that template_render adds. ERR_ARG,
 * ERR_UNSUPPORTED, ERR_LIMIT, ERR_MEMORY as in template_render. */
int render_conversation(const struct template *t, const struct conversation *c, struct buf *out,
                        struct err *e);
/* Return ERR_ARG if the template ignores a message. The content of an ignored message has no effect
 * on the prompt. The caller has rendered the conversation without an error. ERR_MEMORY. */
int check_roles(const struct template *t, const struct conversation *c, struct err *e);

/* Return ERR_ARG if the content of a message, a message or a part of its calls has no effect on the
 * prompt. ERR_LIMIT if the conversation is too long for this check. ERR_BUSY if the client
 * disconnects, ERR_MEMORY. The caller has rendered the conversation without an error. */
int check_effects(const struct template *t, const struct conversation *c, struct err *e);

/* Set r->globals to the variables of a conversation, with its messages adapted. */
int shape_conversation(struct render *r, const struct template *t, const struct conversation *c);
bool shape_names_date(const char *source); /* return true if the template uses a date variable */
void shape_dates(struct render *r);        /* set the date variables to today's date */
/* Return the value of a field; undefined if none. */
struct val message_field(struct render *r, struct val message, const char *name);
bool message_role_is(struct render *r, struct val message, const char *role);

/* Detect the features of the template. The only error is ERR_MEMORY. A template that rejects every
 * conversation has few features. */
int template_probe(struct template *t, struct err *e);

/* Return the family of a template with this source, static; NULL if none. */
const struct family *family_of(const char *source);

#endif
