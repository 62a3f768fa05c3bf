/* scan.h - kinds of recurrences. struct scan_row of kern.h has their arithmetic. This file is part
 * of kern.h. Any thread. */
#ifndef QUOTH_KERN_SCAN_H
#define QUOTH_KERN_SCAN_H

/* DELTA: the gated delta rule ("Gated Delta Networks", arXiv 2412.06464). HEADS: linear attention
 * with a decay per head ("Mamba-2", arXiv 2405.21060). COLUMNS: the selective scan, with a decay
 * per value of the state ("Mamba", arXiv 2312.00752). */
enum scan_kind { SCAN_DELTA, SCAN_HEADS, SCAN_COLUMNS, SCAN_COUNT };

#endif
