/* get_llamacpp_props.c - GET /props and /slots: the properties of the model and the places for
 * sequences, as llama.cpp's server. Both are read only. A place contains no data of a request, so
 * no client can read another client's requests. */
#include "llamacpp.h"
#include "server_impl.h"

/* Append the members of a place for a sequence, up to `params`. */
static void put_slot(struct json_out *o, const struct api *a, int i, bool busy)
{
    out_int(o, "id", i);
    out_int(o, "id_task", busy ? 0 : -1);
    out_int(o, "n_ctx", engine_context(a->session->engine));
    out_flag(o, "speculative", false);
    out_flag(o, "is_processing", busy);
}

/* Append the settings of a request without fields. */
static void put_defaults(struct json_out *o, const struct api *a)
{
    out_object(o, "default_generation_settings");
    put_slot(o, a, 0, false);
    out_object(o, "params");
    llamacpp_put_settings(
        o, &(struct llamacpp_settings){.params = &a->defaults,
                                       .n_predict = llamacpp_n_predict(a, api_max_tokens(a))});
    out_end(o);
    out_end(o);
}

/* Append the text of a special token; "" if there is no such token. */
static void put_special(struct json_out *o, const struct chat *chat, const char *name)
{
    const struct chat_variable *v = chat_special_find(&chat->special, name);
    out_text(o, name, v ? v->text : "", v ? v->n : 0);
}

void get_llamacpp_props(struct exchange *x, void *server)
{
    const struct server *s = server;
    const struct api *a = server_query_model(s, x);
    struct buf b = {0}, build = {0};
    if (!a) return;
    const struct served_spec *spec = served_spec(a->model);
    const struct chat *chat = a->chat;
    struct json_out o = {.b = &b};
    buf_addf(&build, "quoth-%s", s->o.version);
    out_object(&o, NULL);
    put_defaults(&o, a);
    out_int(&o, "total_slots", engine_seq_max(a->session->engine));
    out_word(&o, "model_alias", spec->name[0]);
    out_word(&o, "model_path", spec->path ? spec->path : spec->name[0]);
    out_object(&o, "modalities");
    out_flag(&o, "vision", false);
    out_flag(&o, "audio", false);
    out_end(&o);
    out_word(&o, "chat_template", chat->t ? template_source(chat->t) : "");
    out_object(&o, "chat_template_caps");
    out_end(&o);
    put_special(&o, chat, "bos_token");
    put_special(&o, chat, "eos_token");
    out_text(&o, "build_info", build.n ? build.data : "", build.n);
    out_flag(&o, "is_sleeping", models_asleep(s->models));
    out_end(&o);
    b.failed |= build.failed;
    buf_deinit(&build);
    served_drop(a);
    server_reply(x, &b);
}

/* Answer with 503 if the query has fail_on_no_slot and all places are taken. */
void get_llamacpp_slots(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    struct stats_view v;
    int64_t fail = 0;
    int rc = server_query_int(x, "fail_on_no_slot", 0, 1, &fail, &e);
    if (rc != 0) {
        server_fail(x, rc, &e);
        return;
    }
    const struct api *a = server_query_model(s, x);
    if (!a) return;
    stats_read(engine_stats(a->session->engine), &v);
    const int n = engine_seq_max(a->session->engine);
    const int64_t n_busy = v.value[STAT_running];
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_list(&o, NULL);
    for (int i = 0; i < n; i++) {
        out_object(&o, NULL);
        put_slot(&o, a, i, i < n_busy);
        out_end(&o);
    }
    out_end(&o);
    served_drop(a);
    if (fail == 0 || n_busy < n) {
        server_reply(x, &b);
        return;
    }
    buf_deinit(&b);
    server_fail(x, err_set(&e, ERR_UNAVAILABLE, "no slot available"), &e);
}
