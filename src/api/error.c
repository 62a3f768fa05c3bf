/* error.c - the HTTP status of a failed call. The form of the body depends on the dialect. */
#include "api.h"

/* Errors of the client are 400, so that clients do not repeat the request. 429 and 503 permit a
 * repetition. */
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
    case ERR_MEMORY: /* the error is temporary, so a repeated request may succeed */
    case ERR_UNAVAILABLE:
        return 503;
    default:
        return 500;
    }
}
