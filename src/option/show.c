/* show.c - print the current values of options; see option.h.
 *
 * options_show is for people: every option, with at most 7 digits. options_print writes a file for
 * --config, which must set equal values again. The file therefore has 15 digits, comments for
 * options that are not set, and no secrets. */
#include "option_impl.h"

#include <string.h>

/* Return false if the option is not set. An option that is not set is a number outside its limits,
 * or a NULL text. */
static bool is_set(const struct option *o)
{
    bool is_real = o->kind == OPTION_REAL, is_int = o->kind == OPTION_INT;
    double v = is_real  ? *(const double *)o->target
               : is_int ? (double)*(const int64_t *)o->target
                        : o->lo;
    if (o->kind == OPTION_TEXT) return *(const char *const *)o->target != NULL;
    if (is_list(o)) return ((const struct text_list *)o->target)->n > 0;
    return o->range && (is_real || is_int) ? range_has(o->range, v) : v >= o->lo && v <= o->hi;
}

/* Print a value. digits: significant digits of a real number, 15 for a double or 7 for a float. */
static void show_value(const struct option *o, int digits, FILE *out)
{
    if (o->kind == OPTION_REAL)
        fprintf(out, "%.*g", digits, *(const double *)o->target);
    else if (o->kind == OPTION_INT)
        fprintf(out, "%lld", (long long)*(const int64_t *)o->target);
    else if (o->kind == OPTION_FLAG)
        fprintf(out, "%s", *(const bool *)o->target ? "true" : "false");
    else
        fprintf(out, "%s", *(const char *const *)o->target);
}

void options_show(const struct option *table, FILE *out)
{
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_GROUP) {
            options_show(o->include, out);
            continue;
        }
        fprintf(out, "  %-28s ", o->name);
        const struct text_list *list = is_list(o) ? o->target : NULL;
        for (size_t i = 0; list && i < list->n; i++)
            fprintf(out, "%s\"%s\"", i ? " " : "", list->v[i]);
        if (!list && is_set(o))
            show_value(o, 7, out);
        else if (!list)
            fprintf(out, "(not set)");
        fprintf(out, "\n");
    }
}

/* Print a text of a config file. Quotes protect blanks and quotes at its ends, because the reader
 * removes blanks and one pair of quotes. */
static void print_text(const char *text, FILE *out)
{
    static const char removed[] = " \t\r\v\f\"'";
    size_t n = strlen(text);
    if (n > 0 && (strchr(removed, text[0]) || strchr(removed, text[n - 1])))
        fprintf(out, "\"%s\"", text);
    else
        fprintf(out, "%s", text);
}

void options_print(const struct option *table, FILE *out)
{
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_GROUP) {
            options_print(o->include, out);
            continue;
        }
        const struct text_list *list = is_list(o) ? o->target : NULL;
        if (!is_set(o)) {
            fprintf(out, "# %s:\n", o->name);
        } else if (o->secret) {
            fprintf(out, "# %s: given, not shown\n", o->name);
        } else if (list) {
            for (size_t i = 0; i < list->n; i++) {
                fprintf(out, "%s: ", o->name);
                print_text(list->v[i], out);
                fputc('\n', out);
            }
        } else {
            fprintf(out, "%s: ", o->name);
            if (o->kind == OPTION_TEXT)
                print_text(*(const char *const *)o->target, out);
            else
                show_value(o, 15, out);
            fputc('\n', out);
        }
    }
}
