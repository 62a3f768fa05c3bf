/* levels.h - kern_levels, for tests of rooms that do not use kern themselves. The test's thread
 * only. */
#ifndef QUOTH_TESTS_LEVELS_H
#define QUOTH_TESTS_LEVELS_H

#include "kern/kern.h"

#endif
