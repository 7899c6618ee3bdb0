"""OTLP: the log records of OpenTelemetry's exporters as rows; protobuf and JSON each have a module that reads them."""
