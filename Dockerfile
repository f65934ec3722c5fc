# The laboratory: the lockstep command with tables, charts, studies and ffmpeg. Traces are mounted, not part of the image.
# docs/how-to/container.md has its commands.

FROM rust:1.95-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends cmake g++ make python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python3 -m venv /build \
    && /build/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ffmpeg libvpx7 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
# hadolint ignore=DL3013
RUN set -- /wheels/lockstep_video-*.whl \
    && pip install --no-cache-dir "$1[lab,gym,sessions]" \
    && rm -r /wheels
RUN useradd --create-home --uid 1000 lockstep
USER 1000
WORKDIR /work
ENTRYPOINT ["lockstep"]
CMD ["--help"]
