/* Goal: a folder's special tokens have the texts that transformers 5 renders in chat templates.
 * Method: folders with a small tokenizer and each source of the tokens; the expected texts were
 * rendered by transformers 5.24. */
#include "session.h"

#include "../../tests/safetensors_make.h"
#include "../../tests/unit.h"

#include <string.h>
#include <unistd.h>

static const char *const others[] = {"tokenizer_config.json", "special_tokens_map.json",
                                     "config.json", "tokenizer.json", "model.safetensors"};

/* Remove the files, because the folder is that of all tests. */
static void end(void)
{
    for (int i = 0; i < 5; i++) unlink(temp_path(others[i]));
}

static void begin(const char *config, const char *map)
{
    end();
    EXPECT_INT(json_write(temp_path("config.json"),
                          "{'model_type':'llama','bos_token_id':1,'eos_token_id':2}"),
               0);
    EXPECT_INT(safetensors_write(temp_path("model.safetensors"),
                                 "{'x':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}", 1),
               0);
    EXPECT_INT(json_write(temp_path("tokenizer.json"),
                          "{'model':{'type':'BPE','vocab':{'a':0,'<b>':1,'<e>':2,'<s>':3},"
                          "'merges':[]},'added_tokens':[{'id':1,'content':'<b>','special':true},"
                          "{'id':2,'content':'<e>','special':true}]}"),
               0);
    if (config) EXPECT_INT(json_write(temp_path(others[0]), config), 0);
    if (map) EXPECT_INT(json_write(temp_path(others[1]), map), 0);
}

/* Open the temporary folder. */
static void open_folder(struct checkpoint **c, struct tokenizer **t)
{
    struct err e;
    char dir[4096];
    snprintf(dir, sizeof dir, "%s", temp_path("config.json"));
    *strrchr(dir, '/') = 0;
    *t = NULL;
    NEED_OK(checkpoint_open(c, dir, &e), &e);
    NEED_OK(tokenizer_open(t, *c, &e), &e);
}

/* Return "NAME=TEXT" of all special tokens, in the order of their names' positions in `names`. */
static const char *special_of(const char *config, const char *map)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token",   "sep_token",
                                        "pad_token", "cls_token", "image_token", "mask_token"};
    static char out[400];
    struct checkpoint *c;
    struct tokenizer *t;
    struct chat_special s;
    begin(config, map);
    open_folder(&c, &t);
    chat_special(&s, c, t);
    *out = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct chat_variable *v = chat_special_find(&s, names[i]);
        if (v)
            snprintf(out + strlen(out), sizeof out - strlen(out), "%s%.3s=%.*s", *out ? " " : "",
                     names[i], (int)v->n, v->text);
    }
    tokenizer_close(t);
    checkpoint_close(c);
    end();
    return out;
}

TEST(special_tokens_of_a_folder)
{
    static const struct {
        const char *config, *map, *want;
    } cases[] = {
        {"{'bos_token':'<b>','eos_token':{'content':'<e>'}}", NULL, "bos=<b> eos=<e>"},
        {"{'bos_token':null,'eos_token':'<e>'}", NULL, "eos=<e>"},
        {"{'eos_token':'<e>'}", NULL, "eos=<e>"},
        {NULL, NULL, ""},
        {"{'bos_token':'<not in the vocabulary>'}", NULL, "bos=<not in the vocabulary>"},
        {"{'pad_token':'<e>','unk_token':'<b>','sep_token':'<e>','cls_token':'a'}", NULL,
         "unk=<b> sep=<e> pad=<e> cls=a"},
        /* the map has precedence, unless the configuration has all added tokens */
        {"{'bos_token':'<b>'}", "{'bos_token':'<e>','pad_token':{'content':'a'}}", "bos=<e> pad=a"},
        {"{'bos_token':'<b>','eos_token':'<e>'}", "{'bos_token':null}", "eos=<e>"},
        {"{'bos_token':'<b>','added_tokens_decoder':{}}", "{'bos_token':'<e>'}", "bos=<b>"},
        {NULL, "{'bos_token':'<e>'}", "bos=<e>"},
        /* tokens of one model */
        {"{'image_token':'<i>'}", NULL, "ima=<i>"},
        {"{'extra_special_tokens':{'image_token':'<i>'},'image_token':'<j>'}", NULL, "ima=<i>"},
        {"{'model_specific_special_tokens':{'image_token':'<i>'}}", NULL, "ima=<i>"},
        {"{'bos_token':'<b>','extra_special_tokens':{'bos_token':'<x>'}}", NULL, "bos=<x>"},
        {"{'extra_special_tokens':['<i>']}", NULL, ""},
        {"{'image_token':'<i>'}", "{'image_token':'<j>'}", "ima=<i>"},
        /* a class has defaults, which do not replace a null; tokens of no vocabulary are omitted */
        {"{'tokenizer_class':'LlamaTokenizerFast'}", NULL, "bos=<s>"},
        {"{'tokenizer_class':'LlamaTokenizer','bos_token':null}", NULL, ""},
        {"{'tokenizer_class':'PreTrainedTokenizerFast'}", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        EXPECT_TEXT(special_of(cases[i].config, cases[i].map), cases[i].want);
}

TEST(special_tokens_of_a_folder_have_a_maximum)
{
    /* Goal: a hostile number of tokens is an error. */
    struct checkpoint *c;
    struct err e;
    struct buf b = {0};
    char dir[4096];
    buf_add_text(&b, "{'extra_special_tokens':{");
    for (int i = 0; i < 200; i++) buf_addf(&b, "%s'x%d':'<b>'", i ? "," : "", i);
    buf_add_text(&b, "}}");
    begin(b.data, NULL);
    snprintf(dir, sizeof dir, "%s", temp_path("config.json"));
    *strrchr(dir, '/') = 0;
    EXPECT_INT(checkpoint_open(&c, dir, &e), ERR_LIMIT);
    buf_deinit(&b);
    end();
}

TEST(special_tokens_map_gives_the_tokenizer_its_ends)
{
    /* Goal: BOS and EOS are those of special_tokens_map.json, as in the template. */
    struct checkpoint *c;
    struct tokenizer *t;
    begin("{'bos_token':'<b>','eos_token':'<e>'}", "{'bos_token':'<e>','eos_token':'<b>'}");
    open_folder(&c, &t);
    EXPECT_INT(tokenizer_bos(t), 2);
    EXPECT_INT(tokenizer_eos(t), 1);
    tokenizer_close(t);
    checkpoint_close(c);
    end();
}

TEST(special_tokens_of_a_gguf)
{
    /* Goal: a GGUF has ids only; its BOS and EOS are rendered. */
    struct checkpoint *c;
    struct tokenizer *t;
    struct err e;
    struct chat_special s;
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/llama3/model.gguf"), &e), &e);
    NEED_OK(tokenizer_open(&t, c, &e), &e);
    chat_special(&s, c, t);
    EXPECT_INT(s.n, 2);
    EXPECT(chat_special_find(&s, "bos_token") && chat_special_find(&s, "eos_token"));
    tokenizer_close(t);
    checkpoint_close(c);
}
