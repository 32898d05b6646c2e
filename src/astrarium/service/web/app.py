"""The application: addresses of views and of what the script asks for. No logic of a model is here: workers answer
(`pool`), and processes of their own do long work (`jobs`)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from astrarium.errors import AstrariumError, InputError
from astrarium.service.folder import Folder
from astrarium.service.web import asks, views
from astrarium.service.web.answers.question import Ask
from astrarium.service.web.guard import Guard, RefusedError
from astrarium.service.web.jobs import INSIDE, Jobs
from astrarium.service.web.pool import Pool
from astrarium.service.web.settings import Settings

__all__ = ["make_app"]

NAME = Annotated[str, Path(max_length=200)]
FILE = Annotated[str, Query(max_length=200)]
SETS = Annotated[list[str], Query(alias="set", max_length=64)]
OTHER_SETS = Annotated[list[str], Query(alias="with", max_length=64)]
CLIENT = Annotated[str, Query(pattern=r"^[a-z0-9]{1,32}$")]
STATIC = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
TICK = 0.4          # seconds between two looks at a job
SANDBOX = ("sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
           "style-src 'unsafe-inline'; img-src data:")
"""For whole pages, which carry their script: without the origin of the server, so that the script reaches nothing."""


def make_app(settings: Settings) -> Guard:
    """The workbench over a folder as an ASGI application."""
    return _Workbench(settings).guard


class _Workbench:
    """State of one server: its folder, its workers, its jobs."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.folder = Folder(os.path.realpath(settings.folder), writable=not settings.read_only)
        self.jobs = Jobs(self.folder.root, settings.processes)
        self._pool: Pool | None = None
        app = FastAPI(title="astrarium web", docs_url=None, redoc_url=None, openapi_url="/openapi.json")
        self.guard = Guard(app, settings)
        app.add_exception_handler(RefusedError, _refused)
        app.add_exception_handler(AstrariumError, _wrong)
        app.add_exception_handler(RequestValidationError, _invalid)
        app.add_exception_handler(HTTPException, _unknown)
        app.router.add_event_handler("shutdown", self._close)
        self._views(app)
        self._questions(app)
        self._changes(app)

    @property
    def pool(self) -> Pool:
        """The workers, which start at the first question."""
        if self._pool is None:
            self._pool = Pool(self.settings)
        return self._pool

    async def _close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    def _views(self, app: FastAPI) -> None:
        for path, view in (("/", self.start), ("/files", self.files), ("/jobs", self.all_jobs),
                           ("/design/{name:path}", self.design), ("/compare", self.compare),
                           ("/file/{name:path}", self.file), ("/job/{name}", self.job)):
            app.add_api_route(path, view, methods=["GET"], response_class=HTMLResponse, include_in_schema=False)
        app.add_api_route("/static/{name}", self.static, methods=["GET"], include_in_schema=False)
        app.add_api_route("/raw/{name:path}", self.raw, methods=["GET"], include_in_schema=False)
        app.add_api_route("/page/{name}", self.page, methods=["GET"], include_in_schema=False)

    def _questions(self, app: FastAPI) -> None:
        for path, question in (("/api/answer", self.answer), ("/api/details", self.details),
                               ("/api/compare", self.compared), ("/api/progress", self.progress),
                               ("/api/jobs", self.job_list), ("/api/jobs/{name}", self.job_state)):
            app.add_api_route(path, question, methods=["GET"], response_class=JSONResponse)
        app.add_api_route("/api/jobs/{name}/events", self.events, methods=["GET"], response_class=StreamingResponse)

    def _changes(self, app: FastAPI) -> None:
        for path, change in (("/api/jobs", self.start_job), ("/api/jobs/{name}/{action}", self.change_job),
                             ("/api/designs", self.save_design), ("/api/files", self.upload),
                             ("/api/stop", self.stop)):
            app.add_api_route(path, change, methods=["POST"], response_class=JSONResponse)

    # ------------------------------------------------------------ views

    def _shown(self, request: Request, title: str, main: str, status: int = 200, at: str = "") -> HTMLResponse:
        session = str(request.scope["astrarium_session"])
        return HTMLResponse(views.shell(title, main, self.guard.token_of(session), self.settings.read_only, at), status)

    async def start(self, request: Request) -> Response:
        """The first page: three choices, or a file."""
        if "token" in request.query_params:     # the cookie has it now
            return Response(status_code=303, headers={"location": "/"})
        choices = await self._ask("start", Ask(view="choices"))
        files = [each for each in self.folder.files() if not each.name.startswith("jobs/")][:12]
        return self._shown(request, "Start", views.start(choices, files, self.jobs.all()[:5]), at="/")

    async def files(self, request: Request) -> Response:
        """The files of the folder."""
        files = [each for each in self.folder.files() if each.name.rpartition("/")[2] not in INSIDE]
        return self._shown(request, "Files", views.file_list(files, self.settings.folder), at="/files")

    async def all_jobs(self, request: Request) -> Response:
        """The jobs of the folder."""
        return self._shown(request, "Jobs", views.job_list(self.jobs.all()), at="/jobs")

    async def design(self, request: Request, name: NAME, sets: SETS = []) -> Response:     # noqa: B006
        """A design with its knobs."""
        question = Ask(view="design", design=name, sets=asks.sets_of(sets))
        found = await self._ask("view", question)
        if "error" in found:
            return self._shown(request, name, views.problem(name, found["error"]), 422)
        return self._shown(request, self._title(name), views.design(name, found))

    def _title(self, name: str) -> str:
        """What a design is called: of a job, by what the job is."""
        first, _, rest = name.partition("/")
        job, _, file = rest.partition("/")
        if first != "jobs" or not file:
            return name
        return f"{self.jobs.find(job).title}: {file.removesuffix('.yaml').replace('line-', 'layout ')}"

    async def compare(self, request: Request, a: FILE = "", b: FILE = "", sets: SETS = [],       # noqa: B006
                      others: OTHER_SETS = []) -> Response:      # noqa: B006
        """Two designs side by side."""
        names = [each.name for each in self.folder.files()]
        return self._shown(request, "Compare", views.compare(a, b, asks.sets_of(sets), asks.sets_of(others), names),
                           at="/compare")

    async def file(self, request: Request, name: NAME) -> Response:
        """What a file is, and what can be done with it."""
        found = await self._ask("view", Ask(view="file", file=name))
        if "error" in found:
            return self._shown(request, name, views.problem(name, found["error"]), 422)
        if found["kind"] == "design":
            return Response(status_code=303, headers={"location": views.link("design", name)})
        return self._shown(request, name, views.file(name, found))

    async def job(self, request: Request, name: NAME) -> Response:
        """A job: how far it is, and what it found."""
        job = self.jobs.find(name)
        page = os.path.isfile(os.path.join(self.folder.root, "jobs", job.id, "page.html"))
        return self._shown(request, job.title, views.job(job, self.jobs.result(name), page))

    async def static(self, name: NAME) -> Response:
        """The script and the style."""
        stem, _, ending = name.partition(".")
        if stem not in ("workbench", "page") or ending not in STATIC:
            raise RefusedError(404, "there is no such file")
        return Response(views.static(name), media_type=STATIC[ending], headers={"cache-control": "max-age=600"})

    async def raw(self, name: NAME) -> Response:
        """A file to download."""
        with open(self.folder.path(name), "rb") as stream:
            data = stream.read()
        last = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(name))
        return Response(data, media_type="application/octet-stream",
                        headers={"content-disposition": f'attachment; filename="{last}"'})

    async def page(self, name: NAME) -> Response:
        """The page of a job, as `--html` writes it, in a sandbox."""
        path = self.folder.path(f"jobs/{self.jobs.find(name).id}/page.html", "page")
        with open(path, "rb") as stream:
            return Response(stream.read(), media_type="text/html; charset=utf-8",
                            headers={"content-security-policy": SANDBOX})

    # ------------------------------------------------------------ questions

    async def _ask(self, client: str, question: Ask) -> dict[str, Any]:
        """Ask a worker for a view, which nothing replaces."""
        return await self.pool.ask(f"{client}-{secrets.token_hex(8)}", question)

    async def _asked(self, request: Request, client: str, question: Ask) -> Response:
        """The answer to a client: 503 where too many ask. A refusal of the model is an answer as well (`error`), and so
        is that the client has asked anew (`replaced`)."""
        found = await self.pool.ask(f"{request.scope['astrarium_session']}:{client}", question)
        return JSONResponse(found, 503 if "busy" in found else 500 if "bug" in found else 200)

    async def answer(self, request: Request, design: FILE, client: CLIENT, sets: SETS = []) -> Response:  # noqa: B006
        """The figures of a design with changes (`set=path=value`)."""
        return await self._asked(request, client, Ask(view="answer", design=design, sets=asks.sets_of(sets)))

    async def details(self, request: Request, design: FILE, client: CLIENT, sets: SETS = []) -> Response:  # noqa: B006
        """All tables of a design with changes."""
        return await self._asked(request, client, Ask(view="details", design=design, sets=asks.sets_of(sets)))

    async def compared(self, request: Request, a: FILE, b: FILE, client: CLIENT, sets: SETS = [],      # noqa: B006
                       others: OTHER_SETS = []) -> Response:     # noqa: B006
        """Two designs and the split of their difference."""
        return await self._asked(request, client, Ask(
            view="compare", design=a, other=b, sets=asks.sets_of(sets), other_sets=asks.sets_of(others)))

    async def progress(self, request: Request, client: CLIENT) -> Response:
        """How far the client's answer is."""
        return JSONResponse({"progress": self.pool.progress(f"{request.scope['astrarium_session']}:{client}")})

    async def job_list(self) -> Response:
        """The newest jobs."""
        return JSONResponse([msgspec.to_builtins(each) for each in self.jobs.all()])

    async def job_state(self, name: NAME) -> Response:
        """A job and how far it is."""
        return JSONResponse(msgspec.to_builtins(self.jobs.find(name)))

    async def events(self, request: Request, name: NAME) -> Response:
        """Server-sent events: the state of a job whenever it changes, until it ends."""
        self.jobs.find(name)

        async def told() -> AsyncIterator[str]:
            last = ""
            while not await request.is_disconnected():
                job = self.jobs.find(name)
                text = json.dumps({"state": job.state, "progress": job.progress})
                if text != last:
                    yield f"data: {text}\n\n"
                    last = text
                if job.state not in ("running", "paused"):
                    yield "event: end\ndata: {}\n\n"
                    return
                await asyncio.sleep(TICK)
        return StreamingResponse(told(), media_type="text/event-stream")

    # ------------------------------------------------------------ changes

    async def start_job(self, asked: asks.JobAsked) -> Response:
        """Start a plan, a search, or serving."""
        try:
            json.dumps(asked.request, allow_nan=False)
        except (ValueError, RecursionError):
            raise InputError("request", "has a number that is not finite, or is nested too deeply") from None
        space = asked.request.get("space")
        title = f"around {self._title(str(space.get('base')))}" if isinstance(space, dict) else asked.title
        found = await self._ask("job", Ask(view="job", verb=asked.verb, request=asked.request))
        if "error" in found:
            return JSONResponse({"error": found["error"]}, 503 if "busy" in found else 500 if "bug" in found else 422)
        name = self.jobs.start(asked.verb, title, found["command"], found["request"])
        return JSONResponse({"id": name, "link": views.link("job", name)}, 201)

    async def change_job(self, name: NAME, action: asks.Action) -> Response:
        """Pause, resume or stop a job."""
        {"pause": self.jobs.pause, "resume": self.jobs.resume, "stop": self.jobs.stop}[action](name)
        return JSONResponse({"state": self.jobs.find(name).state})

    async def save_design(self, asked: asks.DesignAsked) -> Response:
        """Save a design with changes as a new design file of the folder."""
        found = await self._ask("save", Ask(view="text", design=asked.design,
                                                     sets=asks.sets_of(asked.sets), save=asked.name))
        if "error" in found:
            return JSONResponse(found, 422)
        texts = {**found.get("beside", {}), asked.name: found["text"]}
        for name in texts:
            self._is_new(self.folder.new(name, "name"), name)
        for name, text in texts.items():
            self.folder.write(name, text, "name")
        return JSONResponse({"name": asked.name, "link": views.link("design", asked.name)}, 201)

    @staticmethod
    def _is_new(path: str, name: str) -> None:
        if os.path.exists(path):
            raise InputError("name", f"there is a file {name!r}", expected="another name")

    async def upload(self, request: Request, name: FILE) -> Response:
        """Store a dropped file; its kind is recognised by its content."""
        path = self.folder.new(name, "name", endings=asks.DROPPED)
        self._is_new(path, name)
        try:
            with open(f"{path}.part", "xb") as stream:
                async for piece in request.stream():
                    stream.write(piece)
            os.link(f"{path}.part", path)
        except FileExistsError:
            raise InputError("name", f"there is a file {name!r}", expected="another name") from None
        finally:
            if os.path.exists(f"{path}.part"):
                os.remove(f"{path}.part")
        found = await self._ask("kind", Ask(view="kind", file=name))
        kind = found.get("kind", "other")
        return JSONResponse({"name": name, "kind": kind, "link": views.link("design" if kind == "design" else "file",
                                                                            name)}, 201)

    async def stop(self, request: Request, client: CLIENT) -> Response:
        """End the client's answer."""
        return JSONResponse({"stopped": self.pool.stop(f"{request.scope['astrarium_session']}:{client}")})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return JSONResponse({"error": error.message}, error.status)


async def _wrong(request: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, InputError) and "there is no" in error.message else 422
    return _said(request, str(error), status)


async def _unknown(request: Request, error: Exception) -> Response:
    """What FastAPI refuses: an unknown address, a wrong method, a body that is not JSON."""
    assert isinstance(error, HTTPException)
    return _said(request, f"{request.method} {request.url.path}: {error.detail}", error.status_code)


def _said(request: Request, text: str, status: int) -> Response:
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": text}, status)
    return HTMLResponse(views.shell("Error", views.problem("", text), "", True, ""), status)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(each) for each in first.get("loc", ())[1:])
    return JSONResponse({"error": f"{where}: {first.get('msg', 'is wrong')}"}, 422)
