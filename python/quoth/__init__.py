"""quoth: run language models in a Python program.

    from quoth import LLM, SamplingParams

    with LLM("model.gguf") as llm:
        for output in llm.generate(["Once upon a time", "One day"], SamplingParams(temperature=0.8, max_tokens=64)):
            print(output.prompt, output.outputs[0].text)

Names and meanings are those of vLLM's offline API. AsyncLLM is the class for programs that use
asyncio. A request's tokens and logprobs are reproducible bit by bit and do not depend on other
requests."""
from ._lib import ParameterError, QuothError, version
from .async_llm import AsyncLLM
from .llm import LLM
from .model import Tokenizer
from .outputs import (BeamSearchOutput, BeamSearchSequence, ClassificationOutput, ClassificationRequestOutput,
                      CompletionOutput, Counter, EmbeddingOutput, EmbeddingRequestOutput, Gauge, Histogram, Logprob,
                      Metric, PoolingOutput, PoolingRequestOutput, RequestMetrics, RequestOutput, ScoringOutput,
                      ScoringRequestOutput, StreamOutput)
from .params import (BeamSearchParams, GuidedDecodingParams, PoolingParams, RepetitionDetectionParams,
                     RequestOutputKind, SamplingParams, StructuredOutputsParams)

__version__ = version()
__all__ = ["AsyncLLM", "BeamSearchOutput", "BeamSearchParams", "BeamSearchSequence", "ClassificationOutput",
           "ClassificationRequestOutput", "CompletionOutput", "Counter", "EmbeddingOutput", "EmbeddingRequestOutput",
           "Gauge", "GuidedDecodingParams", "Histogram", "LLM", "Logprob", "Metric", "ParameterError", "PoolingOutput",
           "PoolingParams", "PoolingRequestOutput", "QuothError", "RepetitionDetectionParams", "RequestMetrics", "RequestOutput",
           "RequestOutputKind", "SamplingParams", "ScoringOutput", "ScoringRequestOutput", "StreamOutput",
           "StructuredOutputsParams", "Tokenizer"]
