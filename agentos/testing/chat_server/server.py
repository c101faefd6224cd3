"""A server of the Chat Completions API that answers from a script, on this machine alone.

    async with ChatServer([{"text": "Hello."}]) as server:
        ...  # a client of server.url, with any key
    assert server.problems == []

A script is that of `agentos.models.script`, whose agents are here the names of models: a list for all, or a mapping from
a model's name to its list; the path of such a file; or a function of the ChatRequest. Steps are `ChatReply`s.
Every request is judged by `agentos.testing.chat_validator`, and refused with a 400 as the API would.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec

from agentos.clock import Clock, SystemClock
from agentos.testing.chat_refusal import Refusal
from agentos.testing.chat_server.answers import completion, error_answer, json_answer, status_answer
from agentos.testing.chat_server.bodies import refused
from agentos.testing.chat_server.faults import Status, WireFault, first
from agentos.testing.chat_server.reply import ChatRequest
from agentos.testing.chat_server.scripts import ChatScript, faults_of
from agentos.testing.chat_server.wire import Answer, BadRequest, Connection, HttpRequest
from agentos.testing.chat_validator import refusals_of_request

HOST = "127.0.0.1"
BASE = "/v1"
CONNECTIONS_MAX = 1_000
REQUESTS_KEPT_MAX = 10_000
Faults = WireFault | Sequence[WireFault]


class Sent(msgspec.Struct, frozen=True):
    """What goes back for a request; number is that of a request for a completion, else 0."""

    answer: Answer
    faults: tuple[WireFault, ...] = ()
    number: int = 0


class ChatServer:
    """Listens from `start` to `close`, or for the length of an `async with`.

    key: the bearer that is asked for; without one any will do. faults: by the number of the request, from 1; every: those
    of all requests. models: names for the list of models beyond those of the script. extra_keys and system_first are
    those of the validator, refusal_status is what its refusals go under,
    on_problem gets each of `problems` as it comes.

    requests are the latest REQUESTS_KEPT_MAX that came. problems are what was refused, each with the request's number;
    left are the numbers of requests whose client did not wait for the end. What a script's function raised is raised
    again at the end of the block, in one ExceptionGroup.
    """

    def __init__(
        self,
        script: object,
        *,
        key: str | None = None,
        faults: Mapping[int, Faults] | None = None,
        every: Sequence[WireFault] = (),
        models: Sequence[str] = (),
        extra_keys: Collection[str] = (),
        system_first: bool = False,
        refusal_status: int = 400,
        on_problem: Callable[[str], object] | None = None,
        clock: Clock | None = None,
        port: int = 0,
    ) -> None:
        self._script = ChatScript(script)
        self._key, self._every, self._models = key, tuple(every), list(models)
        self._extra_keys, self._system_first, self._refusal_status = extra_keys, system_first, refusal_status
        self._on_problem = on_problem
        self.faults: dict[int, Faults] = dict(faults or {})
        self.clock = clock or SystemClock()
        self.port = port
        self.requests: list[ChatRequest] = []
        self.problems: list[str] = []
        self.left: list[int] = []
        self.errors: list[Exception] = []
        self._number = 0
        self._attempts: dict[bytes, int] = {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The base URL that clients are given."""
        return f"http://{HOST}:{self.port}{BASE}"

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._connected, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Ends all connections, whatever they are at."""
        if self._server is None:
            return
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> ChatServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if error is None and self.errors:
            raise ExceptionGroup("while the chat server made its answers", self.errors)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The task is our own: that of asyncio's streams reports its cancellation as an error."""
        if len(self._open) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(Connection(reader, writer, self.clock)))
        self._open.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.errors.append(error)

    async def _serve(self, connection: Connection) -> None:
        try:
            while not connection.is_over and await self._exchange(connection):
                continue
        finally:
            await connection.close()

    async def _exchange(self, connection: Connection) -> bool:
        """One request and its answer; False when none came."""
        try:
            request = await connection.next_request()
        except BadRequest as error:
            answer = error_answer(error.status, str(error))
            await connection.send(msgspec.structs.replace(answer, headers={**answer.headers, "connection": "close"}))
            return False
        if request is None:
            return False
        try:
            sent = await self._answer(request)
        except Exception as error:  # of a script's function: the test is to see it, and the client not to wait
            self.errors.append(error)
            sent = Sent(error_answer(500, f"The script raised {type(error).__name__}."))
        await connection.send(sent.answer, sent.faults)
        if connection.has_left:
            self.left.append(sent.number)
        return True

    async def _answer(self, request: HttpRequest) -> Sent:
        path = request.target.partition("?")[0]
        method, found = self._route(path)
        if not found:
            return Sent(error_answer(404, f"Invalid URL ({request.method} {path})"))
        if request.method != method:
            message = f"Not allowed to {request.method} on {path} (HINT: {method} is)"
            return Sent(error_answer(405, message, headers={"allow": method}))
        wrong = self._wrong_key(request)
        if wrong is not None:
            return Sent(error_answer(401, wrong, code="invalid_api_key"))
        if path == f"{BASE}/models":
            return Sent(json_answer(200, {"object": "list", "data": [self._model(name) for name in self._listed()]}))
        if method == "GET":
            return Sent(self._one_model(path.removeprefix(f"{BASE}/models/")))
        return await self._complete(request)

    @staticmethod
    def _route(path: str) -> tuple[str, bool]:
        """The method of a path, and whether there is such a path."""
        if path == f"{BASE}/chat/completions":
            return "POST", True
        return "GET", path == f"{BASE}/models" or path.startswith(f"{BASE}/models/")

    def _wrong_key(self, request: HttpRequest) -> str | None:
        if self._key is None:
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given:
            return "You didn't provide an API key. Provide it in an Authorization header: Bearer YOUR_KEY."
        return None if hmac.compare_digest(given.encode(), self._key.encode()) else "Incorrect API key provided."

    def _listed(self) -> list[str]:
        return sorted({*self._script.models, *self._models}) or ["scripted"]

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self.created_s, "owned_by": "agentos"}

    def _one_model(self, name: str) -> Answer:
        if name in self._listed():
            return json_answer(200, self._model(name))
        return _no_model(name)

    @property
    def created_s(self) -> int:
        return self.clock.now() // 1_000_000

    async def _complete(self, request: HttpRequest) -> Sent:
        self._number += 1
        number = self._number
        attempt = self._attempt(request.body)
        try:
            body = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            refusals = [Refusal(None, f"We could not parse the JSON body of your request: {error}.")]
            body = None
        else:
            refusals = refusals_of_request(body, extra_keys=self._extra_keys, system_first=self._system_first)
        chat = ChatRequest(number, body, _kept(request.headers), attempt, tuple(map(str, refusals)))
        self.requests.append(chat)
        del self.requests[:-REQUESTS_KEPT_MAX]
        if refusals:
            self._note(number, chat.problems)
            return Sent(json_answer(self._refusal_status, refused(refusals[0]), _id(number)), number=number)
        return await self._reply(chat)

    async def _reply(self, chat: ChatRequest) -> Sent:
        if not self._script.knows(chat.model):
            return Sent(_no_model(chat.model), number=chat.number)
        reply = await self._script.reply_to(chat)
        if reply is None:
            self._note(chat.number, [message := f"The script of {chat.model!r} has no step for this request."])
            return Sent(error_answer(400, message, code="script_exhausted", headers=_id(chat.number)))
        reply, told = faults_of(reply, chat)
        given = self.faults.get(chat.number, ())
        given = given if isinstance(given, Sequence) else (given,)
        faults = tuple(
            fault for fault in (*self._every, *given, *told) if fault.attempts is None or chat.attempt <= fault.attempts
        )
        status = first(faults, Status)
        if status is not None:
            return Sent(status_answer(status, _id(chat.number)), faults, chat.number)
        return Sent(completion(chat, reply, faults, self.created_s, _id(chat.number)), faults, chat.number)

    def _attempt(self, body: bytes) -> int:
        digest = hashlib.sha256(body).digest()
        self._attempts[digest] = self._attempts.pop(digest, 0) + 1
        if len(self._attempts) > REQUESTS_KEPT_MAX:
            del self._attempts[next(iter(self._attempts))]
        return self._attempts[digest]

    def _note(self, number: int, problems: Sequence[str]) -> None:
        told = [f"request {number}: {problem}" for problem in problems]
        self.problems = [*self.problems, *told][-REQUESTS_KEPT_MAX:]
        if self._on_problem is not None:
            for problem in told:
                self._on_problem(problem)


def _no_model(name: str) -> Answer:
    message = f"The model {name!r} does not exist or you do not have access to it."
    return error_answer(404, message, code="model_not_found")


def _id(number: int) -> dict[str, str]:
    return {"x-request-id": f"req_{number}"}


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "authorization"}
