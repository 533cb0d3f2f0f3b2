"""Questions for language models, in their own tokens: chat templates, tokenizers, open questions, mathematics."""
