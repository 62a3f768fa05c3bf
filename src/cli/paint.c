/* paint.c - an answer's text on a terminal, wrapped at words, with rendered Markdown; see paint.h.
 *
 *   paint_glyph --line begins--> lead: fence, heading, list or text
 *                                  --> inline marks (** ` \) --> word --> the screen
 *
 * A word is written when it is complete, so no text on the screen is ever removed. This works on
 * every terminal and after every resize. Blocks of code are written immediately and are never
 * wrapped. A style without a closing mark ends at the end of its line. Each wide character (CJK) is
 * a word. */
#include "paint.h"

#include "base/utf8.h"

#include <ctype.h>
#include <string.h>

enum { LEAD_MAX = 40, TAB_WIDTH = 8 };

static const char bold_on[] = "\033[1m", bold_off[] = "\033[22m", code_on[] = "\033[36m",
                  code_off[] = "\033[39m";

/* ---- the screen ---- */

/* Write the pending word and the gap before it. A word that does not fit into the row begins a new
 * row after the hanging indent, without the gap. */
static void write_word(struct paint *p)
{
    bool full = p->width > 0 && p->column + p->gap + p->n_word > p->width;
    if (full && p->n_word > 0 && p->column > p->hang) {
        fprintf(p->out, "\n%*s", p->hang, "");
        p->column = p->hang;
        p->gap = 0;
    }
    if (p->n_word > 0 && p->gap > 0) {
        fprintf(p->out, "%*s", p->gap, "");
        p->column += p->gap;
        p->gap = 0;
    }
    if (p->word.n) fwrite(p->word.data, 1, p->word.n, p->out);
    p->column += p->n_word;
    p->n_word = 0;
    buf_clear(&p->word);
}

/* Append a style. A style takes no columns, and is written together with the glyph that it begins
 * or ends with. */
static void put_style(struct paint *p, const char *style)
{
    buf_add_text(&p->word, style);
}

/* Add a glyph to the word. A blank ends the word. A word longer than a row is written in parts. */
static void put_glyph(struct paint *p, uint32_t glyph)
{
    int width = utf8_width(glyph), max = p->width > p->hang ? p->width - p->hang : 0;
    if (glyph == ' ' || glyph == '\t') {
        write_word(p);
        p->gap += glyph == ' ' ? 1 : TAB_WIDTH - (p->column + p->gap) % TAB_WIDTH;
        return;
    }
    if (width == 2 || (p->width > 0 && p->n_word + width > max)) write_word(p);
    buf_add_utf8(&p->word, glyph);
    p->n_word += width;
    if (width == 2) write_word(p);
}

/* End the row. The next row begins without the hanging indent of a list. */
static void put_newline(struct paint *p)
{
    write_word(p);
    fputc('\n', p->out);
    p->column = p->gap = p->hang = 0;
}

/* Write a glyph of a block of code immediately, even past the end of the row. */
static void put_code(struct paint *p, uint32_t glyph)
{
    buf_add_utf8(&p->word, glyph);
    if (p->word.n) fwrite(p->word.data, 1, p->word.n, p->out);
    buf_clear(&p->word);
}

/* ---- marks inside a line ---- */

/* Return true for a blank, and for 0, the end of a line. */
static bool is_space(uint32_t glyph)
{
    return glyph == 0 || glyph == ' ' || glyph == '\t' || glyph == '\n';
}

/* Return true for ASCII letters, digits and '_'. Two stars after one of these glyphs do not begin
 * bold text, as in 2**3. */
static bool is_letter(uint32_t glyph)
{
    return glyph < 0x80 && (isalnum((int)glyph) || glyph == '_');
}

/* Write pending marks as text, because they do not begin or end a style. */
static void put_marks(struct paint *p)
{
    for (int i = 0; i < p->n_mark; i++) put_glyph(p, (uint8_t)p->mark);
}

/* Return true if two stars begin bold text (before a word) or end it (after a word). */
static bool decide_bold(struct paint *p, uint32_t next)
{
    bool closes = p->bold && !is_space(p->before),
         opens = !p->bold && !is_space(next) && !is_letter(p->before);
    if (p->n_mark != 2 || (!closes && !opens)) return false;
    p->bold = opens;
    put_style(p, p->bold || p->heading ? bold_on : bold_off);
    return true;
}

/* Begin or end code. Code ends with as many backticks as it began with. */
static bool decide_code(struct paint *p)
{
    if (p->n_mark > 2 || (p->code && p->code != p->n_mark)) return false;
    p->code = p->code ? 0 : p->n_mark;
    put_style(p, p->code ? code_on : code_off);
    return true;
}

/* Convert the pending marks to a style or to text. The next glyph (0: end of the line) determines
 * which. */
static void apply_marks(struct paint *p, uint32_t next)
{
    if (!p->mark) return;
    bool style = p->mark == '*'   ? decide_bold(p, next)
                 : p->mark == '`' ? decide_code(p)
                                  : next < 0x80 && ispunct((int)next);
    if (!style) put_marks(p);
    p->before = (uint8_t)p->mark;
    p->mark = 0;
    p->n_mark = 0;
}

/* Process a glyph inside a line. Marks wait in p->mark until the next glyph determines their
 * meaning. Inside code only backticks are marks. */
