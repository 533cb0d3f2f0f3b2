"""A small language model with random weights. Import it only where PyTorch is installed."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

WORDS = 12


def tokenizer():
    words = {str(word): word for word in range(WORDS)} | {"<end>": WORDS, "<pad>": WORDS + 1}
    made = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<pad>")


def saved(folder):
    """The folder, with the model and its tokenizer."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=WORDS + 2,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        eos_token_id=WORDS,
        pad_token_id=WORDS + 1,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)
