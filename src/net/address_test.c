/* Goal: a client has the same number for any head of its requests. The clients of a trusted proxy
 * have different numbers. */
#include "net_impl.h"

#include "../../tests/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* Return the address of a text. Return the address of a UNIX socket if the text is not an
 * address. */
static struct address address(const char *text)
{
    struct sockaddr_storage s = {0};
    struct address a;
    if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&s)->sin_addr) == 1)
        s.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&s)->sin6_addr) == 1)
        s.ss_family = AF_INET6;
    else
        s.ss_family = AF_UNIX;
    address_of(&a, &s);
    return a;
}

static uint64_t id(const char *text)
{
    struct address a = address(text);
    return address_id(&a);
}

TEST(net_clients_by_address)
{
    EXPECT(id("10.0.0.1") != 0 && id("unix") != 0);
    EXPECT(id("10.0.0.1") != id("10.0.0.2"));
    EXPECT(id("127.0.0.1") != id("127.0.0.2"));
    EXPECT(id("10.0.0.1") == id("::ffff:10.0.0.1"));
    EXPECT(id("::ffff:10.0.0.1") != id("::ffff:10.0.0.2"));
    EXPECT(id("2001:db8:1:2::1") == id("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    EXPECT(id("2001:db8:1:2::1") != id("2001:db8:1:3::1"));
}

/* Expect the client `want` for a head that `from` sends with these X-Forwarded-For headers. */
static void expect_client(const char *trusted, const char *from, const char *first,
                          const char *second, const char *want)
{
    struct client_networks w;
    struct err e = {0};
    struct head h = {.n_header = 2,
                     .header = {{"x-forwarded-for", first}, {"x-forwarded-for", second}}};
    struct address a = address(from);
    char got[80];
    EXPECT_INT(client_networks_parse(&w, trusted, &e), 0);
    bool other = client_forwarded(&a, &w, &h);
    address_put(got, sizeof got, &a);
    EXPECT_TEXT(got, want);
    EXPECT(other == (strcmp(from, want) != 0));
    client_networks_deinit(&w);
}

TEST(net_clients_behind_proxies)
{
    static const char proxies[] = "10.0.0.0/8, 192.168.1.5,fd00::/8, unix";
    expect_client(NULL, "10.0.0.1", "", "1.2.3.4", "10.0.0.1");
    expect_client(proxies, "11.0.0.1", "", "1.2.3.4", "11.0.0.1");
    expect_client(proxies, "10.0.0.1", "", "1.2.3.4", "1.2.3.4");
    expect_client(proxies, "192.168.1.5", "", "1.2.3.4:99", "1.2.3.4");
    expect_client(proxies, "192.168.1.6", "", "1.2.3.4", "192.168.1.6");
    expect_client(proxies, "fd12::1", "", " [2001:db8::7]:443 ", "2001:db8::7");
    expect_client(proxies, "unix", "", "2001:db8::7", "2001:db8::7");
    /* the client may have forged the addresses to the left */
    expect_client(proxies, "10.0.0.1", "6.6.6.6", "7.7.7.7, 1.2.3.4, 10.9.9.9", "1.2.3.4");
    expect_client(proxies, "10.0.0.1", "6.6.6.6, 1.2.3.4", "10.9.9.9,10.8.8.8", "1.2.3.4");
    expect_client(proxies, "10.0.0.1", "6.6.6.6", "unknown, 10.9.9.9", "10.9.9.9");
    expect_client(proxies, "10.0.0.1", "", "", "10.0.0.1");
    expect_client(proxies, "10.0.0.1", "", ",,,", "10.0.0.1");
    expect_client("*", "11.0.0.1", "", "6.6.6.6, 1.2.3.4", "6.6.6.6");
    expect_client("0.0.0.0/0", "11.0.0.1", "", "6.6.6.6, ::1", "::1");
    expect_client("10.0.0.128/25", "10.0.0.127", "", "1.2.3.4", "10.0.0.127");
    expect_client("10.0.0.128/25", "10.0.0.129", "", "1.2.3.4", "1.2.3.4");
}

TEST(net_trusted_proxies_refused)
{
    static const char *const bad[] = {
        "localhost", "10.0.0.0/33", "10.0.0/8",    "::/129",
        "10.0.0.1/", "10.0.0.1/8x", "1.2.3.4,x",   "**",
        "/8",        "[::1",        "10.0.0.1/-1", "10.0.0.1/9999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct client_networks w;
        struct err e = {0};
        EXPECT_INT(client_networks_parse(&w, bad[i], &e), ERR_ARG);
        client_networks_deinit(&w);
    }
}
