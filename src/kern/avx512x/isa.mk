# AVX-512 with BF16 and VBMI.
KERN_x86_64   += avx512x
ISA_avx512x   = $(ISA_avx512) -mavx512bf16 -mavx512vbmi
UNSAN_avx512x := linear
