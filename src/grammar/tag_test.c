/* Goal: a structural tag allows the texts that xgrammar 0.2.8 allows. A tag that cannot be enforced
 * is rejected, and the error contains its JSON pointer.
 *
 * Method: check texts that each type must accept or reject. The cases contain recorded results of
 * xgrammar. */
#include "tag.h"
#include "../../tests/unit.h"

#include <stdlib.h>

static const struct expr_limits LIMIT = {.bytes_max = 128u << 20, .row_max = 100000};
static const struct machine_limits SIZES = {300000, 300000, 2000, 2000};

/* Return the number of the tokens "<|end|>" and "]<]minimax[>[". A token in a text is written as
 * the byte 255 and the four bytes of its number. */
static int32_t token(const void *arg, const char *text, size_t n)
{
    (void)arg;
    bool known = (n == 7 && memcmp(text, "<|end|>", 7) == 0) ||
                 (n == 13 && memcmp(text, "]<]minimax[>[", 13) == 0);
    return known ? 0x01020304 : -1;
}

/* Return true if the machine accepts the whole text. */
static bool takes(struct cfg *g, const char *text, size_t n)
{
    uint32_t c = machine_begin(&g->m, 0);
    for (size_t i = 0; i < n && c != CONFIG_DEAD; i++) c = machine_next(&g->m, c, (uint8_t)text[i]);
    return c != CONFIG_DEAD && machine_accepts(&g->m, c);
}

static int parse(struct cfg *g, const char *text, struct err *e)
{
    struct tag_options o = {.schema = {.draft = DRAFT_2020}, .limits = SIZES, .token = token};
    if (!cfg_open(g, LIMIT, SIZES)) return ERR_MEMORY;
    return tag_parse(g, text, strlen(text), &o, e);
}

#define C(v)         "{\"type\":\"const_string\",\"value\":\"" v "\"}"
#define TAG(b, c, e) "{\"type\":\"tag\",\"begin\":\"" b "\",\"content\":" c ",\"end\":" e "}"
#define ANY          "{\"type\":\"any_text\"}"
#define TRIGGERED(more)                                                                            \
    "{\"type\":\"triggered_tags\",\"triggers\":[\"<f\"],\"tags\":[" TAG(                           \
        "<fa>", C("1"), "\"</f>\"") "," TAG("<fb>", C("2"), "\"</f>\"") "]" more "}"
#define DISPATCH(more)                                                                             \
    "{\"type\":\"dispatch\",\"rules\":[[\"<x>\"," C("1") "],[\"<y>\"," C("2") "]]" more "}"
#define SEPARATED(more)                                                                            \
    "{\"type\":\"tags_with_separator\",\"tags\":[" TAG(                                            \
        "<f>", C("1"), "\"</f>\"") "],\"separator\":\",\"" more "}"
#define OBJECT                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"       \
    "\"integer\"}},\"required\":[\"name\"],\"additionalProperties\":false}"
#define SCHEMA(more) "{\"type\":\"json_schema\",\"json_schema\":" OBJECT more "}"
#define NESTED(more)                                                                               \
    "{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"object\",\"properties\":{\"o\":{"       \
    "\"type\":"                                                                                    \
    "\"object\",\"properties\":{\"b\":{\"type\":[\"boolean\",\"null\"]}},"                         \
    "\"additionalProperties\":{"                                                                   \
    "\"type\":\"array\",\"items\":{\"type\":\"string\"}}}},\"additionalProperties\":false}" more   \
    "}"
#define INT  "{\"type\":\"integer\"}"
#define INTS "{\"type\":\"array\",\"items\":" INT "}"
#define LISTS(more)                                                                                \
    "{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"object\",\"properties\":{\"l\":" INTS   \
    ",\"o\":{\"type\":\"object\",\"properties\":{\"l\":{\"type\":\"object\",\"properties\":{"      \
    "\"a\":" INT "}}},\"required\":[\"l\"]},\"d\":{\"type\":\"array\",\"items\":" INTS "}}}" more  \
    "}"
#define INPUT(style, input)                                                                        \
    "{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"object\",\"properties\":{\"input\":{"   \
    "\"type\":\"string\"}},\"required\":[\"input\"]}" style ",\"input\":{" input "}}"
#define OF(syntax, text) "\"syntax\":\"" syntax "\",\"definition\":\"" text "\""
#define STYLE(name)      ",\"style\":\"" name "\""
#define BARE             STYLE("bare") ",\"quote\":\"<q>\""
#define QUOTED           "start: e\\ne: \\\"[\\\" e \\\"]\\\" | /\\\"\\u00e9?/"
#define M3               "]<]minimax[>[<"
#define BAR              "\xef\xbd\x9c"

