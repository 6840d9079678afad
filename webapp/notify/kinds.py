"""The kinds of mail that there are."""

from webapp.notify import budget, recommendation

KINDS = {kind.id: kind for kind in (recommendation.KIND, budget.KIND)}
