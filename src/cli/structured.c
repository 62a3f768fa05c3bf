/* structured.c - settings for the JSON that constraints produce. The settings are flags of quoth
 * run and of a server. In a server they apply to all requests. vLLM's --structured-outputs-config
 * is an object with the same settings.
 *
 * The server reads the flags once (structured_read). A constraint of a request can only make its
 * own JSON stricter than these settings. */
#include "answer.h"

#include "base/log.h"

#include <string.h>

static bool compact, closed, in_reasoning;
static const char *config;
/* the parsed config is never freed, because options borrow its names */
static struct json *config_read;

static int config_form(const char *text, struct err *e);

const struct option structured_options[] = {
    FLAG_OPTION("disable-any-whitespace", &compact,
                "omit white space between JSON tokens of constrained answers, which saves tokens"),
    FLAG_OPTION("disable-additional-properties", &closed,
                "allow only the members of a schema in objects, unless the schema allows others"),
    OPTIONS_END,
};

const struct option structured_server_options[] = {
    OPTIONS_OF(structured_options),
    FORM_OPTION("structured-outputs-config", "JSON", &config, config_form,
                "vLLM's settings of constraints, e.g. {\"disable_any_whitespace\": true}"),
    OPTIONS_END,
};

/* Set *out to a boolean member. */
static int config_flag(bool *out, const char *name, const struct json *value, struct err *e)
{
    if (json_kind(value) != JK_BOOL)
        return err_set(e, ERR_ARG, ".%s: expected true or false, got %s", name,
                       json_kind_name(json_kind(value)));
    *out = json_bool(value, false);
    return 0;
}

/* Accept the members of vLLM's object. Members for backends have no effect, because quoth has one
 * backend and no fallback. */
static int config_member(const char *name, const struct json *value, struct err *e)
{
    bool ignored = false;
    if (strcmp(name, "disable_any_whitespace") == 0) return config_flag(&compact, name, value, e);
    if (strcmp(name, "disable_additional_properties") == 0)
        return config_flag(&closed, name, value, e);
    if (strcmp(name, "disable_fallback") == 0) return config_flag(&ignored, name, value, e);
    if (strcmp(name, "enable_in_reasoning") == 0) return config_flag(&in_reasoning, name, value, e);
    const char *text = json_text(value, NULL);
    bool backend = strcmp(name, "backend") == 0;
    if (!backend && strcmp(name, "reasoning_parser") != 0)
        return err_set(e, ERR_ARG, ".%.40s: unknown member", name);
    if (!text)
        return err_set(e, ERR_ARG, ".%s: expected a string, got %s", name,
                       json_kind_name(json_kind(value)));
    const char *own = session_flags.reasoning_parser;
    if (backend || !*text) return 0;
    if (own && strcmp(own, text) != 0)
        return err_set(e, ERR_ARG, ".%s: must be \"%.60s\" as --reasoning-parser, got \"%.60s\"",
                       name, own, text);
    session_flags.reasoning_parser = text;
    return 0;
}

/* Parse the object and store its members. This form of the flag also stores the values, because
 * they set other flags. A null member is not set. */
static int config_form(const char *text, struct err *e)
{
    json_drop(config_read);
    int rc = json_parse(&config_read, text, strlen(text), NULL, e);
    if (rc == 0 && json_kind(config_read) != JK_OBJECT)
        rc = err_set(e, ERR_ARG, "expected an object, got %s",
                     json_kind_name(json_kind(config_read)));
    for (void *it = rc == 0 ? json_first(config_read) : NULL; it && rc == 0;
         it = json_next(config_read, it))
        if (json_kind(json_it_value(it)) != JK_NULL)
            rc = config_member(json_it_key(it, NULL), json_it_value(it), e);
    return rc;
}

/* Log the name of another engine's backend, because it has no effect. */
void structured_read(struct api *a)
{
    const char *backend = json_text(json_field(config_read, "backend"), NULL);
    a->no_white_space = compact;
    a->no_additional = closed;
    a->constrain_reasoning = in_reasoning;
    if (backend)
        log_info("backend %s of --structured-outputs-config has no effect: quoth has one backend",
                 backend);
}
