"""One NPU's runtime: streams and placement."""
