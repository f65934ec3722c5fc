"""The page of a user study on a local address.

The page learns the number of a trial, never the name of a clip:

- `GET /`: the page.
- `GET /trial`: method, number of the next trial and of all trials, and the number of its clips.
- `GET /clip/TRIAL/N`: clip N of a trial, whole or one range of bytes (RFC 9110, section 14).
- `POST /rating`: `{"trial": 3, "rating": 4, "seconds": 1.5}`; the answer is that of `GET /trial`.
"""

import io
import json
import re
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from lockstep.rating.trials import Clip, Ratings

MAX_BODY_BYTES = 1_024
"""Maximum size of a rating's request; the page sends less than 100 bytes."""
PATIENCE_SECONDS = 30.0
"""Time limit for one read or write of a connection."""
CHUNK_BYTES = 64 * 1024
RANGE = re.compile(r"bytes=(?!-$)([0-9]{0,18})-([0-9]{0,18})")
"""One range of bytes. Several ranges and malformed ones get the whole file."""
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class RatingServer(ThreadingHTTPServer):
    """Serves the trials of one participant until `shutdown`, or until the last rating."""

    # A browser may keep a clip's connection open without reading.
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, ratings: Ratings, method: str) -> None:
        """Binds a port of 127.0.0.1; 0 chooses a free one.

        Raises:
            OSError: If the port cannot be bound.

        """
        self.ratings, self.method = ratings, method
        self.page = resources.files("lockstep.rating").joinpath("page.html").read_bytes()
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def hosts(self) -> tuple[str, str]:
        """The values of `Host` that a local browser sends."""
        return (f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a browser that disconnects, as it does after a seek; prints other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def state(self) -> Mapping[str, Any]:
        """The next trial for the page."""
        ratings = self.ratings
        clips = 0 if ratings.finished else len(ratings.trials[ratings.count].clips)
        return {"method": self.method, "trial": ratings.count + 1, "of": len(ratings.trials), "clips": clips}


class _Handler(BaseHTTPRequestHandler):
    server: RatingServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Prints nothing: the terminal shows the address and the result."""

    def do_GET(self) -> None:
        """Answers a request for the page, the next trial or a clip."""
        if not self._is_local():
            return
        if self.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        elif self.path == "/trial":
            with self.server.lock:
                self._answer_state()
        elif (clip := self._clip()) is not None:
            self._answer_clip(clip)
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Stores a rating."""
        if not self._is_local():
            return
        given = self._rating()
        if isinstance(given, HTTPStatus):
            self._refuse(given)
            return
        with self.server.lock:
            try:
                self.server.ratings.append(*given)
            except ValueError:
                self._refuse(HTTPStatus.CONFLICT)
            except OSError as error:
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            else:
                self._answer_state()
            finished = self.server.ratings.finished
        if finished:
            # The answer has left. `shutdown` waits for the loop, which this thread must not block.
            threading.Thread(target=self.server.shutdown).start()

    def _rating(self) -> tuple[int, int, float] | HTTPStatus:
        """Trial, rating and seconds of a request, or the reason against it."""
        # A page of another site sends another origin. A program sends none.
        origin = self.headers.get("Origin")
        length = self.headers.get("Content-Length", "")
        if self.path != "/rating":
            return HTTPStatus.NOT_FOUND
        if origin is not None and origin not in [f"http://{host}" for host in self.server.hosts]:
            return HTTPStatus.FORBIDDEN
        if not re.fullmatch(r"[0-9]{1,9}", length):
            return HTTPStatus.LENGTH_REQUIRED
        if int(length) > MAX_BODY_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        try:
            given = json.loads(self.rfile.read(int(length)))
            trial, rating, seconds = given["trial"], given["rating"], given["seconds"]
            if type(trial) is int and type(rating) is int and type(seconds) in (int, float):
                return trial, rating, float(seconds)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            pass
        return HTTPStatus.BAD_REQUEST

    def _is_local(self) -> bool:
        """Whether the request names this server; otherwise answers it. Protects against DNS rebinding."""
        if self.headers.get("Host") in self.server.hosts:
            return True
        self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
        return False

    def _clip(self) -> Clip | None:
        """The clip of a path, by numbers only: no path of a file comes from a request."""
        found = re.fullmatch(r"/clip/([1-9][0-9]{0,8})/([12])", self.path)
        trials = self.server.ratings.trials
        if found is None or int(found[1]) > len(trials):
            return None
        clips = trials[int(found[1]) - 1].clips
        return clips[int(found[2]) - 1] if int(found[2]) <= len(clips) else None

    def _answer_clip(self, clip: Clip) -> None:
        try:
            file = clip.path.open("rb")
        except OSError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            return
        with file:
            size = file.seek(0, io.SEEK_END)
            asked = RANGE.fullmatch(self.headers.get("Range", ""))
            span = range(size) if asked is None else _span(asked, size)
            if not span:
                headers = {"Content-Range": f"bytes */{size}"}
                self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers=headers)
                return
            status, headers = HTTPStatus.OK, {"Accept-Ranges": "bytes"}
            if asked is not None:
                status = HTTPStatus.PARTIAL_CONTENT
                headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
            self._send_head(status, clip.media_type, len(span), headers)
            file.seek(span.start)
            for at in range(span.start, span.stop, CHUNK_BYTES):
                self.wfile.write(file.read(min(CHUNK_BYTES, span.stop - at)))

    def _answer_state(self) -> None:
        self._answer(HTTPStatus.OK, "application/json", json.dumps(self.server.state()).encode())

    def _refuse(self, status: HTTPStatus, reason: str = "", headers: Mapping[str, str] | None = None) -> None:
        text = f"{status.value} {status.phrase}" + (f": {reason}" if reason else "")
        self._answer(status, "text/plain; charset=utf-8", f"{text}\n".encode(), headers)

    def _answer(
        self, status: HTTPStatus, media_type: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self._send_head(status, media_type, len(body), headers or {})
        self.wfile.write(body)

    def _send_head(self, status: HTTPStatus, media_type: str, length: int, headers: Mapping[str, str]) -> None:
        common = {
            "Content-Type": media_type,
            "Content-Length": str(length),
            "Connection": "close",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Content-Security-Policy": POLICY,
        }
        self.send_response(status)
        for name, value in {**common, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _span(asked: re.Match[str], size: int) -> range:
    """The bytes of a range; empty if the file lacks them."""
    first, last = asked.groups()
    if not first:
        return range(max(0, size - int(last)), size)
    return range(int(first), min(size, int(last) + 1) if last else size)
