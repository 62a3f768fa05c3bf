/* cancel.c - see cancel.h. */
#include "cancel.h"

_Thread_local const atomic_bool *cancel_flag;
_Thread_local int64_t cancel_at_us;
