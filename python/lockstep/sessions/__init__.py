"""Session logs of calls, and the measurements of Concerto on them.

``--session-log DIR`` of every command with calls, and ``lockstep.simulate(session_log=DIR)``, write them. A log has one
row per second and one row per session, as Parquet files with the columns of `SCHEMA`. ``lockstep sessions report DIR``
and ``lockstep sessions sql DIR`` read them; other programs write them with `write_session`. See
``docs/how-to/sessions.md``.
"""

from lockstep.sessions.log import write_session
from lockstep.sessions.schema import SCHEMA, SessionError

__all__ = ["COMMANDS", "SCHEMA", "SessionError", "write_session"]

COMMANDS = {
    "report": "Concerto's measurements on the session logs in a folder",
    "sql": "SQL over the session logs in a folder",
}
"""The commands; each is a module here with a ``main``. ``lockstep sessions generate`` exists only in Rust."""
