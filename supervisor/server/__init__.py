"""HTTP/1.1 over Unix stream sockets, for one application that is a function.

Nothing here knows a route, a role or an operation. The transport promises its
application that a `Request` is complete, within bounds and from a living,
identified process; and its clients that they get an answer or a closed
connection, whatever they or others sent.
"""

from supervisor.server.accept import serve
from supervisor.server.listen import Listener, ListenError, bind, inherited
from supervisor.server.messages import App, Request, Response, ServerLimits
from supervisor.server.peer import Peer, groups_of

__all__ = [
    "App",
    "ListenError",
    "Listener",
    "Peer",
    "Request",
    "Response",
    "ServerLimits",
    "bind",
    "groups_of",
    "inherited",
    "serve",
]
