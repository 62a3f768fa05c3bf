/* utf8_width.c - the columns of a code point; separate from utf8.c, which needs no library. */
#include "utf8.h"

#include <utf8proc.h>

int utf8_width(uint32_t cp)
{
    return utf8proc_charwidth((utf8proc_int32_t)cp);
}
