/* Goal: exactly the names that the hubs allow are read. Reading the text of a name gives an equal
 * name. */
#include "hub_impl.h"
#include "../../tests/unit.h"

TEST(hub_names_of_hugging_face)
{
    struct hub_name n;
    struct err e;
    char text[HUB_NAME_BYTES];
    NEED_OK(hub_name_read(&n, "hf:org/repo-1.5_b:Q4_K_M@v1.0", &e), &e);
    EXPECT(n.kind == HUB_HF);
    EXPECT_TEXT(n.repo, "org/repo-1.5_b");
    EXPECT_TEXT(n.quant, "Q4_K_M");
    EXPECT_TEXT(n.revision, "v1.0");
    NEED_OK(hub_name_read(&n, "hf:repo", &e), &e);
    EXPECT_TEXT(n.repo, "repo");
    EXPECT_TEXT(n.quant, "");
    EXPECT_TEXT(n.revision, "main");
    hub_name_text(text, &n);
    EXPECT_TEXT(text, "hf:repo");
    NEED_OK(hub_name_read(&n, "hf:org/repo@refs/pr/1", &e), &e);
    EXPECT_TEXT(n.revision, "refs/pr/1");
    NEED_OK(hub_name_read(&n, "hf:org/repo:some.name.gguf@main", &e), &e);
    hub_name_text(text, &n);
    EXPECT_TEXT(text, "hf:org/repo:some.name.gguf");
}

TEST(hub_names_of_ollama)
{
    struct hub_name n;
    struct err e;
    char text[HUB_NAME_BYTES];
    NEED_OK(hub_name_read(&n, "ollama:llama3.2", &e), &e);
    EXPECT(n.kind == HUB_OLLAMA);
    EXPECT_TEXT(n.host, "registry.ollama.ai");
    EXPECT_TEXT(n.space, "library");
    EXPECT_TEXT(n.model, "llama3.2");
    EXPECT_TEXT(n.tag, "latest");
    NEED_OK(hub_name_read(&n, "ollama:me/x:1b-q4_0", &e), &e);
    hub_name_text(text, &n);
    EXPECT_TEXT(text, "ollama:me/x:1b-q4_0");
    NEED_OK(hub_name_read(&n, "ollama:host.example:5000/library/x", &e), &e);
    EXPECT_TEXT(n.host, "host.example:5000");
    hub_name_text(text, &n);
    EXPECT_TEXT(text, "ollama:host.example:5000/library/x:latest");
}

TEST(hub_names_that_are_refused)
{
    static const char *const bad[] = {
        "",
        "org/repo",
        "hf:",
        "hf:/",
        "hf:a/",
        "hf:/a",
        "hf:a/b/c",
        "hf:..",
        "hf:a/..",
        "hf:../a",
        "hf:a..b/c",
        "hf:a--b/c",
        "hf:-a/b",
        "hf:a/b-",
        "hf:a/b.",
        "hf:.a/b",
        "hf:a/b:",
        "hf:a/b:x/y",
        "hf:a/b:..",
        "hf:a/b@",
        "hf:a/b@/",
        "hf:a/b@x/",
        "hf:a/b@/x",
        "hf:a/b@x//y",
        "hf:a/b@..",
        "hf:a/b@-x",
        "hf:a/b@x/../y",
        "hf:a/b@x\ny",
        "hf:a b/c",
        "hf:a/b\x7f",
        "hf:a\\b",
        "hf:a/b:Q4@x@y",
        "ollama:",
        "ollama:a:",
        "ollama::a",
        "ollama:/a",
        "ollama:a/b/c/d",
        "ollama:a//b",
        "ollama:../a",
        "ollama:a/..",
        "ollama:a:..",
        "ollama:a:b/c",
        "ollama:a:b:c",
        "ollama:.a",
        "ollama:a.b/c",
        "ollama:h:/a/b",
        "ollama:h:99999999/a/b",
        "ollama:h:1x/a/b",
        "ollama:a b",
    };
    struct hub_name n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hub_name_read(&n, bad[i], NULL) != ERR_ARG) test_fail(__FILE__, __LINE__, "%s", bad[i]);
}

TEST(hub_names_as_clients_type_them)
{
    static const char *const names[][3] = {
        {"x", "x:latest", "x:latest"},
        {"x:1b", "x:1b", "x:1b"},
        {"library/x", "x:latest", "x:latest"},
        {"registry.ollama.ai/library/x:latest", "x:latest", "x:latest"},
        {"ollama:me/x", "me/x:latest", "me/x:latest"},
        {"hf.co/org/x:Q4", "hf.co/org/x:Q4", "hf.co/org/x:Q4"},
        {"hf:org/x:Q4", "hf:org/x:Q4", "org/x"},
        {"hf:org/x@v1", "hf:org/x@v1", "org/x"},
    };
    static const char *const bad[] = {"", "..", "../x", "a/../b", "/x", "a/b/c/d", "hf:", "a b"};
    struct hub_name n;
    struct err e;
    char text[HUB_NAME_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        NEED_OK(hub_name_typed(&n, names[i][0], &e), &e);
        hub_served_name(text, &n);
        EXPECT_TEXT(text, names[i][1]);
        hub_own_name(text, &n);
        EXPECT_TEXT(text, names[i][2]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hub_name_typed(&n, bad[i], NULL) != ERR_ARG)
            test_fail(__FILE__, __LINE__, "%s", bad[i]);
}

TEST(hub_places_of_names)
{
    struct hub_name n;
    struct err e;
    char path[HUB_PATH_BYTES];
    NEED_OK(hub_name_read(&n, "hf:org/repo", &e), &e);
    NEED_OK(hf_folder(path, "/c", &n, &e), &e);
    EXPECT_TEXT(path, "/c/models--org--repo");
    NEED_OK(hub_name_read(&n, "hf:repo", &e), &e);
    NEED_OK(hf_folder(path, "/c", &n, &e), &e);
    EXPECT_TEXT(path, "/c/models--repo");
    NEED_OK(hub_name_read(&n, "ollama:x:y", &e), &e);
    NEED_OK(manifest_path(path, "/s", &n, &e), &e);
    EXPECT_TEXT(path, "/s/manifests/registry.ollama.ai/library/x/y");
}
