"""The front process: text in, text out. The only part that knows a tokenizer."""
