"""What `check_cuda.py` and `kernels.py` are made of: sections in processes of their own, and what they check and measure."""
