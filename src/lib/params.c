/* params.c - the list of sampling parameters for programs: sample/params.def as JSON. The Python
 * package generates its checks from this list.
 *
 * The list is JSON, so a new member does not change the binary interface. */
#include "lib_impl.h"

#include "sample/sample.h"

#include <float.h>
#include <string.h>

/* Append the range. The maximum of a type as a bound means that there is no bound. `also` is an
 * additional legal value outside of the range. */
static void put_range(struct buf *b, const struct sample_param *p)
{
    const struct range *r = &p->range;
    json_member_text(b, "range", r->text);
    json_member_real(b, r->open ? "exclusiveMinimum" : "minimum", r->low);
    if (r->high != FLT_MAX && r->high != INT32_MAX) json_member_real(b, "maximum", r->high);
    if (r->also != r->high) json_member_real(b, "also", r->also);
}

/* Append the types, and the type of an array's items. Several types are a list. */
static void put_types(struct buf *b, const struct sample_param *p)
{
    const bool many = strchr(p->type, ' ') != NULL;
    buf_add_text(b, many ? ",\"type\":[" : ",\"type\":");
    for (const char *at = p->type; *at;) {
        const size_t n = strcspn(at, " ");
        if (at != p->type) buf_add_char(b, ',');
        json_put_text(b, at, n);
        at += n + (at[n] == ' ');
    }
    if (many) buf_add_char(b, ']');
    if (p->items) json_member_text(b, "items", p->items);
}

/* Append the default; null for a parameter that is not a number. */
static void put_default(struct buf *b, const struct sample_param *p)
{
    if (p->kind == SAMPLE_FLAG)
        buf_add_text(b, p->fallback != 0 ? ",\"default\":true" : ",\"default\":false");
    else if (p->kind == SAMPLE_INT)
        json_member_int(b, "default", (int64_t)p->fallback);
    else if (p->kind == SAMPLE_REAL)
        json_member_real(b, "default", p->fallback);
    else
        json_member_text(b, "default", NULL);
}

/* Return the list as JSON; NULL if memory is exhausted:
 *    [{"name":"top_p","type":...,"default":1,"exclusiveMinimum":0,"maximum":1,...},...] */
char *quoth_params(void)
{
    struct buf b = {0};
    for (int i = 0; i < N_SAMPLE_PARAM; i++) {
        const struct sample_param *p = &sample_param[i];
        buf_add_text(&b, i ? ",{\"name\":" : "[{\"name\":");
        json_put_text(&b, p->name, strlen(p->name));
        put_types(&b, p);
        put_default(&b, p);
        if (p->range.text) put_range(&b, p);
        json_member_text(&b, "description", p->help);
        buf_add_char(&b, '}');
    }
    buf_add_char(&b, ']');
    return buf_detach(&b);
}
