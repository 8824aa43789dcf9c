# The image of Partita's processes; which one runs is the command's choice (docs/operations.md, docker-compose.yml, examples/deploy/kubernetes).
# All of them run as user 10001 with a read-only root file system: --read-only --tmpfs /tmp. `make image` builds it.
# --build-arg BASE=IMAGE names another base with Python 3.11 or newer, libstdc++ and tzdata: of Debian, or with git and OpenSSH in it.
# --build-arg CUE=program puts the official cue program at /opt/cue/cue (docs/sync-deploy.md). A builder without BuildKit makes
# every stage, for which it would pull the image of Go: with --target control-plane it does not, and the image has no cue program.
ARG BASE=python:3.11-slim-bookworm
ARG CUE=none
FROM ${BASE} AS libraries
# pip reads these from the environment. They are in no layer of the image, which copies the folder alone.
ARG PIP_INDEX_URL
ARG PIP_CERT
RUN python3 -m venv /opt/partita
COPY requirements.txt .
RUN /opt/partita/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.txt \
 && /opt/partita/bin/python -m pip uninstall --quiet --yes pip \
 && /opt/partita/bin/python -c "import celery.app.base, grpc, psycopg, re2, uvloop"  # what the base lacks fails here
# what is in that folder; of the base, its own distribution knows
COPY release release
COPY kernel kernel
RUN /opt/partita/bin/python -m release.bill_of_materials /opt/partita/sbom.cdx.json --requirements requirements.txt

FROM ${BASE} AS control-plane
# A volume takes its owner from the folder that it is first mounted on.
RUN if ! command -v git >/dev/null || ! command -v ssh >/dev/null; then \
      apt-get update \
      && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
      && rm -rf /var/lib/apt/lists/*; \
    fi \
 && echo 'partita:x:10001:' >> /etc/group \
 && echo 'partita:x:10001:10001::/tmp:/usr/sbin/nologin' >> /etc/passwd \
 && mkdir -p /data /inbox /state/gateway /state/watcher /state/orchestrator-worker /cache/git /cache/schemas \
 && chown -R 10001:10001 /data /inbox /state /cache \
 && chmod 0700 /data /inbox /state /state/* && chmod 0750 /cache /cache/*
# HOST: an address inside the container; which addresses of its host are published says `docker run -p`.
ENV PATH=/opt/partita/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOST=0.0.0.0 \
    DATA_DIR=/data \
    PLATFORM_SETTINGS_FILE=/data/configuration.yaml \
    PROFILES_FILE=/data/svc-profiles.yaml
WORKDIR /app
COPY --from=libraries /opt/partita /opt/partita
COPY manage.py partita partita_program.py ./
RUN mkdir -p /usr/local/bin && ln -s /app/partita /usr/local/bin/partita
COPY readers readers
COPY surfaces surfaces
COPY cue cue
COPY kernel kernel
COPY mocks mocks
COPY partita_client partita_client
COPY partita_mock partita_mock
COPY worker worker
COPY sync_stack sync_stack
COPY apps apps
COPY platform_site platform_site
COPY templates templates
COPY static static
RUN python -m compileall -q -j 0 /app
# after that: nothing runs the modules of suites here
# with the documentation site where `make docs` built it; `make image` does
COPY documentation documentation
COPY examples/oci-suites examples/oci-suites
COPY examples/oci-modules examples/oci-modules
COPY examples/starters examples/starters
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Partita" \
      org.opencontainers.image.description="Launches packaged test environments, and keeps configuration equal to Git" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
# What the container's command serves is asked; one that serves nothing is healthy while it runs. Kubernetes has probes instead.
HEALTHCHECK --interval=15s --timeout=10s --start-period=2m --retries=5 CMD ["python", "-m", "kernel.container_health"]
CMD ["python", "manage.py", "help"]

FROM ${BASE} AS cue-none
RUN mkdir -p /opt/cue

FROM golang:1.24-bookworm AS cue-program
ARG CUE_VERSION=v0.14.2
RUN CGO_ENABLED=0 GOBIN=/opt/cue go install cuelang.org/go/cmd/cue@${CUE_VERSION}

FROM cue-${CUE} AS cue

FROM control-plane AS partita
COPY --from=cue /opt/cue /opt/cue
USER 10001:10001
