"""Everything that serves each request, whichever app answers: error answers, rate limits, health,
static files. This package imports no app, so that every app can use it.
"""
