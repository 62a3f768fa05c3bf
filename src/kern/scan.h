/* scan.h - kinds of recurrences. struct scan_row of kern.h has their arithmetic. This file is part
 * of kern.h. Any thread. */
#ifndef QUOTH_KERN_SCAN_H
#define QUOTH_KERN_SCAN_H

/* DELTA: the gated delta rule ("Gated Delta Networks", arXiv 2412.06464). HEADS: linear attention
 * with a decay per head ("Mamba-2", arXiv 2405.21060). COLUMNS: the selective scan, with a decay
 * per value of the state ("Mamba", arXiv 2312.00752). WKV: a weighted mean of all earlier values,
 * per column ("RWKV", arXiv 2305.13048). WKV_HEADS: linear attention with a factor for the own row
 * ("Eagle and Finch", arXiv 2404.05892). WKV_DELTA: a delta rule with vectors for what it removes
 * and adds ("RWKV-7 Goose", arXiv 2503.14456). */
enum scan_kind {
    SCAN_DELTA,
    SCAN_HEADS,
    SCAN_COLUMNS,
    SCAN_WKV,
    SCAN_WKV_HEADS,
    SCAN_WKV_DELTA,
    SCAN_COUNT
};

#endif
