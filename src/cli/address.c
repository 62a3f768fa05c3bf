/* address.c - read the address of a server in the forms that users write: "localhost:8000", a URL,
 * "unix:PATH". */
#include "cli.h"

#include <stdio.h>
#include <string.h>

int server_address(char *url, size_t n_url, const char *text, struct err *e)
{
    const bool is_unix = strncmp(text, "unix:", 5) == 0;
    const char *scheme = is_unix || strstr(text, "://") ? "" : "http://";
    size_t n = strlen(text);
    while (n > 0 && !is_unix && text[n - 1] == '/') n--;
    if (n == 0) return err_set(e, ERR_ARG, "the server: must not be empty");
    if (n + strlen(scheme) >= n_url)
        return err_set(e, ERR_ARG, "the address has %zu bytes, more than %zu", n,
                       n_url - 1 - strlen(scheme));
    snprintf(url, n_url, "%s%.*s", scheme, (int)n, text);
    return 0;
}
