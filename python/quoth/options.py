"""options.py - the keywords of LLM and AsyncLLM: quoth's keywords, and the supported keywords of
vLLM.

An argument of vLLM that requests quoth's normal behaviour is accepted and has no effect. Any other
argument is rejected by name, with the reason. src/option/aliases.def has the same rules for the
server's flags."""
import json
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, TypedDict, Union


class Options(TypedDict, total=False):
    """Keywords of LLM and AsyncLLM. `quoth help batch` describes the keywords of quoth, which are
    first. The keywords of vLLM follow."""
    threads: Optional[int]
    device: Optional[str]
    cpu: Optional[str]
    activation_dtype: Optional[str]
    kv_cache_dtype: Optional[str]
    block_size: Optional[int]
    max_model_len: Optional[int]
    max_input_length: Optional[int]
    memory_limit: Union[None, int, str]
    enable_prefix_caching: Optional[bool]
    jump_forward: Optional[bool]
    system: Optional[str]
    num_gpu_blocks_override: Optional[int]
    kv_cache_memory: Union[None, int, str]
    gpu_memory_utilization: Optional[float]
    swap_space: Optional[float]
    max_num_seqs: Optional[int]
    max_num_batched_tokens: Optional[int]
    itl_target_ms: Union[None, float, str]
    scheduler: Optional[str]
    starvation_ms: Optional[int]
    window_ms: Optional[int]
    window_min: Optional[int]
    window_max: Optional[int]
    time_slice_tokens: Optional[int]
    trace_file: Optional[str]
    trace_file_size: Optional[int]
    chat_template: Optional[str]
    default_chat_template_kwargs: Optional[Dict[str, Any]]
    now: Optional[str]
    load_format: Optional[str]
    quantization: Optional[str]
    hf_overrides: Union[None, str, Dict[str, Any]]
    rope_scaling: Union[None, str, Dict[str, Any]]
    rope_scale: Optional[float]
    rope_freq_scale: Optional[float]
    yarn_orig_ctx: Optional[int]
    yarn_beta_fast: Optional[float]
    yarn_beta_slow: Optional[float]
    rope_theta: Optional[float]
    shape: Optional[str]
    quant: Optional[str]
    pure: Optional[bool]
    dummy_seed: Optional[int]
    pack_cache: Optional[bool]
    pack_cache_size: Optional[float]
    weights_memory: Union[None, int, str]
    mmap: Optional[bool]
    lora: Optional[str]
    # keywords of vLLM
    dtype: Optional[str]
    enable_chunked_prefill: Optional[bool]
    task: Optional[str]
    runner: Optional[str]
    convert: Optional[str]
    generation_config: Optional[str]
    override_generation_config: Optional[Dict[str, Any]]
    cpu_offload_gb: Optional[float]
    enable_lora: Optional[bool]
    limit_mm_per_prompt: Optional[Dict[str, Any]]
    mm_processor_kwargs: Optional[Dict[str, Any]]
    tensor_parallel_size: Optional[int]
    pipeline_parallel_size: Optional[int]
    data_parallel_size: Optional[int]
    distributed_executor_backend: Optional[str]
    enable_expert_parallel: Optional[bool]
    trust_remote_code: Optional[bool]
    enforce_eager: Optional[bool]
    disable_log_stats: Optional[bool]
    disable_log_requests: Optional[bool]
    disable_custom_all_reduce: Optional[bool]
    max_seq_len_to_capture: Optional[int]
    max_logprobs: Optional[int]
    compilation_config: Any
    async_scheduling: Optional[bool]
    tokenizer: Optional[str]
    tokenizer_mode: Optional[str]
    skip_tokenizer_init: Optional[bool]
    revision: Optional[str]
    code_revision: Optional[str]
    tokenizer_revision: Optional[str]
    hf_token: Union[None, bool, str]
    download_dir: Optional[str]
    allowed_local_media_path: Optional[str]
    speculative_config: Optional[Dict[str, Any]]
    logits_processors: Optional[List[Any]]
    enable_sleep_mode: Optional[bool]
    scheduling_policy: Optional[str]
    kv_cache_memory_bytes: Optional[int]
    use_v2_block_manager: Optional[bool]
    preemption_mode: Optional[str]


class _Rule(NamedTuple):
    accepts: Callable[[Any], bool]  # test of values except None, which is always accepted
    reason: str  # reason for rejecting other values


def _anything(reason: str = "") -> _Rule:
    return _Rule(lambda value: True, reason)


def _only(*values: Any, reason: str) -> _Rule:
    return _Rule(lambda value: any(value is v if isinstance(v, bool) else value == v for v in values), reason)


