"""What a program that logs with OpenTelemetry's SDK for Python needs; the test runs it as it is."""

# begin
import logging

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

provider = LoggerProvider(resource=Resource.create({"service.name": "shop"}))
provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
logging.getLogger().addHandler(LoggingHandler(logger_provider=provider))
logging.getLogger().setLevel(logging.INFO)
logging.info("order placed", extra={"path": "/orders"})
# end

import os

for line in os.environ["LINES"].split("\n"):
    logging.info(line, extra={"path": "/orders"})
provider.shutdown()
