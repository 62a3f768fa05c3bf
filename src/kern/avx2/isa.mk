# AVX2 with FMA and F16C: the level of most x86-64 processors since 2013.
KERN_x86_64 += avx2
ISA_avx2    := -mavx2 -mfma -mf16c
UNSAN_avx2  := linear linear_float
