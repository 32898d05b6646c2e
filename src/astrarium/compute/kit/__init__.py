"""A stated kit of kernels that is measured on the device at hand, and the device file that it makes."""
