/* error.c - a failed call in HTTP. The rest of the failure's form is the dialect's. */
#include "api.h"

int api_status(int rc)
{
    switch (rc) {
    case 0:
        return 200;
    case ERR_ARG:
    case ERR_LIMIT:
    case ERR_FORMAT:
    case ERR_UNSUPPORTED:
        return 400;
    case ERR_MISSING:
        return 404;
    case ERR_BUSY:
        return 429;
    case ERR_MEMORY: /* temporary: the same request may succeed later */
        return 503;
    default:
        return 500;
    }
}
