// What a program that logs with OpenTelemetry's SDK for JavaScript needs; the test runs it as it is.
// begin
const { BatchLogRecordProcessor, LoggerProvider } = require("@opentelemetry/sdk-logs");
const { OTLPLogExporter } = require(`@opentelemetry/exporter-logs-otlp-${process.env.FORM}`); // http (JSON) or proto
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { SeverityNumber } = require("@opentelemetry/api-logs");
const provider = new LoggerProvider({
  resource: resourceFromAttributes({ "service.name": "shop" }),
  processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })],
});
const logger = provider.getLogger("orders");
const log = (body) =>
  logger.emit({ severityNumber: SeverityNumber.INFO, severityText: "INFO", body, attributes: { path: "/orders" } });
log("order placed");
// end
for (const line of process.env.LINES.split("\n")) log(line);
provider.shutdown();
