"""A tiny tokenizer with a chat template, trained here, in the folder format of `transformers`."""

import json

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<turn>{{ message['role'] }}\n{{ message['content'] | trim }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<turn>model\n{% if enable_thinking %}<think>{% endif %}{% endif %}"
)
SPECIAL = ("<bos>", "<eos>", "<turn>", "<end>")
BOS, EOS, TURN, END = range(4)


def ids(tokenizer, text):
    """The tokens of a text, and none around it."""
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def save_tokenizer(folder, texts, template=TEMPLATE, eos="<eos>", stops=(EOS, END), vocabulary_size=420, by_words=True):
    """Trains a byte-level BPE on texts and writes it to a folder, which it returns as text.

    The chat template and the token that ends texts may be None. `stops` are the eos tokens of generation_config.json,
    which is not written where they are None. Unless `by_words`, a token may hold the end of a word and a line break.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=by_words)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[*SPECIAL, "<think>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BOS)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token=eos)
    wrapped.chat_template = template
    wrapped.save_pretrained(folder)
    if stops is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(stops)}))
    return str(folder)


def save_sentencepiece(folder, words):
    """Writes a tokenizer as those of Llama 2 and Gemma are to a folder, which it returns as text.

    It has a token for each byte, each character of ASCII and each word, whose first character may be a space.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    spelled, merges = [word.replace(" ", "\u2581") for word in words], {}
    for word in spelled:
        merges |= {(word[:end], word[end]): None for end in range(1, len(word))}
    pieces = [
        *SPECIAL,
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *map(chr, range(33, 127)),
        "\u2581",
        *("".join(pair) for pair in merges),
    ]
    vocabulary = {piece: token for token, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges), byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>").save_pretrained(folder)
    return str(folder)
