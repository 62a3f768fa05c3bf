/* Goal: max_new_tokens and min_new_tokens of a generation_config.json are defaults: fields of a
 * request win, and a default never makes a request fail. */
#include "rig_test.h"

/* Return the number of generated tokens, or -1 after an error. */
static long long n_output(const char *path, const char *body)
{
    struct json *got = post(&rig, path, body);
    const int64_t n =
        json_int(at(got, "usage.completion_tokens"), json_int(at(got, "eval_count"), -1));
    json_drop(got);
    return (long long)n;
}

TEST(api_defaults_of_lengths)
{
    static const char chat[] = "/v1/chat/completions", plain[] = "/v1/completions";
    NEED(rig_open_context(&rig, 256));
    rig.api.max_tokens = 3;
    EXPECT_INT(n_output(plain, "{'prompt':'a','ignore_eos':true}"), 3);
    EXPECT_INT(n_output(plain, "{'prompt':'a','ignore_eos':true,'max_tokens':5}"), 5);
    EXPECT_INT(n_output(chat, "{'messages':[{'role':'user','content':'a'}],"
                              "'ignore_eos':true}"),
               3);
    EXPECT_INT(n_output(chat, "{'messages':[{'role':'user','content':'a'}],"
                              "'ignore_eos':true,'max_completion_tokens':5}"),
               5);
    EXPECT_INT(n_output("/api/generate", "{'model':'m','prompt':'a','raw':true,'stream':false,"
                                         "'options':{'ignore_eos':true}}"),
               3);
    EXPECT(n_output("/api/generate", "{'model':'m','prompt':'a','raw':true,'stream':false,"
                                     "'options':{'ignore_eos':true,'num_predict':-1}}") > 100);
    rig.api.defaults.min_tokens = 100;
    EXPECT_INT(n_output(plain, "{'prompt':'a'}"), 3);
    EXPECT_INT(n_output(chat, "{'messages':[{'role':'user','content':'a'}]}"), 3);
    rig_close(&rig);
}
