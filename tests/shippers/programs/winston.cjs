// What a program that logs with winston needs; the test runs it as it is.
// begin
const { randomUUID } = require("node:crypto");
const winston = require("winston");
const address = new URL(process.env.LOGS_URL);
const withId = winston.format((info) => Object.assign(info, { id: randomUUID() }));
const logger = winston.createLogger({
  format: winston.format.combine(winston.format.timestamp(), withId()),
  transports: [
    new winston.transports.Http({
      ssl: address.protocol === "https:",
      host: address.hostname,
      port: address.port,
      path: "/logs?source=edge_logs&bad_rows=skip",
      headers: { "X-API-KEY": process.env.LOGS_TOKEN },
      batch: true,
      batchCount: 100,
      batchInterval: 1000,
    }),
  ],
});
logger.info("order placed", { path: "/orders" });
// end
for (const line of process.env.LINES.split("\n")) logger.info(line, { path: "/orders" });
