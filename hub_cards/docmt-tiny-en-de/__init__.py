"""DocMT: document-level machine translation models for Transformers."""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from .configuration_docmt import SYSTEMS, DocMTConfig
from .documents_docmt import decode_documents, encode_documents
from .modeling_docmt import DocMTForConditionalGeneration, DocMTModel
from .pipeline_docmt import DocumentTranslationPipeline
from .tokenization_docmt import DocMTTokenizer


__version__ = "0.1.0"

__all__ = [
    "SYSTEMS",
    "DocMTConfig",
    "DocMTForConditionalGeneration",
    "DocMTModel",
    "DocMTTokenizer",
    "DocumentTranslationPipeline",
    "decode_documents",
    "encode_documents",
]

AutoConfig.register("docmt", DocMTConfig, exist_ok=True)
AutoModel.register(DocMTConfig, DocMTModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(DocMTConfig, DocMTForConditionalGeneration, exist_ok=True)
