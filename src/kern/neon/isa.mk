# Armv8.2 with dot products.
KERN_aarch64 += neon
ISA_neon     := -march=armv8.2-a+dotprod
UNSAN_neon   := linear linear_float
