/* utf8_width.c - the width of a code point. This file is separate from utf8.c, because utf8.c needs
 * no library. */
#include "utf8.h"

#include <utf8proc.h>

int utf8_width(uint32_t cp)
{
    return utf8proc_charwidth((utf8proc_int32_t)cp);
}
