/* digest.c - SHA-256, and git's SHA-1 of a file, by OpenSSL. */
#include "hub_impl.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* git hashes "blob SIZE", a NUL, and the content. */
int digest_open(struct digest *d, const char *hash, uint64_t n_byte, struct err *e)
{
    char head[40];
    bool git = strlen(hash) == 40;
    int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)n_byte) + 1;
    d->context = EVP_MD_CTX_new();
    bool ok = d->context && EVP_DigestInit_ex(d->context, git ? EVP_sha1() : EVP_sha256(), NULL);
    if (ok && (!git || digest_add(d, head, (size_t)n))) return 0;
    digest_close(d);
    return err_memory(e, "a hash", 0);
}

bool digest_add(struct digest *d, const void *data, size_t n)
{
    return EVP_DigestUpdate(d->context, data, n) == 1;
}

bool digest_end(struct digest *d, char out[static HUB_HASH_BYTES])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (EVP_DigestFinal_ex(d->context, raw, &n) != 1 || n > 32) return false;
    for (unsigned i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", raw[i]);
    return true;
}

void digest_close(struct digest *d)
{
    EVP_MD_CTX_free(d->context);
    d->context = NULL;
}
