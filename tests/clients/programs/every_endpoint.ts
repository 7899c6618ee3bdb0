// Calls every endpoint that ships, with the types that openapi-typescript has made of the service's own document.
// docs/clients.md shows lines of it. Called as `node every_endpoint.js <address of the service> <access token>`.
import createClient from "openapi-fetch";
import type { components, paths } from "./logs.js";

type Row = components["schemas"]["LogsAllRow"];
type ErrorCode = components["schemas"]["ErrorCode"];

declare const process: { argv: string[] };
const [, , address = "", accessToken = ""] = process.argv;
const client = createClient<paths, "application/json">({ baseUrl: address, headers: { "X-API-KEY": accessToken } });

function hold(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

// Rows of the stored query, by GET and by POST.
const since = new Date(Date.now() - 7 * 24 * 3600 * 1000).toISOString();
const { data, error } = await client.GET("/api/endpoints/query/logs.all", {
  params: { query: { project: "acme", iso_timestamp_start: since } },
});
hold(data, JSON.stringify(error));
const messages: (string | null)[] = data.result.map((row: Row) => row.event_message);
hold(messages.length > 0, "there are no rows");
const posted = await client.POST("/api/endpoints/query/logs.all", { body: { project: "acme" } });
hold(posted.data?.result.length === messages.length, "POST has other rows");

// Pages: each has the token of the next one.
const rows: Row[] = [];
for (let pageToken: string | undefined; ; ) {
  const page = await client.GET("/api/endpoints/query/logs.all", {
    params: { query: { project: "acme", page_size: 7, page_token: pageToken } },
  });
  hold(page.data, JSON.stringify(page.error));
  rows.push(...page.data.result);
  if (!page.data.next) break;
  pageToken = page.data.next;
}
hold(new Set(rows.map((row) => row.id)).size === rows.length && rows.length > 7, "pages repeat rows");

// A result that the client has already.
const etag = posted.response.headers.get("ETag") ?? "";
const known = await client.GET("/api/endpoints/query/logs.all", {
  params: { query: { project: "acme" }, header: { "If-None-Match": etag, "SVC-ENDPOINT-REDACT-PII": false } },
});
hold(known.response.status === 304, "the result is not known");

// Counts, with an argument that has allowed values.
const counted = await client.GET("/api/endpoints/query/usage.api-counts", {
  params: { query: { interval: "daily", project: "acme" } },
});
hold(counted.data, JSON.stringify(counted.error));
const total: number = counted.data.result.reduce((sum, row) => sum + (row.total_rest_requests ?? 0), 0);
hold(total >= 0, "there is no total");
const body = { interval: "daily", project: "acme" } as const;
hold((await client.POST("/api/endpoints/query/usage.api-counts", { body })).data, "POST has no counts");

// Sandbox queries have an operation of their own, whose rows are open objects.
const sandbox = await client.GET("/api/endpoints/query/name/logs.all", {
  params: { query: { project: "acme", sql: "select count(*) as n from edge_logs" } },
});
const n: unknown = sandbox.data?.result[0]?.["n"];
hold(typeof n === "number", JSON.stringify(sandbox.error));
const buckets = await client.POST("/api/endpoints/query/name/usage.api-counts", {
  body: { ...body, sql: "select count(*) as n from dates" },
});
hold(buckets.data, JSON.stringify(buckets.error));

// A tail: its first page has the newest rows, and where the next one begins.
const tail = await client.POST("/api/endpoints/query/name/logs.all", {
  body: { project: "acme", lql: "s:event_message", tail: true },
});
const nextOfTail: string | undefined = tail.data?.next;
hold(nextOfTail && tail.data?.result.length, JSON.stringify(tail.error));

// A file of columns.
const file = await client.GET("/api/endpoints/query/logs.all", {
  params: { query: { project: "acme" } },
  headers: { Accept: "application/vnd.apache.parquet" },
  parseAs: "arrayBuffer",
});
const bytes: ArrayBuffer | undefined = file.data;
hold(new TextDecoder().decode(bytes?.slice(0, 4)) === "PAR1", "it is no Parquet file");

// A browser token calls for one project alone.
const issued = await client.POST("/api/tokens", {
  body: { endpoints: ["logs.all"], arguments: { project: "acme" }, expires_in: 60 },
});
const visitor: string | undefined = issued.data?.result[0]?.token;
hold(visitor, JSON.stringify(issued.error));
const ofAnother = await client.GET("/api/endpoints/query/logs.all", {
  params: { query: { project: "shop" } },
  headers: { "X-API-KEY": visitor },
});
hold(ofAnother.error?.error.code === "argument_not_allowed", "the token is not bound");

// Errors.
const refused = await client.GET("/api/endpoints/query/name/logs.all", {
  params: { query: { project: "acme", sql: "select * from pg_class" } },
});
const code: ErrorCode | undefined = refused.error?.error.code;
const line: number | undefined = refused.error?.error.details[0]?.line;
hold(code === "sandbox_violation" && line === 1, JSON.stringify(refused.error));
const over = await client.DELETE("/api/calls/{request_id}", { params: { path: { request_id: "report-7" } } });
hold(over.error?.error.code === "call_not_found", "a call runs that nobody made");
const removed = await client.DELETE("/api/endpoints/cache/usage.api-counts");
hold(removed.data?.result[0]?.endpoint === "usage.api-counts", JSON.stringify(removed.error));

// Mistakes: the compiler must refuse each.
// @ts-expect-error an argument of another type
() => client.GET("/api/endpoints/query/logs.all", { params: { query: { project: 1 } } });
// @ts-expect-error a required argument is missing
() => client.GET("/api/endpoints/query/logs.all", { params: { query: {} } });
// @ts-expect-error a required argument is missing
() => client.POST("/api/endpoints/query/logs.all", { body: {} });
// @ts-expect-error a page size that is a text
() => client.GET("/api/endpoints/query/logs.all", { params: { query: { project: "acme", page_size: "7" } } });
// @ts-expect-error an endpoint without pages
(answer: components["schemas"]["UsageApiCountsRows"]) => answer.next;
// @ts-expect-error a value that is not allowed
() => client.POST("/api/endpoints/query/usage.api-counts", { body: { interval: "weekly", project: "acme" } });
// @ts-expect-error an endpoint that is not there
() => client.GET("/api/endpoints/query/logs.some", {});
// @ts-expect-error a column that may be null
(row: Row): string => row.event_message;
// @ts-expect-error a column that is not there
(row: Row) => row.event_mesage;
// @ts-expect-error a code that is not there
((sent: ErrorCode) => sent === "no_such_code");
