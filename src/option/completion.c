/* completion.c - scripts that complete commands, flags and values in bash, zsh and fish, from the
 * tables that parse the command line; see option.h.
 *
 *   bash  functions with a case per command, for COMP_WORDS
 *   zsh   a specification of _arguments per command
 *   fish  a `complete` line per flag and command
 *
 * Words that begin with a flag are flags. Values are the legal names of a flag, or files if it has
 * no names. This rule also completes the arguments of commands. */
#include "option.h"

#include <string.h>

/* Call `fn` for each option of a table and its groups. */
static void each_option(const struct option *o, const struct command *c,
                        void (*fn)(const struct command *c, const struct option *o))
{
    for (; o && o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_GROUP)
            each_option(o->include, c, fn);
        else
            fn(c, o);
    }
}

/* Call `fn` for each command that has options. A command with sub-commands is replaced by these. */
static void each_command(const struct command *const *list, void (*fn)(const struct command *c))
{
    for (; *list; list++) {
        if ((*list)->sub)
            each_command((*list)->sub, fn);
        else
            fn(*list);
    }
}

/* Print the names of a list, without those of their parent. */
static void put_names(const struct command *const *list)
{
    for (; *list; list++) {
        const char *last = strrchr((*list)->name, ' ');
        printf(" %s", last ? last + 1 : (*list)->name);
    }
}

/* Print the legal values of an option, separated by blanks. */
static void put_values(const struct option *o)
{
    const char *value;
    for (int i = 0; (value = o->names(i)); i++) printf("%s%s", i ? " " : "", value);
}

/* Print a text inside single quotes. `special`: further characters that get a backslash. A quote
 * becomes '\''. */
static void put_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            printf("'\\''");
        else
            printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
    }
}

/* ---- bash ---- */

static void bash_flag(const struct command *c, const struct option *o)
{
    (void)c;
    printf(" --%s", o->name);
    if (o->letter) printf(" -%c", o->letter);
}

static void bash_flags(const struct command *c)
{
    printf("    '%s') flags='", c->name);
    each_option(c->options, c, bash_flag);
    printf(" --config --help' ;;\n");
}

static void bash_value(const struct command *c, const struct option *o)
{
    if (o->kind == OPTION_FLAG) return;
    printf("    '%s --%s'", c->name, o->name);
    if (o->letter) printf(" | '%s -%c'", c->name, o->letter);
    printf(") takes=1");
    if (o->names) {
        printf(" values='");
        put_values(o);
        printf("'");
    }
    printf(" ;;\n");
}

static void bash_values(const struct command *c)
{
    each_option(c->options, c, bash_value);
    printf("    '%s --config') takes=1 ;;\n", c->name);
}

static void bash(const struct command *const *list)
{
    printf("# completion of quoth for bash: eval \"$(quoth completion bash)\"\n"
           "_quoth()\n{\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command=${COMP_WORDS[1]} first=2 flags= values= takes=\n"
           "    case $command in\n");
    for (const struct command *const *c = list; *c; c++) {
        if (!(*c)->sub) continue;
        printf("    '%s')\n        if [ \"$COMP_CWORD\" -lt 3 ]; then\n            "
               "COMPREPLY=($(compgen -W '",
               (*c)->name);
        put_names((*c)->sub);
        printf("' -- \"$cur\")); return\n        fi\n"
               "        command=\"$command ${COMP_WORDS[2]}\" first=3 ;;\n");
    }
    printf("    esac\n    if [ \"$COMP_CWORD\" -lt 2 ]; then\n        COMPREPLY=($(compgen -W '");
    put_names(list);
    printf("' -- \"$cur\")); return\n    fi\n    case $command in\n");
    each_command(list, bash_flags);
    printf("    esac\n    case \"$command $prev\" in\n");
    each_command(list, bash_values);
    printf("    esac\n"
           "    if [ -n \"$values\" ]; then COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
           "    elif [ -z \"$takes\" ] && [ \"${cur#-}\" != \"$cur\" ]; then "
           "COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
           "    else COMPREPLY=($(compgen -f -- \"$cur\")); compopt -o filenames 2>/dev/null\n"
           "    fi\n}\ncomplete -F _quoth quoth\n");
}

/* ---- zsh ---- */

