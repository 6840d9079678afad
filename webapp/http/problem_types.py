"""Every kind of refusal: its name in the `type` of problem+json, and what its page says."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from trimtab.wire import FINAL_PROBLEMS, PROBLEMS_PATH


@dataclass(frozen=True)
class ProblemType:
    name: str
    status: int
    title: str
    meaning: str
    fix: str

    @property
    def uri(self) -> str:
        return f"{settings.BASE_URL}{PROBLEMS_PATH}#{self.name}"

    @property
    def is_final(self) -> bool:
        """The agent sets an upload that is refused by it apart. It sends all others again."""
        return self.name in FINAL_PROBLEMS


TYPES = (
    ProblemType(
        "invalid-upload",
        400,
        "Invalid upload",
        "The body was read, but a field or header has a value that is never accepted.",
        "`field` names it, `fix` says what is accepted. Agents don't send such values: report it.",
    ),
    ProblemType(
        "too-many-labels",
        400,
        "Too many labels",
        "The run would have more than 500 tags, parameters or parts of its workload.",
        "Send fewer, under names that don't change.",
    ),
    ProblemType(
        "unreadable-body",
        400,
        "Unreadable body",
        "The body ended early, isn't gzip'd JSON, or doesn't match its SHA-256. Often a proxy "
        "between the agent and the service changed or cut it.",
        "Let the proxy pass bodies unchanged.",
    ),
    ProblemType(
        "unsupported-version",
        400,
        "Unsupported version",
        "The agent is newer than the service and writes a version that the service can't read.",
        "Update the service.",
    ),
    ProblemType(
        "unknown-run",
        400,
        "Unknown run",
        "The file belongs to a run that hasn't arrived, and its job isn't named.",
        "Send the run's declaration or a segment first, or name the job.",
    ),
    ProblemType(
        "invalid-request",
        422,
        "Invalid request",
        "A parameter, field or header is missing or has a wrong value. The status is 400 or 422.",
        "`field` names it, `fix` says what is accepted.",
    ),
    ProblemType(
        "invalid-token",
        401,
        "Invalid token",
        "The token is missing, unknown, expired or revoked.",
        "Create a token under Settings, Tokens.",
    ),
    ProblemType(
        "not-allowed",
        403,
        "Not allowed",
        "The token lacks the required scope, or its creator the required role.",
        "Use a token with the scope that `fix` names.",
    ),
    ProblemType(
        "not-found",
        404,
        "Not found",
        "There is nothing at this URL, or nothing in the token's workspace.",
        "Check the URL and the token.",
    ),
    ProblemType(
        "run-in-another-workspace",
        404,
        "Run in another workspace",
        "The run belongs to a workspace that the token doesn't belong to.",
        "Use a token of the run's workspace, or create a new run id.",
    ),
    ProblemType(
        "method-not-allowed",
        405,
        "Method not allowed",
        "The URL exists, but not for this HTTP method.",
        "Use a method from the header `Allow`.",
    ),
    ProblemType(
        "segment-conflict",
        409,
        "Segment already uploaded",
        "The service already has this segment number, or these seconds of the session, with other "
        "content.",
        "Use each number and each moment of a session once.",
    ),
    ProblemType(
        "session-conflict",
        409,
        "Session of another run",
        "The session already belongs to another run or node.",
        "Create a new session id for each agent process.",
    ),
    ProblemType(
        "too-many-artefacts",
        409,
        "Too many artefacts",
        "The run has 200 artefacts, the maximum.",
        "Pack several files into one.",
    ),
    ProblemType(
        "conflict",
        409,
        "Conflict",
        "The change contradicts what is stored, for instance a name that is taken.",
        "`fix` says what to change.",
    ),
    ProblemType(
        "length-required",
        411,
        "Length required",
        "The body was sent in chunks, without its length.",
        "Send `Content-Length`, and let proxies pass it on.",
    ),
    ProblemType(
        "too-large",
        413,
        "Too large",
        "The body exceeds a limit.",
        "Send it in smaller parts, as the agent does.",
    ),
    ProblemType(
        "unsupported-content",
        415,
        "Unsupported content",
        "`Content-Type` or `Content-Encoding` isn't accepted here.",
        "`fix` names those that are.",
    ),
    ProblemType(
        "too-many-requests",
        429,
        "Too many requests",
        "A limit for the token, the IP address or the workspace is reached.",
        "Wait as many seconds as `Retry-After` says.",
    ),
    ProblemType(
        "quota",
        429,
        "Quota reached",
        "The workspace or the token has used what it may upload, begin or store. Settings, Usage "
        "shows how much that is.",
        "Agents keep their samples and send them later. `fix` says what else to do.",
    ),
    ProblemType(
        "import-quota",
        429,
        "Quota of imports reached",
        "The workspace's imports have used what they may in 24 hours. `field` names the quota; "
        "Settings, Usage shows how much that is.",
        "Agents go on with everything else and try this upload again later.",
    ),
    ProblemType(
        "server-error",
        500,
        "Server error",
        "The service failed. The cause is in the web server's log.",
        "Send the request again later.",
    ),
    ProblemType(
        "unavailable",
        503,
        "Unavailable",
        "The service can't answer at present.",
        "Send the request again later.",
    ),
)
BY_NAME = {each.name: each for each in TYPES}
_OF_STATUS = {
    400: "invalid-request",
    401: "invalid-token",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    411: "length-required",
    413: "too-large",
    415: "unsupported-content",
    422: "invalid-request",
    429: "too-many-requests",
    503: "unavailable",
}


def find_general_type(status: int) -> ProblemType:
    """Return the general type, which is never final."""
    return BY_NAME[_OF_STATUS.get(status, "invalid-request" if status < 500 else "server-error")]
