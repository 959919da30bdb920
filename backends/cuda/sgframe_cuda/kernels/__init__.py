"""Triton kernels. They know tensors by their pointers and nothing of steps or models."""
