"""Samples at rest: compacts nodes' segments, and makes the chunks that charts and analyses read."""
