/* deepseek_convert.c - conversion of DeepSeek-V2 to a directory: method of selecting experts. */
#include "deepseek_impl.h"

#include "model/convert_impl.h"

/* Write the method. The class ignores groups without a method that uses them. */
static void method(struct config_writer *w, const char *name)
{
    hf_put_text(w, name, w->c->route.n_group > 0 ? "group_limited_greedy" : "greedy");
}

static const struct hf_field fields[] = {{"config.topk_method", method}, {0}};
const struct arch_convert deepseek2_convert = {.field = fields};
