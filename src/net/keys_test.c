/* Goal: keys are found, rejected and counted. Foreign hosts and origins are rejected, and routes
 * match their paths. Method: use fixed texts and times. */
#include "net_impl.h"
#include "../../tests/unit.h"

#include <stdlib.h>

TEST(net_keys_from_a_file)
{
    static const char text[] = "# keys\n\nsk-one name=alice rate=120 share=2.5 # comment\r\n"
                               "\tsk-two role=admin\n";
    struct net_keys k = {0};
    struct err e = {0};
    NEED_OK(net_keys_parse(&k, text, strlen(text), "f", &e), &e);
    EXPECT_INT(k.n, 2);
    struct net_key *one = net_keys_find(&k, "sk-one", 6);
    NEED(one && !net_keys_find(&k, "sk-on", 5) && !net_keys_find(&k, "sk-onf", 6));
    EXPECT(!net_keys_find(&k, "", 0) && net_keys_find(&k, "sk-two", 6) == &k.v[1]);
    EXPECT_TEXT(one->name, "alice");
    EXPECT(one->per_minute == 120 && one->share == 2.5);
    EXPECT_TEXT(k.v[1].name, "key2");
    EXPECT(k.v[1].admin && !one->admin);
    net_keys_deinit(&k);
}

TEST(net_keys_refused)
{
    static const char *const bad[] = {
        "a\na\n",          "a rate=x\n", "a rate=-1",   "a share=nan",
        "a share=0",       "a name=",    "a b",         "a rate=inf",
        "\x7f\n",          "a role=",    "a role=root", "a share=1e-300",
        "a name=x\x1b[2J", "a share=1e7"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct net_keys k = {0};
        struct err e = {0};
        EXPECT(net_keys_parse(&k, bad[i], strlen(bad[i]), "keys", &e) < 0);
        EXPECT(strncmp(e.text, "keys:", 5) == 0);
        net_keys_deinit(&k);
    }
    struct net_keys k = {0};
    char longest[258];
    memset(longest, 'x', sizeof longest);
    longest[256] = 0;
    EXPECT_INT(net_keys_add(&k, longest, NULL, NULL), 0);
    EXPECT(net_keys_find(&k, longest, 256));
    longest[256] = 'x', longest[257] = 0;
    EXPECT(net_keys_add(&k, longest, NULL, NULL) < 0 && !net_keys_find(&k, longest, 257));
    net_keys_deinit(&k);
}

TEST(net_keys_have_a_rate)
{
    struct net_key key = {.per_minute = 60};
    int n = 0;
    for (int i = 0; i < 100; i++) n += key_wait_s(&key, 1000000) == 0;
    EXPECT_INT(n, 60); /* all requests of a minute may arrive together */
    EXPECT_INT(key_wait_s(&key, 1000000), 1);
    EXPECT_INT(key_wait_s(&key, 2000000), 0); /* the bucket has one more request after a second */
    EXPECT_INT(key_wait_s(&key, 2000000), 1);
    struct net_key slow = {.per_minute = 0.5};
    EXPECT_INT(key_wait_s(&slow, 1), 0);
    EXPECT_INT(key_wait_s(&slow, 1), 120);
    struct net_key hardly = {.per_minute = 1e-300};
    EXPECT_INT(key_wait_s(&hardly, 1), 0);
    EXPECT_INT(key_wait_s(&hardly, 1), 86400); /* the seconds would exceed an int */
    struct net_key any = {0};
    EXPECT_INT(key_wait_s(&any, 1), 0);
}

TEST(net_guards_loopback)
{
    static const char *const own[] = {"https://app.example"}, *const name[] = {"box.lan"};
    struct guard g = {.loopback = true, .origin = own, .n_origin = 1, .host = name, .n_host = 1};
    static const char *const good[] = {"localhost",  "LOCALHOST:8000", "127.0.0.1:1",
                                       "127.9.9.9",  "[::1]:8000",     "a.localhost",
                                       "box.lan:80", "[0:0::1]",       "[::ffff:127.0.0.1]:1"};
    static const char *const bad[] = {"evil.example",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil",
                                      "",
                                      "[::1",
                                      "localhost:80x",
                                      "10.0.0.1",
                                      "localhost@evil",
                                      ".localhost.x",
                                      "[::2]",
                                      "[]",
                                      "[::1]x",
                                      "[::ffff:10.0.0.1]",
                                      "[::1%lo]",
                                      "::1",
                                      "[localhost]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) EXPECT(guard_host(&g, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) EXPECT(!guard_host(&g, bad[i]));
    EXPECT(guard_host(&g, NULL)); /* HTTP/1.0 has no Host; browsers always send Host */
    EXPECT(guard_origin(&g, NULL, "localhost"));
    EXPECT(guard_origin(&g, "http://localhost:3000", "localhost:8000"));
    EXPECT(guard_origin(&g, "https://app.example", "localhost:8000"));
    EXPECT(guard_origin(&g, "http://box.lan:80", "box.lan:80"));
    EXPECT(!guard_origin(&g, "https://evil.example", "localhost:8000"));
    EXPECT(!guard_origin(&g, "null", "localhost:8000"));
    EXPECT(!guard_origin(&g, "http://localhost.evil.example", "localhost"));
    g.loopback = false;
    EXPECT(guard_host(&g, "evil.example") && !guard_origin(&g, "http://evil.example", "me"));
}

static const struct net_route routes[] = {
    {.method = "GET", .path = "/models"},
    {.method = "GET", .path = "/models/{id}"},
    {.method = "POST", .path = "/models"},
    {.method = "POST", .path = "/r/{id}/cancel"},
};

TEST(net_routes)
{
    static const struct {
        const char *method, *path;
        int route;
        const char *param, *allow;
    } c[] = {
        {"GET", "/models", 0, NULL, ""},
        {"HEAD", "/models", 0, NULL, ""},
        {"POST", "/models", 2, NULL, "GET"},
        {"PUT", "/models", -1, NULL, "GET, POST"},
        {"GET", "/models/org/name", 1, "org/name", ""},
        {"GET", "/models/", 0, NULL, ""},
        {"GET", "/models//", 1, "/", ""},
        {"POST", "/r/7/cancel", 3, "7", ""},
        {"POST", "/r/7/8/cancel", -1, NULL, ""},
        {"GET", "/", -1, NULL, ""},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct buf allow = {0};
        char *param = NULL;
        const struct net_route *r = route_find(routes, 4, c[i].method, c[i].path, &param, &allow);
        EXPECT_INT(r ? r - routes : -1, c[i].route);
        if (c[i].param) EXPECT_TEXT(param, c[i].param);
        if (!r) EXPECT_TEXT(allow.data ? allow.data : "", c[i].allow);
        buf_deinit(&allow);
        free(param);
    }
}
