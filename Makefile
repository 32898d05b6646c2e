# Astrarium: a fresh machine needs Python >= 3.10 and a C++20 compiler; `make run` and `make test` do the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
CMAKE_JOBS ?= 2
PARTS  ?= trace engine
OUT    ?= src/astrarium

.DEFAULT_GOAL := help
.PHONY: help dev-core

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=...  interpreter to build with (default python3);  VENV=...  virtual environment (default .venv)"
	@echo "  dev-core:   PYTHON needs nanobind; PARTS='trace' or 'engine' leaves the other room out; OUT=dir; CMAKE_JOBS=2"

dev-core:  ## build astrarium._core with CMake straight into src/astrarium/, incrementally (for work on native/)
	@PYTHON="$(PYTHON)" PARTS="$(PARTS)" OUT="$(OUT)" CMAKE_JOBS="$(CMAKE_JOBS)" tools/dev_core.sh
