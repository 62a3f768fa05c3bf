/* help.c - print --help and the man page, from the tables that parse the command line; see
 * option.h.
 *
 * The table of options is the only source of help, so help and parser always agree. A sub-command
 * list replaces the options of its command. */
#include "option.h"

#include <stdio.h>
#include <string.h>

/* Print one option. After a long name, the help is on the next line. The help contains "(default
 * ...)". */
static void option_line(const struct option *o)
{
    char left[80];
    int n = o->letter ? snprintf(left, sizeof left, "-%c, --%s", o->letter, o->name)
                      : snprintf(left, sizeof left, "    --%s", o->name);
    if (o->kind != OPTION_FLAG && n > 0 && (size_t)n < sizeof left)
        snprintf(left + n, sizeof left - (size_t)n, " %s", o->arg);
    printf("  %-34s%s%s\n", left, strlen(left) > 33 ? "\n                                    " : "",
           o->help);
}

/* Apply `line` to all options of a table and its groups. */
static void option_lines(const struct option *o, void (*line)(const struct option *))
{
    for (; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_GROUP)
            option_lines(o->include, line);
        else
            line(o);
    }
}

/* Print a row for each command. */
static void command_lines(const struct command *const *c)
{
    for (; *c; c++) printf("  %-16s %s\n", (*c)->name, (*c)->summary);
}

void help_command(const struct command *c)
{
    printf("usage: quoth %s %s\n\n%s\n", c->name, c->usage, c->summary);
    if (c->detail) printf("\n%s\n", c->detail);
    if (c->sub) {
        printf("\ncommands:\n");
        command_lines(c->sub);
        printf("\nMore: quoth help %s COMMAND.\n", c->name);
        return;
    }
    printf("\noptions:\n");
    option_lines(c->options, option_line);
    printf("  %-34s%s\n  %-34s%s\n", "    --config FILE",
           "read options from FILE: lines of \"name: value\"", "-h, --help", "show this help");
}

void help_all(const struct command *const *list)
{
    printf("quoth %s - run and serve language models\n\nusage: quoth COMMAND [ARGUMENTS] "
           "[OPTIONS]\n\ncommands:\n",
           QUOTH_VERSION);
    command_lines(list);
    printf("\nMore: quoth COMMAND --help.\n");
}

/* Print text for troff. Escape a backslash, and a dot or quote at the start of a line. */
static void man_text(const char *text)
{
    for (const char *p = text; *p; p++) {
        if ((p == text || p[-1] == '\n') && (*p == '.' || *p == '\'')) printf("\\&");
        if (*p == '\\')
            printf("\\e");
        else if (*p == '-')
            printf("\\-");
        else
            putchar(*p);
    }
}

/* Print one option as a tagged paragraph of troff. */
static void man_option(const struct option *o)
{
    printf(".TP\n.B ");
    if (o->letter) printf("\\-%c, ", o->letter);
    printf("\\-\\-");
    man_text(o->name);
    if (o->kind != OPTION_FLAG) printf(" \\fI%s\\fR", o->arg);
    printf("\n");
    man_text(o->help);
    printf("\n");
}

/* Print the section of one command. */
static void man_command(const struct command *c)
{
    printf(".SS quoth %s ", c->name);
    man_text(c->usage);
    printf("\n");
    man_text(c->summary);
    printf(".\n");
    if (c->detail) {
        printf(".PP\n");
        man_text(c->detail);
        printf("\n");
    }
    option_lines(c->options, man_option);
}

/* List the commands. List the sub-commands in place of a command that has them. */
static void man_commands(const struct command *const *c)
{
    for (; *c; c++) {
        if ((*c)->sub)
            man_commands((*c)->sub);
        else
            man_command(*c);
    }
}

/* The page is one section per command, in the order of `quoth help`. */
void help_man(const struct command *const *list)
{
    printf(".TH QUOTH 1 \"\" \"quoth %s\"\n.SH NAME\nquoth \\- run and serve language models\n.SH "
           "SYNOPSIS\n",
           QUOTH_VERSION);
    printf(".B quoth\n.I COMMAND\n[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]\n.SH COMMANDS\n");
    man_commands(list);
    printf(".SH EXIT STATUS\n0: success. 1: failure, with the reason on standard error. "
           "2: wrong usage.\n");
}
