/* llama2c.c - read llama2.c's tokenizer.bin: the length of the longest piece (i32), then score
 * (f32), length (i32) and bytes of each piece.
 *
 * The file was exported from a SentencePiece BPE model. Id 0 is the unknown token, id 1 is BOS, and
 * id 2 is EOS (spelled "\n<s>\n"). Ids 3 to 258 are bytes. The file contains a space for each "▁".
 * The reader restores the "▁". */
#include "token_impl.h"

#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20, FIRST_BYTE = 3, N_BYTE = 256 };

static uint32_t read_u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Return the kind of a piece. The id determines the kind, because the file contains no kinds. */
static enum piece_kind kind_of(size_t id)
{
    if (id == 0) return PIECE_UNKNOWN;
    if (id < FIRST_BYTE) return PIECE_CONTROL;
    return id < FIRST_BYTE + N_BYTE ? PIECE_BYTE : PIECE_NORMAL;
}

/* Add a piece. Replace the spellings of ids 0 to 2 by the usual spellings. */
static int put_piece(struct tokenizer *t, const char *p, size_t n, float score, struct buf *text,
                     struct err *e)
{
    static const char *const fixed[] = {"<unk>", "<s>", "</s>"};
    size_t id = t->n_piece;
    buf_clear(text);
    if (id < FIRST_BYTE) {
        buf_add_text(text, fixed[id]);
    } else {
        for (size_t i = 0; i < n; i++) {
            if (p[i] == ' ')
                buf_add_text(text, SPACE_MARK);
            else
                buf_add_char(text, p[i]);
        }
    }
    if (text->failed) return err_memory(e, "a piece", n);
    int rc = tokenizer_put(t, id, text->n ? text->data : "", text->n, kind_of(id), score, e);
    if (rc == 0 && id < FIRST_BYTE) t->piece[id].match = MATCH_RAW;
    return rc;
}

/* Read all pieces. The file has no number of pieces: the last piece ends at the end of the file. */
static int read_pieces(struct tokenizer *t, const struct buf *file, struct err *e)
{
    struct buf text = {0};
    int rc = 0;
    size_t at = 4;
    while (rc == 0 && at + 8 <= file->n) {
        uint32_t bits = read_u32(file->data + at), n = read_u32(file->data + at + 4);
        float score;
        memcpy(&score, &bits, sizeof score);
        at += 8;
        if (n > file->n - at) {
            rc = err_set(e, ERR_FORMAT, "piece %zu: the file gives it %u bytes, but %zu are left",
                         t->n_piece, n, file->n - at);
            break;
        }
        rc = put_piece(t, file->data + at, n, score, &text, e);
        at += n;
    }
    buf_deinit(&text);
    if (rc == 0 && (at != file->n || t->n_piece < FIRST_BYTE))
        rc = err_set(e, ERR_FORMAT, "expected the end after %zu pieces, got byte %zu of %zu",
                     t->n_piece, at, file->n);
    return rc;
}

int llama2c_read(struct tokenizer *t, const char *path, struct err *e)
{
    struct buf file = {0};
    int rc = file_read(&file, path, FILE_BYTES_MAX, e);
    if (rc == 0) rc = read_pieces(t, &file, e);
    buf_deinit(&file);
    if (rc != 0) return err_prefix(e, rc, "%s", path);
    t->kind = &token_kind_spm;
    t->opt = (struct token_options){.space_mark = true,
                                    .byte_fallback = true,
                                    .merges_by_score = true,
                                    .drop_lead_space = true};
    t->unk = 0, t->bos = 1, t->eos = 2;
    t->prefix[t->n_prefix++] = t->bos;
    struct norm_step *s = tokenizer_add_norm(t, norm_sentencepiece);
    if (!s) return err_memory(e, "a normalizer", sizeof *s);
    s->flags = SP_PREFIX | SP_ESCAPE | SP_KEEP;
    return 0;
}
