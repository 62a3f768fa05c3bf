/* utf8_width.c - the width of a code point. Only this file needs a library, so it is separate from
 * utf8.c. */
#include "utf8.h"

#include <utf8proc.h>

int utf8_width(uint32_t cp)
{
    return utf8proc_charwidth((utf8proc_int32_t)cp);
}
