"""Tensor parallelism: the ranks that share a model, what they say to each other, and who watches over them."""
