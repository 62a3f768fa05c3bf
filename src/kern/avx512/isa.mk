# AVX-512 with VNNI.
KERN_x86_64  += avx512
ISA_avx512   = $(ISA_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
UNSAN_avx512 := linear linear_float
