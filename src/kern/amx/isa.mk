# AMX: tiles of bytes and bf16.
KERN_x86_64 += amx
ISA_amx     = $(ISA_avx512x) -mamx-tile -mamx-int8 -mamx-bf16
UNSAN_amx   := spans planes
