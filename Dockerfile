# One image, two programs: `gpustack-operator` (the default) and `gpustack-agent`.
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements-image.lock pyproject.toml README.md ./
COPY gpustack_op gpustack_op
RUN python -m venv /opt/gpustack \
    && /opt/gpustack/bin/pip install --no-cache-dir --require-hashes -r requirements-image.lock \
    && /opt/gpustack/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
COPY --from=build /opt/gpustack /opt/gpustack
ENV PATH=/opt/gpustack/bin:$PATH PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["gpustack-operator"]
