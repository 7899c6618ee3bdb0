// What a program that logs with pino needs; the test runs it as it is.
// begin
const pino = require("pino");
const logger = pino(
  pino.transport({
    target: "pino-logflare",
    options: {
      apiBaseUrl: process.env.LOGS_URL,
      apiKey: process.env.LOGS_TOKEN,
      sourceToken: "edge_logs&bad_rows=skip",
    },
  }),
);
logger.info({ path: "/orders" }, "order placed");
// end
for (const line of process.env.LINES.split("\n")) logger.info({ path: "/orders" }, line);