static void put_inline(struct paint *p, uint32_t glyph)
{
    bool escaped = p->mark == '\\' && glyph < 0x80 && ispunct((int)glyph);
    if (p->mark && (glyph != (uint8_t)p->mark || escaped)) apply_marks(p, glyph);
    bool marks = glyph == '`' || (!p->code && (glyph == '*' || glyph == '\\'));
    if (marks && !escaped) {
        p->mark = (char)glyph;
        p->n_mark++;
        return;
    }
    put_glyph(p, glyph);
    p->before = glyph;
}

/* End all styles of the line, because a model may omit a closing mark. */
static void end_styles(struct paint *p)
{
    apply_marks(p, 0);
    if (p->bold || p->heading) put_style(p, bold_off);
    if (p->code) put_style(p, code_off);
    p->bold = p->heading = false;
    p->code = 0;
    p->before = 0;
}

/* ---- the beginning of a line ---- */

/* Kinds of lines. LEAD_MORE: the kind depends on further bytes. */
enum lead { LEAD_MORE, LEAD_TEXT, LEAD_FENCE, LEAD_HEADING, LEAD_BULLET, LEAD_NUMBER };

/* Return the kind of n bytes at the beginning of a line. Set *at to the number of leading
 * blanks. */
static enum lead read_lead(const struct paint *p, size_t *at)
{
    const char *s = p->lead.data;
    size_t n = p->lead.n, i = 0;
    while (i < n && s[i] == ' ') i++;
    *at = i;
    if (i == n) return n < LEAD_MAX ? LEAD_MORE : LEAD_TEXT;
    size_t begin = i;
    if (s[i] == '`') {
        while (i < n && s[i] == '`') i++;
        return i - begin >= 3 ? LEAD_FENCE : i == n ? LEAD_MORE : LEAD_TEXT;
    }
    if (p->fenced) return LEAD_TEXT;
    enum lead is = s[i] == '#' ? LEAD_HEADING : strchr("-*+", s[i]) ? LEAD_BULLET : LEAD_NUMBER;
    if (is == LEAD_HEADING)
        while (i < n && s[i] == '#' && i - begin < 6) i++;
    else if (is == LEAD_BULLET)
        i++;
    else {
        while (i < n && isdigit((unsigned char)s[i]) && i - begin < 4) i++;
        if (i == begin) return LEAD_TEXT;
        if (i < n && (s[i] == '.' || s[i] == ')'))
            i++;
        else if (i < n)
            return LEAD_TEXT;
    }
    if (i == n) return LEAD_MORE;
    return s[i] == ' ' ? is : LEAD_TEXT;
}

/* Write the bytes of the lead from byte `from`, because they are text. */
static void put_lead_text(struct paint *p, size_t from)
{
    for (size_t i = from; i < p->lead.n;) {
        uint32_t glyph;
        int n = utf8_decode(p->lead.data + i, p->lead.n - i, &glyph);
        if (n <= 0) break;
        if (p->fenced)
            put_code(p, glyph);
        else
            put_inline(p, glyph);
        i += (size_t)n;
    }
}

/* Begin a line of the kind. The line of a fence is not shown (swallow). Later rows of a list item
 * are indented to its text (hang). */
static void begin_line(struct paint *p, enum lead is, size_t at)
{
    p->inside = true;
    if (is == LEAD_FENCE) {
        p->swallow = true;
        p->fenced = !p->fenced;
        fputs(p->fenced ? code_on : code_off, p->out);
    } else if (is == LEAD_HEADING) {
        p->heading = true;
        put_style(p, bold_on);
    } else if (is == LEAD_BULLET) {
        p->gap = (int)at;
        put_glyph(p, 0x2022);
        put_glyph(p, ' ');
        p->hang = (int)at + 2;
    } else {
        put_lead_text(p, 0);
        p->hang = is == LEAD_NUMBER ? (int)p->lead.n : 0;
    }
    buf_clear(&p->lead);
}

/* Handle the end of a line of unknown kind. */
static void end_lead(struct paint *p)
{
    size_t at;
    if (!p->inside && p->lead.n)
        begin_line(p, read_lead(p, &at) == LEAD_FENCE ? LEAD_FENCE : LEAD_TEXT, 0);
}

/* End a line. All styles end, except the colour of a block of code. */
static void end_line(struct paint *p)
{
    end_lead(p);
    if (!p->fenced) end_styles(p);
    if (!p->swallow) put_newline(p);
    p->inside = p->swallow = false;
}

/* A line waits in p->lead until its kind is known. `swallow` drops the text after a fence's
 * mark. */
void paint_glyph(struct paint *p, uint32_t glyph)
{
    size_t at = 0;
    if (glyph == '\n') {
        end_line(p);
    } else if (!p->markdown) {
        put_glyph(p, glyph);
    } else if (!p->inside) {
        buf_add_utf8(&p->lead, glyph);
        enum lead is = read_lead(p, &at);
        if (is != LEAD_MORE) begin_line(p, is, at);
    } else if (!p->swallow) {
        if (p->fenced)
            put_code(p, glyph);
        else
            put_inline(p, glyph);
    }
}

/* End the answer: write the pending text, and reset the state for the next answer. */
void paint_flush(struct paint *p)
{
    end_lead(p);
    if (p->markdown) end_styles(p);
    if (p->fenced) put_style(p, code_off);
    write_word(p);
    p->inside = p->fenced = p->swallow = false;
    p->column = p->gap = p->hang = 0;
}

void paint_deinit(struct paint *p)
{
    buf_deinit(&p->word);
    buf_deinit(&p->lead);
    *p = (struct paint){0};
}
