// The clients of the TypeScript packages: node typescript.mjs CLIENT URL PLAN
// With mcp-remote, the client speaks stdio to that program and it speaks to the URL.
//
// A client that closes takes back what it has not sent yet, a cancellation as well;
// so requests are noted, and close waits until they have their headers.
import { take } from './steps.mjs';

const [name, url, text] = process.argv.slice(2);
const plan = JSON.parse(text);

const sent = [];
function noted(...request) {
  sent.push(fetch(...request));
  return sent.at(-1);
}

async function client2(mode) {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client({ name, version: '0' }, { capabilities, versionNegotiation: { mode } });
  const call = (c, options) => client.callTool(c, options);
  return { client, call, elicit: 'elicitation/create', transport: new StreamableHTTPClientTransport(new URL(url), { fetch: noted }) };
}

async function sdk1(transport) {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client({ name, version: '0' }, { capabilities });
  return { client, call: (c, options) => client.callTool(c, undefined, options), elicit: ElicitRequestSchema, transport };
}

const capabilities = { elicitation: { form: {} } };
const { client, call, elicit, transport } = await {
  legacy: () => client2('legacy'),
  modern: () => client2({ pin: '2026-07-28' }),
  async sdk() {
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return sdk1(new StreamableHTTPClientTransport(new URL(url), { fetch: noted }));
  },
  async 'mcp-remote'() {
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const program = new URL('./node_modules/mcp-remote/dist/proxy.js', import.meta.url).pathname;
    return sdk1(new StdioClientTransport({
      command: process.execPath,
      args: [program, url, '--transport', 'http-only', '--allow-http'],
      env: process.env,
      stderr: 'ignore',
    }));
  },
}[name]();

const taker = {
  questions: 0,
  async close() {
    await Promise.allSettled(sent);
    await client.close();
  },
  connect: () => client.connect(transport),
  list: async () => (await client.listTools()).tools.map((t) => t.name),
  call: (tool, args) => call({ name: tool, arguments: args }),
  async cancel(tool, args) {
    const abort = new AbortController();
    const options = { signal: abort.signal, onprogress: () => abort.abort() };
    const end = await call({ name: tool, arguments: args }, options).then(() => 'a result', () => 'cancelled');
    if (end !== 'cancelled' || !abort.signal.aborted) throw new Error(`the call ended with ${end} before it was cancelled`);
    await client.listTools(); // by now the cancellation is on its way, also through mcp-remote
  },
};
client.setRequestHandler(elicit, async () => {
  taker.questions++;
  return { action: 'accept', content: plan.question.answer };
});
await take(plan, taker);