_NOT_YET = "not supported yet"
_ONE_MACHINE = "not supported yet: a model runs on one machine's CPU"
_NO_HUB = "nothing is downloaded: model must be a file or a folder"

_VLLM: Dict[str, _Rule] = {
    "dtype": _only("auto", "half", "float16", "bfloat16", "float32", "float",
                   reason='expected "auto", "float16", "bfloat16" or "float32"'),
    # prompts are always computed in chunks; the chunks do not change answers
    "enable_chunked_prefill": _anything(),
    "task": _only("auto", "generate", "pooling", "embed", "embedding", reason='expected "auto", "generate" or "embed"'),
    "runner": _only("auto", "generate", "pooling", reason='expected "auto", "generate" or "pooling"'),
    "convert": _only("auto", "none", "embed", reason='expected "auto", "none" or "embed"'),
    "generation_config": _only("auto", reason='expected "auto": requests without SamplingParams use the values of '
                                              "generation_config.json"),
    "override_generation_config": _only({}, reason=f"{_NOT_YET}: pass SamplingParams"),
    "cpu_offload_gb": _only(0, reason="expected 0: weights are always in this machine's memory"),
    "enable_lora": _only(False, reason=_NOT_YET),
    "limit_mm_per_prompt": _anything(),  # prompts are text
    "mm_processor_kwargs": _anything(),
    "tensor_parallel_size": _only(1, reason=f"expected 1: {_ONE_MACHINE}"),
    "pipeline_parallel_size": _only(1, reason=f"expected 1: {_ONE_MACHINE}"),
    "data_parallel_size": _only(1, reason=f"expected 1: {_ONE_MACHINE}"),
    "distributed_executor_backend": _only("uni", "mp", reason=_ONE_MACHINE),
    "enable_expert_parallel": _only(False, reason=_NOT_YET),
    "trust_remote_code": _anything(),
    "enforce_eager": _anything(),
    "disable_log_stats": _anything(),
    "disable_log_requests": _anything(),
    "disable_custom_all_reduce": _anything(),
    "max_seq_len_to_capture": _anything(),
    "max_logprobs": _Rule(lambda value: isinstance(value, int) and 0 <= value <= 20, "expected an integer in [0, 20]"),
    "compilation_config": _anything(),
    "async_scheduling": _anything(),
    "use_v2_block_manager": _anything(),
    "preemption_mode": _only("swap", reason='expected "swap" (swap_space=0: prompts are computed again)'),
    "tokenizer_mode": _only("auto", reason='expected "auto"'),
    "skip_tokenizer_init": _only(False, reason=_NOT_YET),
    "revision": _only("main", reason=_NO_HUB),
    "code_revision": _only("main", reason=_NO_HUB),
    "tokenizer_revision": _only("main", reason=_NO_HUB),
    "hf_token": _anything(),
    "download_dir": _anything(),
    "allowed_local_media_path": _only("", reason="only text is supported yet"),
    "speculative_config": _only({}, reason=_NOT_YET),
    "logits_processors": _only([], reason=_NOT_YET),
    "enable_sleep_mode": _only(False, reason=_NOT_YET),
}
# dtype of vLLM is the type of the inputs of a layer; weights keep their format
_DTYPE = {"bfloat16": "bf16", "float32": "f32", "float": "f32"}
_RENAMED = {"kv_cache_memory_bytes": "kv_cache_memory", "scheduling_policy": "scheduler"}


def names_given(options: Mapping[str, Any]) -> Dict[str, str]:
    """Return a dict: name of an option in the library, with dashes -> name that the caller used."""
    names = {_RENAMED[name].replace("_", "-"): name for name in _RENAMED if name in options}
    names.update({name.replace("_", "-"): name for name in options if name not in _RENAMED})
    return names


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise ValueError(f"{name}: expected a text or a number, found {value!r}")


def library_options(model: str, options: Mapping[str, Any], itl_target_ms: str) -> Dict[str, str]:
    """Convert keywords to the library's keys and texts. A ValueError contains an unsupported
    keyword. The library rejects an unknown keyword. itl_target_ms: default of the option
    itl_target_ms."""
    texts: Dict[str, str] = {"itl_target_ms": itl_target_ms}
    for name, value in options.items():
        rule = _VLLM.get(name)
        if value is None:
            continue
        if name == "tokenizer":
            rule = _only(model, reason="the model's own tokenizer is used; expected None or the model")
        if name == "dtype" and value in _DTYPE and options.get("activation_dtype") is None:
            texts["activation_dtype"] = _DTYPE[value]
        if rule is None:
            key = _RENAMED.get(name, name)
            texts[key] = _text(name, value)
        elif not rule.accepts(value):
            raise ValueError(f"{name}: {rule.reason}, found {value!r}")
    return texts
