"""The workbench, `astrarium web`: a local server (extra `web`: FastAPI and uvicorn) over one folder."""
