"""What serves every request, whichever app answers: error answers, rate limits, health, static
files. It imports no app, so that every app can use it."""
