/* name.c - read and write names of models.
 *
 * A name has only characters that the hubs allow. A part never begins with "." or "-" and never
 * contains "..", so no part is a path to another folder or a flag. */
#include "hub_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { REPO_PART_MAX = 96, OLLAMA_PART_MAX = 80 };

static const char alnum[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/* Copy n bytes to out[n_out]. Return false unless 0 < n < n_out. */
static bool copy(char *out, size_t n_out, const char *text, size_t n)
{
    if (n == 0 || n >= n_out) return false;
    memcpy(out, text, n);
    out[n] = 0;
    return true;
}

/* Return true if the part has only letters, digits and characters of `more`, and at most `max`
 * bytes. The part must begin with a letter, digit or "_". */
static bool is_part(const char *part, const char *more, size_t max)
{
    size_t n = strlen(part);
    for (size_t i = 0; i < n; i++)
        if (!strchr(alnum, part[i]) && !strchr(more, part[i])) return false;
    return n > 0 && n <= max && (strchr(alnum, part[0]) || part[0] == '_') && !strstr(part, "..");
}

/* Return true for a name of an organization or repository of Hugging Face. */
static bool is_repo_part(const char *part)
{
    return is_part(part, "-_.", REPO_PART_MAX) && !strstr(part, "--") &&
           !strchr("-.", part[strlen(part) - 1]);
}

/* Return true for REPO or ORG/REPO. */
static bool is_repo(const char *repo)
{
    char org[REPO_PART_MAX + 1];
    const char *slash = strchr(repo, '/');
    if (!slash) return is_repo_part(repo);
    return copy(org, sizeof org, repo, (size_t)(slash - repo)) && is_repo_part(org) &&
           is_repo_part(slash + 1);
}

/* Return true for a branch, tag or commit: parts with slashes between them. */
static bool is_revision(const char *revision)
{
    char part[256];
    for (const char *at = revision;; at++) {
        size_t n = strcspn(at, "/");
        if (!copy(part, sizeof part, at, n) || !is_part(part, "-_.+", sizeof part)) return false;
        at += n;
        if (!*at) return true;
    }
}

/* Read ORG/REPO[:QUANT][@REVISION]. */
static bool read_hf(struct hub_name *out, const char *text)
{
    size_t n = strcspn(text, "@"), n_repo = strcspn(text, ":@");
    const char *revision = text[n] ? text + n + 1 : "main";
    out->kind = HUB_HF;
    if (!copy(out->repo, sizeof out->repo, text, n_repo) || !is_repo(out->repo) ||
        !copy(out->revision, sizeof out->revision, revision, strlen(revision)) ||
        !is_revision(out->revision))
        return false;
    if (n_repo == n) return true;
    return copy(out->quant, sizeof out->quant, text + n_repo + 1, n - n_repo - 1) &&
           is_part(out->quant, "-_.", sizeof out->quant);
}

/* Return true for HOST or HOST:PORT. */
static bool is_host(const char *host)
{
    char name[256];
    size_t n = strcspn(host, ":"), n_port = host[n] ? strlen(host + n + 1) : 1;
    return copy(name, sizeof name, host, n) && is_part(name, "-.", sizeof name) && n_port > 0 &&
           n_port <= 5 && (!host[n] || !host[n + 1 + strspn(host + n + 1, "0123456789")]);
}

/* Read [[HOST/]NAMESPACE/]NAME[:TAG]. */
static bool read_ollama(struct hub_name *out, const char *text)
{
    const char *part[3] = {text}, *end = text + strlen(text);
    int n = 1;
    for (const char *slash = text; (slash = strchr(slash, '/')); part[n++] = ++slash)
        if (n == 3) return false;
    const char *model = part[n - 1], *colon = strchr(model, ':');
    const char *host = n == 3 ? part[0] : OLLAMA_HOST, *space = n > 1 ? part[n - 2] : "library",
               *tag = colon ? colon + 1 : "latest";
    size_t n_host = n == 3 ? (size_t)(part[1] - host) - 1 : strlen(host),
           n_space = n > 1 ? (size_t)(model - space) - 1 : strlen(space);
    out->kind = HUB_OLLAMA;
    return copy(out->host, sizeof out->host, host, n_host) &&
           copy(out->space, sizeof out->space, space, n_space) &&
           copy(out->model, sizeof out->model, model, (size_t)((colon ? colon : end) - model)) &&
           copy(out->tag, sizeof out->tag, tag, strlen(tag)) && is_host(out->host) &&
           is_part(out->space, "-_", OLLAMA_PART_MAX) &&
           is_part(out->model, "-_.", OLLAMA_PART_MAX) && is_part(out->tag, "-_.", OLLAMA_PART_MAX);
}

bool hub_is_name(const char *text)
{
    return strncmp(text, "hf:", 3) == 0 || strncmp(text, "ollama:", 7) == 0;
}

int hub_name_read(struct hub_name *out, const char *text, struct err *e)
{
    *out = (struct hub_name){0};
    if (strncmp(text, "hf:", 3) == 0 && read_hf(out, text + 3)) return 0;
    if (strncmp(text, "ollama:", 7) == 0 && read_ollama(out, text + 7)) return 0;
    return err_set(e, ERR_ARG,
                   "NAME: must be hf:ORG/REPO[:QUANT][@REVISION] or "
                   "ollama:[[HOST/]NAMESPACE/]NAME[:TAG], got \"%.100s\"",
                   text);
}

int hub_name_typed(struct hub_name *out, const char *text, struct err *e)
{
    *out = (struct hub_name){0};
    if (hub_is_name(text)) return hub_name_read(out, text, e);
    return read_ollama(out, text) ? 0
                                  : err_set(e, ERR_ARG,
                                            "NAME: must be [[HOST/]NAMESPACE/]NAME[:TAG] or "
                                            "hf:ORG/REPO[:QUANT][@REVISION], got \"%.100s\"",
                                            text);
}

void hub_name_text(char out[static HUB_NAME_BYTES], const struct hub_name *n)
{
    bool at = strcmp(n->revision, "main") != 0, host = strcmp(n->host, OLLAMA_HOST) != 0,
         space = host || strcmp(n->space, "library") != 0;
    if (n->kind == HUB_HF)
        snprintf(out, HUB_NAME_BYTES, "hf:%s%s%s%s%s", n->repo, *n->quant ? ":" : "", n->quant,
                 at ? "@" : "", at ? n->revision : "");
    else
        snprintf(out, HUB_NAME_BYTES, "ollama:%s%s%s%s%s:%s", host ? n->host : "", host ? "/" : "",
                 space ? n->space : "", space ? "/" : "", n->model, n->tag);
}

void hub_served_name(char out[static HUB_NAME_BYTES], const struct hub_name *n)
{
    char text[HUB_NAME_BYTES];
    hub_name_text(text, n);
    snprintf(out, HUB_NAME_BYTES, "%s", n->kind == HUB_OLLAMA ? strchr(text, ':') + 1 : text);
}

void hub_own_name(char out[static HUB_NAME_BYTES], const struct hub_name *n)
{
    if (n->kind == HUB_HF)
        snprintf(out, HUB_NAME_BYTES, "%s", n->repo);
    else
        hub_served_name(out, n);
}
