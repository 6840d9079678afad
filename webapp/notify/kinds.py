"""The registered kinds of mail."""

from webapp.notify import budget, recommendation

KINDS = {kind.id: kind for kind in (recommendation.KIND, budget.KIND)}
