# The service, one image for all its processes. `docker run -p 8000:8000 -v trimtab:/data trimtab`
# starts everything in one container, as `manage.py up` does; docker-compose.yml splits it up.
# `python -m tools.pin_images` sets the digests of today's images.
FROM node:22-slim@sha256:c3de60bf2f9dd0ac6370e6117950ff62d6e339527e7472301c9c78a017978392 AS libraries
WORKDIR /libraries
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund --ignore-scripts

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    TRIMTAB_NO_VENV=1 \
    TRIMTAB_DATA_DIR=/data \
    TRIMTAB_STATIC_ROOT=/trimtab/static
RUN apt-get update \
    && apt-get install -y --no-install-recommends redis-server postgresql-client \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /trimtab
# The packages change less often than the code: a layer of their own.
COPY requirements/demo.txt requirements/
RUN pip install --require-hashes -r requirements/demo.txt
COPY agent agent
RUN pip install --no-deps --no-build-isolation ./agent
COPY --from=libraries /libraries/node_modules node_modules
COPY manage.py LICENSE ./
COPY rules rules
COPY advisor advisor
COPY webapp webapp
COPY examples examples
RUN useradd --system --create-home --uid 10001 trimtab \
    && install -d -o trimtab -g trimtab -m 700 /data \
    && install -d -o trimtab -g trimtab static \
    && python -m compileall -q rules advisor webapp
USER trimtab
# Built once, into the image: the processes of a compose file need not wait for each other.
RUN TRIMTAB_DATA_DIR=/tmp/build python manage.py collectstatic --no-input --verbosity 0 \
    && rm -rf /tmp/build
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
CMD ["python", "manage.py", "up", "--bind", "0.0.0.0:8000"]
