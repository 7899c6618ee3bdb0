# The service without its servers: see docker-compose.yml for PostgreSQL and Redis.
FROM python:3.11-slim AS dependencies
COPY requirements-uv.lock requirements.lock /tmp/
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --disable-pip-version-check --no-cache-dir --require-hashes -r /tmp/requirements-uv.lock \
    && /opt/venv/bin/uv pip sync --no-cache --system-certs --require-hashes --python /opt/venv/bin/python /tmp/requirements.lock

FROM python:3.11-slim
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --user-group --no-create-home --shell /usr/sbin/nologin service
COPY --from=dependencies /opt/venv /opt/venv
WORKDIR /srv/service
COPY . .
# Needs no server and no secret: manage.py makes one that outlives nothing.
RUN python -m compileall -q config endpoints googlesql logsources && python manage.py collectstatic --noinput
USER service
EXPOSE 8000
# Replaces processes that die, grow or hang by itself; --help lists its options.
CMD ["python", "-m", "config.serve", "--host", "0.0.0.0"]
