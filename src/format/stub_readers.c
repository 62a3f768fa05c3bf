/* stub_readers.c - readers that are still to come, for the moment. */
#include "format_impl.h"

int safetensors_load(struct checkpoint *c, const char *path, struct err *e)
{
    (void)c;
    return err_set(e, ERR_UNSUPPORTED, "%s: not yet", path);
}

int hf_load(struct checkpoint *c, const char *dir, struct err *e)
{
    return safetensors_load(c, dir, e);
}

int llama2c_load(struct checkpoint *c, const char *path, struct err *e)
{
    return safetensors_load(c, path, e);
}

bool llama2c_looks_like(const uint8_t *data, size_t n)
{
    (void)data, (void)n;
    return false;
}
