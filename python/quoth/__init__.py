"""quoth: run language models in a Python program.

    from quoth import LLM, SamplingParams

    with LLM("model.gguf") as llm:
        for output in llm.generate(["Once upon a time", "One day"], SamplingParams(temperature=0.8, max_tokens=64)):
            print(output.prompt, output.outputs[0].text)

Names and meanings are those of vLLM's offline API. A request's tokens and logprobs are the same bits whether it
runs alone or among others."""
from ._lib import QuothError, version
from .llm import LLM, Tokenizer
from .outputs import CompletionOutput, Logprob, RequestOutput, StreamOutput
from .params import SamplingParams

__version__ = version()
__all__ = ["LLM", "SamplingParams", "RequestOutput", "CompletionOutput", "StreamOutput", "Logprob", "Tokenizer",
           "QuothError"]
