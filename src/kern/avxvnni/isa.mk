# AVX2 and the dot products of bytes of AVX-VNNI.
KERN_x86_64   += avxvnni
ISA_avxvnni   = $(ISA_avx2) -mavxvnni
UNSAN_avxvnni := linear
