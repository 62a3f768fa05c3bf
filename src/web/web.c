/* web.c - the files of the web page, which the assembler copies into the program. The names are
 * relative to the root of the repository, in which make compiles. */
#include "web.h"

#include <string.h>

#define WEB_FILE(file, id, type)                                                                   \
    __asm__(".pushsection .rodata\n"                                                               \
            ".hidden web_" #id ", web_" #id "_end\n"                                               \
            ".global web_" #id ", web_" #id "_end\n"                                               \
            "web_" #id ": .incbin \"src/web/" file "\"\n"                                          \
            "web_" #id "_end: .byte 0\n"                                                           \
            ".popsection\n");                                                                      \
    extern const char web_##id[], web_##id##_end[];
#include "web.def"
#undef WEB_FILE

static const struct {
    const char *name, *type, *data, *end;
} files[] = {
#define WEB_FILE(file, id, type) {file, type, web_##id, web_##id##_end},
#include "web.def"
#undef WEB_FILE
};

bool web_find(const char *name, struct web_file *f)
{
    if (!*name) name = files[0].name;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(name, files[i].name) != 0) continue;
        *f = (struct web_file){.name = files[i].name,
                               .type = files[i].type,
                               .data = files[i].data,
                               .n = (size_t)(files[i].end - files[i].data)};
        return true;
    }
    return false;
}
