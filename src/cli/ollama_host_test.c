/* Goal: every form of OLLAMA_HOST gives the address that Ollama uses. Other texts are errors. */
#include "cli.h"

#include "../../tests/unit.h"

TEST(ollama_host_forms)
{
    static const struct {
        const char *text, *host;
        int port; /* -1: an error */
    } c[] = {
        {NULL, "127.0.0.1", 11434},
        {"", "127.0.0.1", 11434},
        {"0.0.0.0", "0.0.0.0", 11434},
        {"example.org:56789", "example.org", 56789},
        {":1234", "127.0.0.1", 1234},
        {"http://1.2.3.4", "1.2.3.4", 80},
        {"https://1.2.3.4", "1.2.3.4", 443},
        {"http://1.2.3.4:11434/api", "1.2.3.4", 11434},
        {"[::1]", "::1", 11434},
        {"[::1]:99", "::1", 99},
        {"a:0", "a", 0},
        {"a:65536", "", -1},
        {"a:", "", -1},
        {"a:b", "", -1},
        {"a:1b", "", -1},
        {"[]:9", "", -1},
        {"[::1", "", -1},
        {"[::1]9", "", -1},
        {"::1", "", -1},
    };
    char host[OLLAMA_HOST_BYTES];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct err e = {0};
        int port = 0;
        const int rc = ollama_address(host, &port, c[i].text, &e);
        if ((rc != 0) != (c[i].port < 0))
            test_fail(__FILE__, __LINE__, "%s: %d %s", c[i].text ? c[i].text : "", rc, e.text);
        if (rc != 0) continue;
        EXPECT_TEXT(host, c[i].host);
        EXPECT_INT(port, c[i].port);
    }
    char text[600];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    struct err e = {0};
    int port;
    EXPECT_INT(ollama_address(host, &port, text, &e), ERR_ARG);
}
