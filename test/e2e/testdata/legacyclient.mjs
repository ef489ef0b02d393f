// Calls one tool with a client that opens a session, as the TypeScript packages do
// unless they are told otherwise, and prints what it saw as one line of JSON:
// node legacyclient.mjs client|sdk URL TOOL ARGUMENTS
const [name, url, tool, args] = process.argv.slice(2);
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

const client = new Client({ name, version: '0' }, { capabilities: { elicitation: { form: {} } } });
let questions = 0;
client.setRequestHandler(elicit, async () => {
  questions++;
  return { action: 'accept', content: { name: 'Ann', check: true } };
});
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

let progress = 0;
const options = { onprogress: () => progress++ };
const call = { name: tool, arguments: JSON.parse(args) };
const result = await (name === 'sdk' ? client.callTool(call, undefined, options) : client.callTool(call, options));
const seen = { version: transport.protocolVersion, session: transport.sessionId !== undefined, questions, progress, result };
await transport.terminateSession();
console.log(JSON.stringify(seen));
process.exit(0);
