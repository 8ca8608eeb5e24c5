"""How kernels are compiled, and the threads that run them."""
