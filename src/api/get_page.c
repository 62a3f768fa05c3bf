/* get_page.c - GET / and /page/{name}: the web page (src/web). Reading the page needs no key, but
 * its requests to the API need a key. The page's policy lets browsers run only its own scripts,
 * load no data from other hosts, and show it in no frame. With --ollama, "/" is a text for clients
 * that do not accept HTML. */
#include "server_impl.h"

#include "web/web.h"

#include <string.h>

static const char policy[] = "default-src 'self'; base-uri 'none'; form-action 'none'; "
                             "frame-ancestors 'none'; object-src 'none'";

/* Return true if the client may test for a running Ollama. A browser accepts HTML. */
static bool is_probe(const struct server *s, const struct exchange *x)
{
    const char *accept = exchange_header(x, "accept");
    return s->o.ollama && !exchange_param(x) && !(accept && strstr(accept, "text/html"));
}

void get_page(struct exchange *x, void *server)
{
    static const char running[] = "Ollama is running";
    struct web_file f;
    const char *name = exchange_param(x);
    if (is_probe(server, x)) {
        exchange_reply(x, 200, "text/plain; charset=utf-8", running, sizeof running - 1);
        return;
    }
    if (!web_find(name ? name : "", &f)) {
        exchange_error(x, &(struct net_error){.status = 404}, "the page has no such file");
        return;
    }
    exchange_add_header(x, "Content-Security-Policy", policy);
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Cache-Control", "no-cache");
    exchange_reply(x, 200, f.type, f.data, f.n);
}
