"""The web server: an event loop that reads whole requests and sends whole answers.

A thread works on a request only once all of the request is here, and is done with it before the
first byte of the answer is sent. So slow clients hold connections, never threads.
`docs/decisions/0007-whole-requests-first.md` says why.
"""

from webapp.service import late

late.load_when_used(*late.FOR_MEASUREMENTS)
