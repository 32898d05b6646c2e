"""What STAGE (symbolic_tensor_graph) writes for its flags, node for node, faults and all: for people who compare."""