static void zsh_option(const struct command *c, const struct option *o)
{
    (void)c;
    const bool repeats = o->kind == OPTION_LIST || o->kind == OPTION_WORDS;
    for (int letter = 0; letter < 1 + (o->letter != 0); letter++) {
        printf(" \\\n            '%s", repeats ? "*" : "");
        if (letter)
            printf("-%c", o->letter);
        else
            printf("--%s", o->name);
        printf("[");
        put_quoted(o->help, "[]\\");
        printf("]");
        if (o->kind != OPTION_FLAG) {
            printf(":");
            put_quoted(o->arg, ":\\");
            printf(":%s", o->names ? "(" : "_files");
            if (o->names) put_values(o);
            if (o->names) printf(")");
        }
        printf("'");
    }
}

static void zsh_command(const struct command *c)
{
    printf("    '%s')\n        _arguments", c->name);
    each_option(c->options, c, zsh_option);
    printf(" \\\n            '--config[read options from a file]:FILE:_files'"
           " '--help[show the help]' '*:argument:_files' ;;\n");
}

/* Print the words of a list with their summaries. */
static void zsh_describe(const struct command *const *list)
{
    printf("(");
    for (; *list; list++) {
        const char *last = strrchr((*list)->name, ' ');
        printf(" '%s:", last ? last + 1 : (*list)->name);
        put_quoted((*list)->summary, ":\\");
        printf("'");
    }
    printf(" )");
}

static void zsh(const struct command *const *list)
{
    printf("#compdef quoth\n# completion of quoth for zsh: a file _quoth in a folder of fpath\n"
           "_quoth()\n{\n    local -a words_of\n    local command=$words[2]\n"
           "    if ((CURRENT == 2)); then\n        words_of=");
    zsh_describe(list);
    printf("\n        _describe command words_of\n        return\n    fi\n    case $command in\n");
    for (const struct command *const *c = list; *c; c++) {
        if (!(*c)->sub) continue;
        printf("    '%s')\n        if ((CURRENT == 3)); then\n            words_of=", (*c)->name);
        zsh_describe((*c)->sub);
        printf("\n            _describe command words_of\n            return\n        fi\n"
               "        command=\"$command $words[3]\"\n        shift words\n        ((CURRENT--)) "
               ";;\n");
    }
    printf("    esac\n    shift words\n    ((CURRENT--))\n    case $command in\n");
    each_command(list, zsh_command);
    printf(
        "    esac\n}\nif [ \"$funcstack[1]\" = _quoth ]; then _quoth \"$@\"; else compdef _quoth "
        "quoth; fi\n");
}

/* ---- fish ---- */

/* Print the beginning of a line that applies to a command. */
static void fish_line(const struct command *c)
{
    const char *last = strrchr(c->name, ' ');
    printf("complete -c quoth -n '__fish_seen_subcommand_from %.*s%s%s'",
           last ? (int)(last - c->name) : (int)strlen(c->name), c->name,
           last ? "; and __fish_seen_subcommand_from" : "", last ? last : "");
}

static void fish_option(const struct command *c, const struct option *o)
{
    fish_line(c);
    printf(" -l %s", o->name);
    if (o->letter) printf(" -s %c", o->letter);
    if (o->kind != OPTION_FLAG) printf(" -r");
    if (o->names) {
        printf(" -f -a '");
        put_values(o);
        printf("'");
    }
    printf(" -d '");
    for (const char *p = o->help; *p; p++) printf("%s%c", *p == '\'' || *p == '\\' ? "\\" : "", *p);
    printf("'\n");
}

static void fish_command(const struct command *c)
{
    each_option(c->options, c, fish_option);
    fish_line(c);
    printf(" -l config -r -d 'read options from a file'\n");
}

/* Print the words of a list. The condition of each word is that no other word was typed. */
static void fish_words(const struct command *const *list, const char *parent)
{
    for (const struct command *const *c = list; *c; c++) {
        const char *last = strrchr((*c)->name, ' ');
        printf("complete -c quoth -f -n '");
        if (parent)
            printf("__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from", parent);
        else
            printf("not __fish_seen_subcommand_from");
        put_names(list);
        printf("' -a %s -d '", last ? last + 1 : (*c)->name);
        put_quoted((*c)->summary, "");
        printf("'\n");
        if ((*c)->sub) fish_words((*c)->sub, (*c)->name);
    }
}

static void fish(const struct command *const *list)
{
    printf("# completion of quoth for fish: quoth completion fish | source\n");
    fish_words(list, NULL);
    each_command(list, fish_command);
}

/* ---- shells ---- */

static const struct {
    const char *name;
    void (*print)(const struct command *const *list);
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

bool completion_print(const struct command *const *list, const char *shell)
{
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shells[i].name, shell) != 0) continue;
        shells[i].print(list);
        return true;
    }
    return false;
}
