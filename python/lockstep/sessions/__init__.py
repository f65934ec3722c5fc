"""Session logs: what calls leave of themselves, and what Concerto's measurement asked of such logs.

``--session-log DIR`` of every command that makes calls, and ``lockstep.simulate(session_log=DIR)``, leave a row a
second and a row a session, as Parquet files with the columns of `SCHEMA`. ``lockstep sessions report DIR`` and
``lockstep sessions sql DIR`` read them; other programs write them with `write_session`. ``docs/sessions.md`` says more.
"""

from lockstep.sessions.log import write_session
from lockstep.sessions.schema import SCHEMA, SessionError

__all__ = ["COMMANDS", "SCHEMA", "SessionError", "write_session"]

COMMANDS = {
    "report": "what Concerto measured of calls, of the session logs in a folder",
    "sql": "SQL over the session logs in a folder",
}
"""The commands, each a module here with a ``main``. ``lockstep sessions generate`` is the Rust command's alone."""
