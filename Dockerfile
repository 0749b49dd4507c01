# Oka on Ray, for Kubernetes: docker build -t oka:0.1.0-ray2.60.0 .
# The tag says Ray's version, which is that of rayVersion in k8s/base/raycluster.yaml.

FROM rust:1.95.0-slim-bookworm AS rust

# The wheel. Python and its glibc are those of the last stage.
FROM python:3.11.14-bookworm AS build
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
ENV PATH=/usr/local/cargo/bin:$PATH CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup
WORKDIR /src
RUN python -m venv /opt/venv
COPY k8s/requirements.txt k8s/
RUN /opt/venv/bin/python -m pip install --no-cache-dir --require-hashes --requirement k8s/requirements.txt
COPY constraints.txt ./
RUN python -m pip install --no-cache-dir --constraint constraints.txt maturin
COPY pyproject.toml README.md LICENSE Cargo.toml Cargo.lock ./
COPY rust rust
COPY oka oka
COPY engine engine
COPY operators operators
RUN cargo build --release --locked --bins --package oka-native --package oka-s3-server \
    && install -D --strip target/release/oka-s3-server engine/bin/oka-s3-server \
    && maturin build --release --locked --interpreter /opt/venv/bin/python --out /wheels \
    && /opt/venv/bin/python -m pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.11.14-slim-bookworm
RUN useradd --uid 1000 --user-group --home-dir /home/oka --create-home --shell /bin/bash oka
COPY --from=build /opt/venv /opt/venv
# The programs of `oka run pipelines/…`, where pods start, and `oka k8s drain`, which ends them.
COPY pipelines /opt/oka/pipelines
COPY k8s /opt/oka/k8s
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oka PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 RAY_USAGE_STATS_ENABLED=0
WORKDIR /opt/oka
USER 1000:1000
CMD ["oka", "--help"]
