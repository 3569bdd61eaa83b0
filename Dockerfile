# Two stages: the first has what it takes to install, the second what it takes to run.
# The tag says what the base is; the digest, of the index of all its platforms, is what is pulled. Both change together:
#   make image BASE=python:…@sha256:…
ARG BASE=python:3.13.7-slim-bookworm@sha256:adafcc17694d715c905b4c7bebd96907a1fd5cf183395f0ebc4d3428bd22d92d

FROM ${BASE} AS build
# As in the Makefile.
ARG UV_VERSION=0.13.7
ENV UV_PROJECT_ENVIRONMENT=/opt/plimsoll \
    UV_PYTHON_DOWNLOADS=never \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy
WORKDIR /src
RUN python -m pip install --no-cache-dir --disable-pip-version-check uv==${UV_VERSION}
# The dependencies first: their layer stays for as long as the lock file does.
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-dev --no-install-project
COPY README.md LICENSE ./
COPY src ./src
RUN uv sync --locked --no-dev --no-editable

FROM ${BASE}
LABEL org.opencontainers.image.title="Plimsoll" \
      org.opencontainers.image.description="Keeps a cluster's capacity right and safe, and says why." \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/plimsoll /opt/plimsoll
# Bytecode was compiled above: nothing is written at run time, and the root file system may be read-only.
ENV PATH=/opt/plimsoll/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number, so that runAsNonRoot can be checked without reading the image. The manifests say the same.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["plimsoll"]
CMD ["run"]
