/* added_test.c - goal: a model without logits is known without its weights in memory, because its
 * texts get a BOS even if they begin with one. */
#include "session.h"

#include "../../tests/unit.h"

TEST(models_without_logits_are_known)
{
    EXPECT(session_is_headless(repo_path("tests/golden/encoders/qwen3-untied")));
    EXPECT(session_is_headless(repo_path("tests/golden/encoders/llama-class")));
    EXPECT(session_is_headless(repo_path("tests/golden/encoders/bert/model.gguf")));
    EXPECT(!session_is_headless(repo_path("tests/golden/llama3")));
    EXPECT(!session_is_headless(repo_path("tests/golden/llama3/tokenizer.json")));
    EXPECT_INT(session_added(false, true), 0);
    EXPECT_INT(session_added(true, false), ENCODE_ADD_SPECIAL);
    EXPECT_INT(session_added(true, true), ENCODE_ADD_SPECIAL | ENCODE_ADD_ALWAYS);
}
