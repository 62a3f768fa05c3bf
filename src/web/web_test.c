/* Goal: the program contains the whole files of the web page. Method: compare them with the folder
 * if it exists. */
#include "web.h"
#include "../../tests/unit.h"

#include "base/buf.h"
#include "base/os.h"

#include <string.h>

TEST(web_files_are_those_of_the_folder)
{
    static const char *const names[] = {
#define WEB_FILE(file, id, type) file,
#include "web.def"
#undef WEB_FILE
    };
    struct web_file f, page;
    if (!repo_path("src/web/index.html")) SKIP("src/web is not here");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[100];
        struct buf b = {0};
        struct err e;
        NEED(web_find(names[i], &f));
        snprintf(path, sizeof path, "src/web/%s", names[i]);
        NEED_OK(file_read(&b, repo_path(path), 1 << 20, &e), &e);
        EXPECT(f.n == b.n && memcmp(f.data, b.data, b.n) == 0);
        EXPECT(strcmp(f.name, names[i]) == 0);
        buf_deinit(&b);
    }
    NEED(web_find("", &page) && web_find("index.html", &f));
    EXPECT(page.data == f.data);
    EXPECT(!web_find("none", &f) && !web_find("web.c", &f) && !web_find("../web/app.js", &f));
}
