// Sees jobs through as a client that knows no tasks does, by tools alone, and
// prints what it saw as one line of JSON: node tsjobs.mjs client|sdk ERA URL CALLS
// CALLS is a JSON array of {name, arguments}; the last of them is cancelled.
const [name, era, url, calls] = process.argv.slice(2);
const packages = {
  async client() {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    return { Client, StreamableHTTPClientTransport, elicit: 'elicitation/create' };
  },
  async sdk() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
    return { Client, StreamableHTTPClientTransport, elicit: ElicitRequestSchema };
  },
};
const { Client, StreamableHTTPClientTransport, elicit } = await packages[name]();

const options = { capabilities: { elicitation: { form: {} } } };
if (era === 'modern') options.versionNegotiation = { mode: 'auto' };
const client = new Client({ name, version: '0' }, options);
let questions = 0;
client.setRequestHandler(elicit, async () => {
  questions++;
  return { action: 'accept', content: { name: 'Ann', check: true } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const { tools } = await client.listTools(); // what comes is held against outputSchema from here on
const seen = { tools, started: [], results: [] };
const todo = JSON.parse(calls);
for (const call of todo.slice(0, -1)) {
  const started = await client.callTool(call);
  seen.started.push(started);
  const jobId = started.structuredContent.jobId;
  let result;
  do {
    result = await client.callTool({ name: 'job_result', arguments: { jobId, wait: 10 } });
  } while (result.content[0].text.startsWith(`Job ${jobId} `));
  seen.results.push(result);
  seen.status = await client.callTool({ name: 'job_status', arguments: { jobId } });
}
const { jobId } = (await client.callTool(todo.at(-1))).structuredContent;
seen.cancel = await client.callTool({ name: 'job_cancel', arguments: { jobId } });
seen.cancelled = await client.callTool({ name: 'job_result', arguments: { jobId } });
console.log(JSON.stringify({ ...seen, questions }));
process.exit(0);
