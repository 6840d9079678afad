"""The registered kinds of mail."""

from webapp.notify import budget, recommendation, regression

KINDS = {kind.id: kind for kind in (recommendation.KIND, regression.KIND, budget.KIND)}
