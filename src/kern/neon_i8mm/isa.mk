# Armv8.2 with dot products and matrix products of bytes.
KERN_aarch64    += neon_i8mm
ISA_neon_i8mm   = $(ISA_neon)+i8mm
UNSAN_neon_i8mm := linear
