# The image of Partita's processes; which one runs is the command's choice (docker-compose.yml).
# --build-arg CUE=program puts the official cue program at /opt/cue/cue (docs/sync-deploy.md).
ARG CUE=none
FROM python:3.11-slim-bookworm AS libraries
RUN python -m venv /opt/partita
COPY requirements.txt .
RUN /opt/partita/bin/pip install --no-cache-dir --disable-pip-version-check -r requirements.txt

FROM python:3.11-slim-bookworm AS cue-none
RUN mkdir /opt/cue

FROM golang:1.24-bookworm AS cue-program
ARG CUE_VERSION=v0.14.2
RUN CGO_ENABLED=0 GOBIN=/opt/cue go install cuelang.org/go/cmd/cue@${CUE_VERSION}

FROM cue-${CUE} AS cue

FROM python:3.11-slim-bookworm AS partita
# A volume takes its owner from the folder that it is first mounted on.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 partita \
 && useradd --uid 10001 --gid partita --no-create-home --home-dir /tmp --shell /usr/sbin/nologin partita \
 && install -d -o partita -g partita -m 0700 /inbox /state /state/gateway /state/watcher /state/orchestrator-worker \
 && install -d -o partita -g partita -m 0750 /cache /cache/git /cache/schemas
ENV PATH=/opt/partita/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
COPY --from=libraries /opt/partita /opt/partita
COPY --from=cue /opt/cue /opt/cue
COPY manage.py partita ./
RUN ln -s /app/partita /usr/local/bin/partita
COPY readers readers
COPY surfaces surfaces
COPY cue cue
COPY kernel kernel
COPY worker worker
COPY sync_stack sync_stack
COPY apps apps
COPY platform_site platform_site
COPY templates templates
COPY static static
RUN python -m compileall -q -j 0 /app
USER 10001:10001
CMD ["python", "manage.py", "help"]
