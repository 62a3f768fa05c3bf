/* format.c - JSON Schema's formats as patterns; see format.h.
 *
 * Each pattern is the grammar of the RFC that JSON Schema 2020-12 (Validation, section 7.3) names
 * for the format. DATE has the days of each month, with leap years. A host name has at most 253
 * characters (RFC 1123, 2.1). An email address has at most 254 characters (RFC 5321, 4.5.3.1.3,
 * without the brackets of a path). The patterns do not include leap seconds, which expr_leap
 * adds. */
#include "format.h"

#include <stddef.h>
#include <string.h>

#define DATE                                                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-" \
    "9]|30)|02-(?:0[1-9]"                                                                          \
    "|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])"   \
    "00)-02-29)"
#define ZONE "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define H16  "[0-9a-fA-F]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16             \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16       \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOST  LABEL "(?:\\." LABEL ")*"
#define ATEXT "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCT   "%[0-9a-fA-F]{2}"
#define PCHAR "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define AUTHORITY                                                                                  \
    "(?:(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|" PCT ")*@)?(?:\\[" IPV6                                    \
    "\\]|(?:[a-zA-Z0-9._~!$&'()*+,;=-]|" PCT ")*)(?::[0-9]*)?"
#define QUERY    "(?:\\?(?:" PCHAR "|[/?])*)?"
#define FRAGMENT "(?:#(?:" PCHAR "|[/?])*)?"
#define HIER                                                                                       \
    "(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" PCHAR "+(?:/" PCHAR     \
    "*)*|)"
#define URI      "[a-zA-Z][a-zA-Z0-9+.-]*:" HIER QUERY FRAGMENT
#define PCHAR_NC "(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|" PCT ")"
#define RELATIVE                                                                                   \
    "(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" PCHAR_NC "+(?:/" PCHAR  \
    "*)*|)" QUERY FRAGMENT

static const struct {
    const char *name, *pattern; /* static */
} FORMAT[] = {
    {"date-time", "^" DATE "[tT]" TIME ZONE "$"},
    {"date", "^" DATE "$"},
    {"time", "^" TIME ZONE "$"},
    {"duration", "^P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T("
                 "?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|"
                 "[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-"
                 "9]+S)?|[0-9]+S))$"},
    {"email", "^(?:" ATEXT "(?:\\." ATEXT ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")@(?:" HOST
              "|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"uri", "^" URI "$"},
    {"uri-reference", "^(?:" URI "|" RELATIVE ")$"},
    {"json-pointer", "^(?:/(?:[^~/]|~[01])*)*$"},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)$"},
};

const char *format_before_time(const char *name)
{
    if (strcmp(name, "date-time") == 0) return DATE "[tT]";
    return strcmp(name, "time") == 0 ? "" : NULL;
}

uint32_t format_length(const char *name)
{
    if (strcmp(name, "hostname") == 0) return 253;
    return strcmp(name, "email") == 0 ? 254 : 0;
}

const char *format_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof FORMAT / sizeof *FORMAT; i++)
        if (strcmp(FORMAT[i].name, name) == 0) return FORMAT[i].pattern;
    return NULL;
}