static const struct {
    const char *tag, *yes[4], *no[4];
} CASE[] = {
    /* the argument of a custom tool */
    {INPUT("", OF("regex", "a\\\"?\\n?")),
     {"{\"input\": \"a\"}", "{\"input\": \"a\\\"\"}", "{\"input\": \"a\\u0022\\n\"}"},
     {"{\"input\": \"a\"\"}", "{\"input\": \"a", "{\"input\":\"a\"}", "{\"input\": \"\"}"}},
    {INPUT("", OF("lark", QUOTED)),
     {"{\"input\": \"\\\"\"}", "{\"input\": \"[[\\\"\xc3\xa9]]\"}",
      "{\"input\": \"\\u005b\\\"]\"}"},
     {"{\"input\": \"\"\"}", "{\"input\": \"[\\\"\"}", "{\"input\": \"[[\\\"]\"}", "\\\""}},
    {INPUT("", "\"syntax\":\"text\""),
     {"{\"input\": \"\"}", "{\"input\": \"a</x>\\/\"}"},
     {"{\"input\": \"\n\"}", "{}"}},
    {INPUT(STYLE("python"), OF("lark", QUOTED)),
     {"input=\"\\\"\"", "input=\"[\\\"\xc3\xa9]\""},
     {"input=\"\"\"", "input='\"'", "input=\"\\\""}},
    {INPUT(STYLE("python"), "\"syntax\":\"text\""),
     {"input=\"\"", "input=\"/\""},
     {"input=\"\\/\"", "input=\"a"}},
    {INPUT(BARE, OF("lark", QUOTED)),
     {"input:<q>\"<q>", "input:<q>[\"\xc3\xa9]<q>"},
     {"input:<q>\\\"<q>", "input:<q>[\"<q>"}},
    {INPUT(BARE, OF("regex", "a<?q?>?b?")),
     {"input:<q>a<q>", "input:<q>a<<q>", "input:<q>aq>b<q>"},
     {"input:<q>a<q>b<q>"}},
    {INPUT(STYLE("qwen_xml"), OF("lark", QUOTED)),
     {"<parameter=input>\"</parameter>", "\n<parameter=input>[\"]</parameter>\n"},
     {"<parameter=input>\\\"</parameter>", "<parameter=input></parameter>", ""}},
    {INPUT(STYLE("qwen_xml"), OF("regex", "a.*")),
     {"<parameter=input>a</parameter>", "<parameter=input>a</para</parameter>"},
     {"<parameter=input>a</parameter></parameter>"}},
    {INPUT(STYLE("qwen3_coder_xml"), OF("regex", "a\\n?")),
     {"<parameter=input>\na\n</parameter>", "<parameter=input>\na\n\n</parameter>"},
     {"<parameter=input>a</parameter>", "<parameter=input>\na</parameter>"}},
    {TAG("<t>", SCHEMA(",\"style\":\"qwen3_coder_xml\""), "\"</t>\""),
     {"<t><parameter=name>a</parameter></t>", "<t><parameter=name>\na\n</parameter></t>",
      "<t><parameter=name>\n\na\n\n</parameter></t>"},
     {"<t><parameter=name>\na</parameter></t>", "<t><parameter=name>a\n</parameter></t>"}},
    {INPUT(STYLE("minicpm5_xml"), "\"syntax\":\"text\""),
     {"<param name=\"input\">a<![CDATA[</param>"},
     {"<param name=\"input\"><![CDATA[a]]></param>"}},
    {"{\"type\":\"structural_tag\",\"format\":" C("ab") "}", {"ab"}, {"a", "abc", ""}},
    {TRIGGERED(""),
     {"", "abc<", "<fa>1</f>", "a<fa>1</f>x<fb>2</f>y"},
     {"<f", "<fc>", "<fa>2</f>", "a<fa>1</f"}},
    {TRIGGERED(",\"at_least_one\":true"), {"<fa>1</f>", "<fa>1</f>x<fb>2</f>"}, {"", "a<fa>1</f>"}},
    {TRIGGERED(",\"stop_after_first\":true"), {"", "abc", "abc<fa>1</f>"}, {"abc<fa>1</f>x"}},
    {TRIGGERED(",\"stop_after_first\":true,\"at_least_one\":true"),
     {"<fa>1</f>"},
     {"", "a", "a<fa>1</f>", "<fa>1</f>x"}},
    {TRIGGERED(",\"excludes\":[\"bad\"]"), {"ba<fa>1</f>d"}, {"a bad", "<fa>1</f>bad"}},
    {TAG("<a>", ANY, "\"</a>\""), {"<a></a>", "<a>x<</a>"}, {"<a>", "<a></a>x", "<a></a></a>"}},
    {TAG("<a>", ANY, "[\"</a>\",\"</b>\"]"), {"<a>x</a>", "<a>x</b>"}, {"<a></b></a>"}},
    {TAG("<a>", TRIGGERED(""), "\"</a>\""), {"<a>x<fa>1</f></a>"}, {"<a></a></a>"}},
    {DISPATCH(",\"excludes\":[\"END\"]"), {"", "q<x>1r<y>2", "<x>1"}, {"<x>2", "aEND", "<x>"}},
    {DISPATCH(",\"loop\":false"), {"", "q", "q<x>1"}, {"q<x>1z"}},
    {SEPARATED(""), {"", "<f>1</f>", "<f>1</f>,<f>1</f>"}, {"<f>1</f>,", "x"}},
    {SEPARATED(",\"at_least_one\":true,\"stop_after_first\":true"),
     {"<f>1</f>"},
     {"", "<f>1</f>,<f>1</f>"}},
    {"{\"type\":\"sequence\",\"elements\":[" ANY "," C("!") "]}", {"a!", "!!"}, {"a", ""}},
    {"{\"type\":\"or\",\"elements\":[" C("a") "," C("b") "]}", {"a", "b"}, {"ab", ""}},
    {"{\"type\":\"optional\",\"content\":" C("ab") "}", {"", "ab"}, {"abab"}},
    {"{\"type\":\"plus\",\"content\":" C("ab") "}", {"ab", "abab"}, {"", "aba"}},
    {"{\"type\":\"star\",\"content\":" C("ab") "}", {"", "abab"}, {"a"}},
    {"{\"type\":\"repeat\",\"min\":2,\"max\":3,\"content\":" C("a") "}",
     {"aa", "aaa"},
     {"a", "aaaa"}},
    {"{\"type\":\"repeat\",\"min\":1,\"max\":-1,\"content\":" C("a") "}", {"a", "aaaa"}, {""}},
    {"{\"type\":\"any_text\",\"excludes\":[\"x\"],\"max_chars\":3}", {"abc", ""}, {"abcd", "ax"}},
    {"{\"type\":\"regex\",\"pattern\":\"a+b?\"}", {"aab"}, {"b"}},
    {"{\"type\":\"sequence\",\"elements\":[{\"type\":\"grammar\",\"grammar\":\"root ::= x root | "
     "y\\nx ::= \\\"(\\\"\\ny ::= \\\")\\\"\"},{\"type\":\"grammar\",\"grammar\":\"root ::= x\\nx "
     "::= \\\"!\\\"\"}]}",
     {"(()!", ")!"},
     {"()", "!"}},
    {TAG("<t>", SCHEMA(""), "\"</t>\""),
     {"<t>{\"name\":\"a\",\"age\":1}</t>", "<t>{\"name\": \"a\"}</t>"},
     {"<t>{\"age\":1}</t>", "<t>{\"name\":1}</t>"}},
    {"{\"structures\":[{\"begin\":\"<t>\",\"schema\":" OBJECT
     ",\"end\":\"</t>\"}],\"triggers\":[\"<t\"]}",
     {"x<t>{\"name\":\"a\"}</t>y", "x"},
     {"<t>{}</t>", "<tx"}},
    {"{\"structures\":[{\"begin\":\"<t>\",\"schema\":\"{\\\"type\\\":\\\"null\\\"}\""
     ",\"end\":\"</t>\"}],\"triggers\":[\"<t\"]}",
     {"x<t>null</t>y"},
     {"<t>1</t>"}},
    {TAG("<t>", SCHEMA(",\"style\":\"qwen_xml\""), "\"</t>\""),
     {"<t><parameter=name>a<b</parameter></t>",
      "<t>\n<parameter=name>\nBob\n</parameter>\n<parameter=age> 1 </parameter>\n</t>"},
     {"<t></t>", "<t><parameter=age>1</parameter></t>",
      "<t><parameter=name>a</parameter><parameter=age>x</parameter></t>"}},
    {SCHEMA(",\"style\":\"minimax_xml\""),
     {"<parameter name=\"name\">B</parameter>\n<parameter name=\"age\">1</parameter>"},
     {"<parameter=name>B</parameter>"}},
    {SCHEMA(",\"style\":\"glm_xml\""),
     {"<arg_key>name</arg_key>\n<arg_value>B</arg_value>\n<arg_key>age</arg_key><arg_value>1</"
      "arg_value>"},
     {"<arg_key>age</arg_key><arg_value>1</arg_value>"}},
    {SCHEMA(",\"style\":\"deepseek_xml\""),
     {"<" BAR "DSML" BAR "parameter name=\"name\" string=\"true\">B</" BAR "DSML" BAR "parameter>"},
     {"<" BAR "DSML" BAR "parameter name=\"name\" string=\"false\">B</" BAR "DSML" BAR
      "parameter>"}},
    {"{\"type\":\"any_text\",\"excludes\":[\"<x>\"],\"first_not\":\"{\"}",
     {"", " a{", "<", " \n"},
     {"{", " \n{a", "<x>", "a<x>"}},
    {SCHEMA(",\"style\":\"minicpm5_xml\""),
     {"<param name=\"name\">a<![CDATA[</param>",
      "<param name=\"name\"><![CDATA[</param>]]></param>"},
     {"<param name=\"name\"><![CDATA[x</param>"}},
    {SCHEMA(",\"style\":\"step3_xml\""),
     {"<steptml:parameter name=\"name\">B</steptml:parameter>"},
     {"<steptml:parameter name=\"age\">1</steptml:parameter>"}},
    {SCHEMA(",\"style\":\"python\""),
     {"name=\"B\"", "name=\"a\\\"\\n/\", age=-3"},
     {"name='B'", "age=1", "name=\"\\/\"", "{\"name\":\"B\"}"}},
    {NESTED(",\"style\":\"python\""),
     {"", "o={}", "o={\"b\": True}", "o={\"b\":None, \"x y\":[\"\\u00e9\"]}"},
     {"o={b:True}", "o={\"b\":true}", "{}", "o={\"x\":[\"\\/\"]}"}},
    {SCHEMA(",\"style\":\"bare\",\"quote\":\"<q>\""),
     {"name:<q>a\"b\\<q>", "name:<q><<q>,age:1"},
     {"name:\"a\"", "name:<q>a<q>b<q>", "name:<q>a<q>, age:1", "name:a"}},
    {SCHEMA(",\"style\":\"bare\",\"quote\":{\"token\":\"<|end|>\"}"),
     {"name:\xff\1\2\3\4z\xff\1\2\3\4"},
     {"name:<|end|>z<|end|>", "name:\xff\1\2\3\4<|end|>\xff\1\2\3\4"}},
    {NESTED(",\"style\":\"bare\",\"quote\":\"<q>\""),
     {"", "o:{}", "o:{b:null,x:[<q>a<q>]}", "o:{<q>x y<q>:[]}"},
     {"o:{<q>b<q>:null}", "o:{b:True}", "o:{x y:[]}"}},
    {NESTED(",\"style\":\"qwen_xml\""),
     {"<parameter=o>{\"x\":[\"</parametes>\"]}</parameter>"},
     {"<parameter=o>{\"x\":[\"</parameter>\"]}</parameter>"}},
    {LISTS(",\"style\":\"minimax_m3_xml\""),
     {M3 "l>[]" M3 "/l>", M3 "l>" M3 "item>1" M3 "/item> " M3 "item>2" M3 "/item>" M3 "/l>",
      M3 "o>" M3 "l>{\"a\":1}" M3 "/l>" M3 "/o>" M3 "d>" M3 "item>[1]" M3 "/item>" M3 "/d>"},
     {M3 "l>[1]" M3 "/l>", M3 "l>" M3 "/l>",
      M3 "d>" M3 "item>" M3 "item>1" M3 "/item>" M3 "/item>" M3 "/d>", M3 "o>{}" M3 "/o>"}},
    {SCHEMA(",\"style\":\"minimax_m3_xml\",\"token\":\"]<]minimax[>[\""),
     {"\xff\1\2\3\4<name>B\xff\1\2\3\4</name>"},
     {M3 "name>B" M3 "/name>"}},
    {"{\"type\":\"sequence\",\"elements\":[{\"type\":\"token\",\"token\":\"<|end|>\"},{\"type\":"
     "\"exclude_token\",\"exclude_tokens\":[\"<|end|>\"]}]}",
     {"\xff\1\2\3\4\xff\1\2\3\5", "\xff\1\2\3\4z"},
     {"\xff\1\2\3\4\xff\1\2\3\4", "z"}},
};

