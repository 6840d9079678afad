"""A conversion in processes of its own, so that no file can hang, fill or crash who asked for it.

`python -m advisor.importers.process FOLDER` reads a task from standard input. It fetches the files
into the folder, and forks. The child confines itself (`confinement`), unpacks and converts, and can
write nowhere else. The parent then puts the converted objects into the store and writes how it
ended.
"""