TEST(tag_formats)
{
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct cfg g;
        struct err e = {0};
        NEED_OK(parse(&g, CASE[i].tag, &e), &e);
        for (int k = 0; k < 4; k++) {
            const char *yes = CASE[i].yes[k], *no = CASE[i].no[k];
            if (yes && !takes(&g, yes, strlen(yes)))
                test_fail(__FILE__, __LINE__, "%.80s does not take \"%s\"", CASE[i].tag, yes);
            if (no && takes(&g, no, strlen(no)))
                test_fail(__FILE__, __LINE__, "%.80s takes \"%s\"", CASE[i].tag, no);
        }
        EXPECT(g.m.x.failed == EXPR_OK);
        cfg_close(&g);
    }
}

TEST(tag_refuses_by_pointer)
{
    static const struct {
        const char *tag, *why;
        int code;
    } c[] = {
        {"[", "", ERR_FORMAT},
        {"{}", "#: expected a format", ERR_FORMAT},
        {"{\"type\":\"nothing\"}", "#: type \"nothing\"", ERR_UNSUPPORTED},
        {"{\"type\":\"plus\",\"content\":{\"type\":\"regex\",\"pattern\":\"(\"}}",
         "#/content: regular expression, byte 1", ERR_FORMAT},
        {"{\"type\":\"or\",\"elements\":[" C("a") ",{\"type\":\"any_text\",\"max_tokens\":3}]}",
         "#/elements/1: max_tokens", ERR_UNSUPPORTED},
        {"{\"type\":\"const_string\",\"value\":\"a\",\"x\":1}", "unknown key \"x\"",
         ERR_UNSUPPORTED},
        {"{\"type\":\"const_string\",\"value\":\"a\",\"\":1}", "unknown key \"\"", ERR_UNSUPPORTED},
        {SCHEMA(",\"style\":\"kimi_k3_xml\""), "style \"kimi_k3_xml\"", ERR_UNSUPPORTED},
        {"{\"type\":\"json_schema\",\"style\":\"qwen_xml\",\"json_schema\":{\"properties\":{\"a\":{"
         "}}}}",
         "parameter \"a\"", ERR_UNSUPPORTED},
        {SCHEMA(",\"style\":\"bare\""), "quote: expected", ERR_FORMAT},
        {SCHEMA(",\"quote\":\"x\""), "unknown key \"quote\"", ERR_UNSUPPORTED},
        {"{\"type\":\"json_schema\",\"style\":\"python\",\"json_schema\":{\"properties\":{\"a b\":{"
         "}}}}",
         "parameter \"a b\"", ERR_UNSUPPORTED},
        {"{\"type\":\"json_schema\",\"style\":\"python\",\"json_schema\":" INT "}",
         "no object is valid", ERR_FORMAT},
        {INPUT(BARE, OF("lark", "start: /[^a]/")), "may contain \"<\"", ERR_UNSUPPORTED},
        {INPUT(STYLE("qwen_xml"), OF("lark", "start: \\\"</\\\"")), "may contain \"<\"",
         ERR_UNSUPPORTED},
        {INPUT("", OF("lark", "start: nosuch")), "nosuch", ERR_FORMAT},
        {INPUT("", OF("regex", "(")), "regular expression", ERR_FORMAT},
        {INPUT("", OF("sql", "a")), "sql", ERR_UNSUPPORTED},
        {INPUT("", "\"syntax\":\"regex\""), "definition", ERR_FORMAT},
        {INPUT(BARE, OF("regex", "<q>")), "no text", ERR_FORMAT},
        {"{\"type\":\"json_schema\",\"json_schema\":{\"$ref\":\"#/no\"}}", "\"#/no\"",
         ERR_UNSUPPORTED},
        {"{\"type\":\"token\",\"token\":\"<none>\"}", "token not found", ERR_FORMAT},
        {"{\"type\":\"triggered_tags\",\"triggers\":[\"<g\"],\"tags\":[" TAG("<f", ANY,
                                                                             "\"x\"") "]}",
         "tags/0 begins with 0 of the triggers", ERR_FORMAT},
        {"{\"structures\":[{\"begin\":\"<t>\",\"schema\":\"true,\\\"any_order\\\":true\",\"end\":"
         "\"x\"}"
         "],\"triggers\":[\"<t\"]}",
         "structures/0: schema: ", ERR_FORMAT},
        {"{\"type\":\"sequence\",\"elements\":[{\"type\":\"any_text\",\"excludes\":[\"a\"],\"max_"
         "chars\":1},{\"type\":\"regex\",\"pattern\":\"[a&&b]\"}]}",
         "no text matches", ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct cfg g;
        struct err e = {0};
        EXPECT_INT(parse(&g, c[i].tag, &e), c[i].code);
        if (!strstr(e.text, c[i].why))
            test_fail(__FILE__, __LINE__, "%zu: \"%s\" is not \"%s\"", i, e.text, c[i].why);
        cfg_close(&g);
    }
}
